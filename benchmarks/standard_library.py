"""A small real corpus: the standard library's sources, as text."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from pagefeed.cli.demo.data import EOS, train_bpe
from pagefeed.core._base import require
from pagefeed.remote import make_folder

NUM_FILES = 4
VOCABULARY = 8192
EXCLUDED = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}
PURPOSE = "the demo"


def make_corpus(folder: Path) -> list[Path]:
    """Write texts as Parquet and return the files.

    ``text-*.parquet`` hold a document per row (``text``); next to them lies
    ``tokenizer.json``. Files of an earlier run are used again.
    """
    files = [folder / f"text-{index}.parquet" for index in range(NUM_FILES)]
    if all(path.exists() for path in files):
        return files
    make_folder(str(folder))
    documents = list(standard_library())
    texts = [document["text"] for document in documents]
    print(f"  {len(texts):,} documents, {sum(map(len, texts)) / 1e6:.1f} M characters")
    tokenizer = train_bpe(texts[::4], VOCABULARY, [EOS])
    tokenizer.save(str(folder / "tokenizer.json"))
    for index, path in enumerate(files):
        _write(documents[index::NUM_FILES], path)
    return files


def standard_library() -> Iterator[dict[str, str]]:
    """Yield name and text of every source file."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if not EXCLUDED.intersection(relative.parts):
            text = path.read_text(encoding="utf-8", errors="replace")
            yield {"id": str(relative), "text": text}


def _write(documents: list[dict[str, str]], path: Path) -> None:
    pyarrow = require("pyarrow", extra="demo", purpose=PURPOSE)
    parquet = require("pyarrow.parquet", extra="demo", purpose=PURPOSE)
    # Written aside and renamed: a run that was stopped leaves no half file.
    partial = path.with_suffix(".partial")
    table = pyarrow.Table.from_pylist(documents)
    # By default a page has a thousand rows at least, which here would be all.
    options = {"write_page_checksum": True, "write_batch_size": 4}
    parquet.write_table(table, partial, data_page_size=1 << 16, **options)
    partial.rename(path)
