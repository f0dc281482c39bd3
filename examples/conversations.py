"""Chats, pairs of answers and prompts as Parquet, for the examples of TRL's trainers.

    python examples/conversations.py data/

Each row has a number of its own, ``id``; ``data/tokenizer.json`` makes bytes of text.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<pad>", "<turn>", "<end>")
TEMPLATE = (
    "{% for message in messages %}<turn>{{ message.role }}: "
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }}<end>"
    "{% endgeneration %}{% else %}{{ message.content }}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<turn>assistant: {% endif %}"
)
ROWS = 64


def write_tokenizer(folder: Path) -> Tokenizer:
    """Write a tokenizer of bytes, with a template whose answers carry the loss."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "eos_token": "<end>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


def main(folder: Path) -> None:
    """Write a file of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = write_tokenizer(folder)

    def ids(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch(texts)]

    sums = [(f"{n} + {n * n % 7} = ?", f"{n + n * n % 7}") for n in range(ROWS)]
    asked = [f"<turn>user: {text}<end><turn>assistant: " for text, _ in sums]
    chats = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
        for text, answer in sums
    ]
    numbers = list(range(ROWS))
    tables = {
        "chats": {"id": numbers, "messages": chats},
        "pairs": {
            "id": numbers,
            "prompt_ids": ids(asked),
            "chosen_ids": ids([f"{answer}<end>" for _, answer in sums]),
            "rejected_ids": ids([f"not {answer}0<end>" for _, answer in sums]),
        },
        "prompts": {"id": numbers, "prompt": asked, "answer": [a for _, a in sums]},
    }
    for name, table in tables.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet", row_group_size=16)
    print(f"{ROWS} rows each of {', '.join(tables)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
