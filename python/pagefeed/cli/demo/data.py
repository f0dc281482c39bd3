"""Example data for the guides and first tries: small, and always the same.

The texts are made of sentences about a few subjects, with lengths, languages and
qualities as uneven as those of a real corpus.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pagefeed.core._base import require
from pagefeed.remote import make_folder

VOCABULARY = 1024
EOS = "<|eos|>"
CHAT_TOKENS = ("<|user|>", "<|assistant|>", "<|prefix|>", "<|suffix|>", "<|middle|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message.role + '|>' }}"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }}"
    "<|eos|>{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}"
)
WORDS = {
    "en": {
        "who": "the reader|a lighthouse|our neighbour|the old river|a small engine",
        "does": "follows|remembers|measures|carries|repairs|describes",
        "what": "the long road|every letter|a broken clock|the first snow|many ships",
        "how": "without a word|in the morning|near the harbour|for seven years",
    },
    "de": {
        "who": "der Leser|ein Leuchtturm|unsere Nachbarin|der alte Fluss",
        "does": "begleitet|vergisst|vermisst|trägt|beschreibt",
        "what": "die lange Straße|jeden Brief|eine kaputte Uhr|viele Schiffe",
        "how": "ohne ein Wort|am Morgen|nahe am Hafen|sieben Jahre lang",
    },
}
NAMES = ["count", "total", "place", "reader", "width", "offset", "limit", "token"]
FILES = {"web": 4, "code": 2}
DOCUMENTS = {"web": 600, "code": 300}


def write_data(folder: Path) -> list[Path]:
    """Write the data and return its files, folder by folder.

    ``web/*.parquet`` and ``code/*.parquet`` hold a document a row, as text and as
    tokens; ``chats.jsonl`` holds conversations; ``tokenizer.json`` made the tokens.
    """
    chosen = random.Random(0)  # noqa: S311 - not a secret
    rows = {
        "web": [_web(chosen, index) for index in range(DOCUMENTS["web"])],
        "code": [_code(chosen, index) for index in range(DOCUMENTS["code"])],
    }
    chats = [_chat(chosen) for _ in range(100)]
    texts = [row["text"] for of_source in rows.values() for row in of_source]
    make_folder(str(folder))
    tokenizer = _train(texts, folder / "tokenizer.json")
    files = [
        path
        for name, of_source in rows.items()
        for path in _write(folder / name, of_source, tokenizer, FILES[name])
    ]
    lines = "".join(json.dumps(chat, ensure_ascii=False) + "\n" for chat in chats)
    (folder / "chats.jsonl").write_text(lines, encoding="utf-8")
    return [*files, folder / "chats.jsonl", folder / "tokenizer.json"]


def _web(chosen: random.Random, index: int) -> dict[str, Any]:
    lang = chosen.choices(["en", "de"], [4, 1])[0]
    many = _how_many(chosen)
    return {
        "id": f"web-{index:04}",
        "url": f"https://example.org/{lang}/{index}",
        "lang": lang,
        "quality": round(chosen.betavariate(4, 2), 3),
        "text": " ".join(_sentence(chosen, lang) for _ in range(many)),
    }


def _code(chosen: random.Random, index: int) -> dict[str, Any]:
    functions = [_function(chosen) for _ in range(1 + _how_many(chosen) // 3)]
    return {
        "id": f"code-{index:04}",
        "repo": f"example/{index % 40}",
        "license": chosen.choice(["mit", "apache-2.0", "gpl-3.0"]),
        "quality": round(chosen.betavariate(3, 2), 3),
        "text": "\n\n".join(functions) + "\n",
    }


def _chat(chosen: random.Random) -> dict[str, Any]:
    messages = []
    for _ in range(chosen.randint(1, 3)):
        question = f"Who {_words(chosen, 'en')['does']} that?"
        messages += [
            {"role": "user", "content": question},
            {"role": "assistant", "content": _sentence(chosen, "en")},
        ]
    return {"messages": messages}


def _how_many(chosen: random.Random) -> int:
    """Parts of a document: most are short, few are very long."""
    return max(1, min(400, round(chosen.lognormvariate(2.2, 1.1))))


def _words(chosen: random.Random, lang: str) -> dict[str, str]:
    parts = WORDS[lang].items()
    return {name: chosen.choice(words.split("|")) for name, words in parts}


def _sentence(chosen: random.Random, lang: str) -> str:
    text = "{who} {does} {what} {how}.".format(**_words(chosen, lang))
    return text[0].upper() + text[1:]


def _function(chosen: random.Random) -> str:
    name, first, second = chosen.sample(NAMES, 3)
    return (
        f"def {name}({first}, {second}):\n"
        f"    if {first} > {second}:\n"
        f"        return {first} - {second}\n"
        f"    return {chosen.randint(0, 99)} * {second}"
    )


def train_bpe(texts: list[str], vocab_size: int, special_tokens: list[str]) -> Any:
    """Return a byte-level BPE of texts, as a ``tokenizers.Tokenizer``."""
    tokenizers = require("tokenizers", extra="demo", purpose="the demo")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train(texts: list[str], path: Path) -> Callable[[str], list[int]]:
    tokenizer = train_bpe(texts, VOCABULARY, [EOS, *CHAT_TOKENS])
    tokenizer.save(str(path))
    config = {"eos_token": EOS, "chat_template": CHAT_TEMPLATE}
    path.with_name("tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return lambda text: list(tokenizer.encode(text).ids)


def _write(
    folder: Path,
    rows: list[dict[str, Any]],
    encode: Callable[[str], list[int]],
    num_files: int,
) -> list[Path]:
    pa = require("pyarrow", extra="demo", purpose="example data")
    parquet = require("pyarrow.parquet", extra="demo", purpose="example data")
    make_folder(str(folder))
    paths = []
    for index in range(num_files):
        of_file = rows[index::num_files]
        tokens = [encode(row["text"]) for row in of_file]
        table = pa.Table.from_pylist(of_file)
        column = pa.array(tokens, pa.list_(pa.int32()))
        paths.append(folder / f"part-{index}.parquet")
        parquet.write_table(
            table.append_column("input_ids", column),
            paths[-1],
            data_page_size=16 << 10,
            write_page_index=True,
            write_page_checksum=True,
        )
    return paths
