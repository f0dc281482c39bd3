"""Texts with images, whose bytes tell where they lie."""

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import AddedToken
from tokenizers import Tokenizer as Library

import pagefeed as pf
from made.tokenizers_made import tokenizer_json

PLACEHOLDER = "<image>"
LENGTH = 256
"""Of packed sequences."""


@cache
def tokenizer() -> pf.Tokenizer:
    """A small tokenizer with a token for images."""
    library = Library.from_str(tokenizer_json("llama3"))
    library.add_special_tokens([AddedToken(PLACEHOLDER, special=True)])
    return pf.Tokenizer(library, name="with images", eos="<|endoftext|>")


def png(width: int, height: int, told: str = "") -> bytes:
    """Bytes that begin as those of a PNG, and end with a text."""
    size = struct.pack(">II", width, height)
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"\x08\x02\0\0\0" + told.encode()


def tokens(width: int, height: int) -> int:
    """Tokens of an image: a patch of 16 x 16 pixels each."""
    return -(-width // 16) * -(-height // 16)


class Row(NamedTuple):
    """A text with its images."""

    text: str
    images: list[Any]
    sizes: list[tuple[int, int]]


def rows(count: int, seed: int = 0, most: int = 4) -> list[Row]:
    """Make rows with 0 to ``most`` images, the bytes of which name row and number."""
    rng = np.random.default_rng(seed)
    made = []
    for row in range(count):
        words, images, sizes = [f"row{row}"], [], []
        for number in range(int(rng.integers(0, most + 1))):
            width, height = rng.integers(1, 100, 2).tolist()
            images.append(png(width, height, json.dumps([row, number])))
            sizes.append((width, height))
            words += ["word"] * int(rng.integers(0, 9)) + [PLACEHOLDER]
        words += ["end"] * int(rng.integers(0, 30))
        made.append(Row(" ".join(words), images, sizes))
    return made


def write(
    folder: Path, made: list[Row], files: int = 2, kind: Any = None, **settings: Any
) -> None:
    """Write rows as files of texts and lists of images."""
    settings = {"row_group_size": 40, "data_page_size": 2000} | settings
    for number, part in enumerate(np.array_split(np.arange(len(made)), files)):
        some = [made[row] for row in part.tolist()]
        table = pa.table(
            {
                "text": [row.text for row in some],
                "images": pa.array(
                    [row.images for row in some], kind or pa.list_(pa.binary())
                ),
                "sizes": pa.array(
                    [[[*size] for size in row.sizes] for row in some],
                    pa.list_(pa.list_(pa.int32())),
                ),
                "chat": [json.dumps(_chat(row.text)) for row in some],
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", **settings)


def _chat(text: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": text},
        {"role": "assistant", "content": "seen"},
    ]


def dataset(folder: Path, cache_dir: Path | None = None, **settings: Any) -> Any:
    """Name the files as a dataset with images."""
    plain = pf.parquet(folder, column="text", cache_dir=cache_dir)
    plain = plain.tokenize(tokenizer())
    right: dict[str, Any] = {"placeholder": PLACEHOLDER, "tokens": tokens}
    return pf.with_images(plain, "images", **right | settings)


def loader(data: Any, **options: Any) -> pf.Loader:
    """Make a loader of packed documents with images."""
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH, eos=0, split="never"),
        "batch_size": 4,
        "seed": 2,
        "drop_last": False,
        "fields": ("input_ids", "labels"),
        "memory": "64MiB",
    }
    return pf.Loader(data, **settings | options)


def place_of(image: Any) -> tuple[int, int]:
    """Row and number of an image, as its bytes tell."""
    told = bytes(image)[len(png(1, 1)) :].rstrip(b"\0")
    row, number = json.loads(told)
    return row, number


def places_in(one: pf.Loader) -> list[tuple[int, int]]:
    """Row and number of all images of an epoch."""
    return [place_of(data) for batch in one for data in batch["images"]["data"]]
