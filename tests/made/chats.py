"""Chats, templates and a tokenizer that has one."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from made.tokenizers_made import tokenizer_json

_TURN = "{{ '<|im_start|>' + message.role + '\n' }}"
_SAID = "{{ message.content + '<|im_end|>' }}"
_BEFORE = "{% if bos_token is defined and false %}{{ bos_token }}{% endif %}"
_AFTER = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

PLAIN = (
    f"{_BEFORE}{{% for message in messages %}}{_TURN}{_SAID}{{{{ '\n' }}}}"
    f"{{% endfor %}}{_AFTER}"
)
"""A template without generation blocks."""

_BLOCKS = (
    f"{_BEFORE}{{% for message in messages %}}{_TURN}"
    "{% if message.role == 'assistant' %}"
    f"{{% generation %}}{_SAID}{{% endgeneration %}}"
    f"{{% else %}}{_SAID}{{% endif %}}{{{{ '\n' }}}}{{% endfor %}}{_AFTER}"
)

TEMPLATES = {
    "chatml": _BLOCKS,
    "content alone": _BLOCKS.replace(
        f"{{% generation %}}{_SAID}{{% endgeneration %}}",
        "{%- generation %}{{ message.content }}{% endgeneration %}{{ '<|im_end|>' }}",
    ),
    "eos": "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "[INST] {{ m.content | trim }} [/INST]{% elif m.role == 'assistant' %}"
    "{%- generation -%} {{ m.content }}{{ eos_token }} {%- endgeneration -%}"
    "{% else %}{{ m | tojson }}{% endif %}{% endfor %}",
}
"""Templates with generation blocks, by their names."""

CHATS = [
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi, what's up? <|im_end|>"},
        {"role": "assistant", "content": "Hello! 👩‍💻"},
        {"role": "user", "content": "Zwölf 漢字\n\n"},
        {"role": "assistant", "content": "Bye."},
    ],
    [{"role": "user", "content": "Nobody answers."}],
    [
        {"role": "user", "content": " x", "name": None},
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "user", "content": "and"},
        {"role": "assistant", "content": "  camelCaseXML 🇩🇪"},
    ],
]


def write_chat_tokenizer(folder: Path, template: str) -> Path:
    """Write a tokenizer.json with special tokens, and its configuration beside it."""
    tokenizer = Tokenizer.from_str(tokenizer_json("llama3"))
    tokenizer.add_special_tokens(["<s>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / "tokenizer.json"
