"""Chats, templates and a tokenizer that has one."""

import json
from pathlib import Path
from typing import Any

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

DEEPSEEK = (
    "{% if not add_generation_prompt is defined %}"
    "{% set add_generation_prompt = false %}{% endif %}"
    "{% set ns = namespace(is_tool=false, system_prompt='') %}"
    "{%- for message in messages %}{%- if message['role'] == 'system' %}"
    "{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}"
    "{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}"
    "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}"
    "{{'<U>' + message['content']}}{%- endif %}"
    "{%- if message['role'] == 'assistant' and message['content'] is none %}"
    "{%- for tool in message['tool_calls'] %}{{'<A><call>' + tool['function']['name']"
    " + ' ' + tool['function']['arguments'] + '<|im_end|>'}}{%- endfor %}{%- endif %}"
    "{%- if message['role'] == 'assistant' and message['content'] is not none %}"
    "{% set content = message['content'] %}{% if '</think>' in content %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{'<A>' + content + '<|im_end|>'}}{%- endif %}"
    "{%- if message['role'] == 'tool' %}{{'<R>' + message['content']}}{%- endif %}"
    "{%- endfor -%}{% if add_generation_prompt %}{{'<A><think>\\n'}}{% endif %}"
)
"""A template of DeepSeek-R1's kind: prompts begin thoughts, which are dropped."""

QWEN = (
    "{%- if tools %}{{- '<|im_start|>system\n' }}{%- for tool in tools %}"
    "{{- tool | tojson }}{%- endfor %}{{- '<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role == 'assistant' %}"
    "{%- set thought = message.reasoning_content if message.reasoning_content is string"
    " else '' %}{{- '<|im_start|>assistant\n' }}{%- if loop.last %}"
    "{{- '<think>\n' + thought + '\n</think>\n\n' }}{%- endif %}"
    "{{- message.content + '<|im_end|>\n' }}{%- else %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""A template of Qwen3's kind: the last answer alone has a place for thoughts."""

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
            },
        },
    }
]
CALLS: list[Any] = [
    {"role": "user", "content": "Rain in Köln?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Köln"}'},
            }
        ],
    },
    {"role": "tool", "content": "dry"},
    {"role": "assistant", "content": "It is dry."},
]
"""A chat in which a tool is called, by a message whose content is null."""

CHATS: list[Any] = [
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
