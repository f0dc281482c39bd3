"""Saved indexes and arrays made wrong: made anew, or refused by a typed error."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pagefeed as pf
from made import images
from pagefeed.dataset import write_index

DATA = Path(__file__).resolve().parent / "seeds" / "plain-index.parquet"
LOADER: dict[str, Any] = {
    "batch_size": 2,
    "rank": 0,
    "world_size": 1,
    "memory": "16MiB",
    "num_threads": 1,
}
NEVER_SPLIT = pf.Packed(8, bos=1, eos=2, repeat_bos=True)


def _tokens(folder: str) -> Any:
    return pf.parquet(DATA, column="tokens", cache_dir=folder)


def _loaded(dataset: Any, sequences: Any = None, **options: Any) -> Iterable[Any]:
    return pf.Loader(dataset, sequences=sequences or pf.Windows(8), **LOADER | options)


def _selected(folder: str) -> Iterable[Any]:
    dataset = _tokens(folder).where("number > 3")
    documents = pf.Documents(columns=["tokens", "number"])
    for sequences in (pf.Windows(8), pf.Packed(8, eos=1), documents):
        yield from _loaded(dataset, sequences)


def _budgeted(folder: str) -> Iterable[Any]:
    options = {"batch_size": None, "batch_tokens": 24}
    return _loaded(_tokens(folder), pf.Documents(max_length=8), **options)


def _with_images(folder: str, corpus: Path) -> Iterable[Any]:
    dataset = images.dataset(corpus / "images", Path(folder))
    options = {"balance": pf.Balance(images=1)}
    for batch in _loaded(dataset, pf.Packed(images.LENGTH, split="never"), **options):
        yield batch["input_ids"]  # The images are objects, with addresses.


def _tokenized(folder: str) -> Iterable[Any]:
    plain = pf.parquet(DATA, column="text", cache_dir=folder)
    return _loaded(plain.tokenize(images.tokenizer()), pf.Windows(8, eos=0))


def write_corpus(folder: Path) -> None:
    """Write the files of those kinds that have their own."""
    (folder / "images").mkdir()
    images.write(folder / "images", images.rows(12))
    rows = [{"tokens": [*range(row % 5)]} for row in range(20)]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


INFILL = pf.Infill(rate=0.5, spm=0.5, prefix=1, middle=2, suffix=3)
KINDS: dict[str, Callable[[str, Path], Iterable[Any]]] = {
    "selected": lambda folder, _: _selected(folder),
    "by length": lambda folder, _: _loaded(
        _tokens(folder).by_length([5])["tokens < 5"], pf.Packed(8)
    ),
    "never split": lambda folder, _: _loaded(_tokens(folder), NEVER_SPLIT),
    "balanced": lambda folder, _: _loaded(_tokens(folder), balance="attention"),
    "budgeted": lambda folder, _: _budgeted(folder),
    "taken": lambda folder, _: _loaded(_tokens(folder).take(share=0.5)),
    "erased": lambda folder, _: _loaded(_tokens(folder).erase(where="number == 5")),
    "infilled": lambda folder, _: _loaded(_tokens(folder).infill(INFILL)),
    "tokenized": lambda folder, _: _tokenized(folder),
    "images": _with_images,
    "lines": lambda folder, corpus: _loaded(
        pf.rows(corpus / "a.jsonl", column="tokens", cache_dir=folder)
    ),
}
"""What is delivered by way of the indexes and arrays of each kind in a cache folder."""


def digest_of(folder: str, kind: str, corpus: str) -> str:
    """A digest of all batches, read by way of indexes and arrays there."""
    hashed = hashlib.sha256()
    for batch in KINDS[kind](folder, Path(corpus)):
        hashed.update(repr(batch).encode())
    return hashed.hexdigest()


def shared_digest_of(corpus: str, index: str) -> str:
    """A digest of the batches of a small corpus, read by way of its shared index."""
    data = pf.parquet(corpus, column="tokens", index=index)
    hashed = hashlib.sha256()
    for batch in pf.Loader(data, sequences=pf.Windows(8), **LOADER):
        hashed.update(repr(batch).encode())
    return hashed.hexdigest()


def shared(folder: Path) -> tuple[dict[str, bytes], str]:
    """Make a corpus in a folder; return its index, and a digest of what is read."""
    for number in range(2):
        (folder / f"{number}.parquet").write_bytes(DATA.read_bytes())
    write_index(folder, folder / "_pagefeed", column="tokens")
    paths = (folder / "_pagefeed").glob("*.index")
    files = {path.name: path.read_bytes() for path in paths}
    return files, shared_digest_of(f"{folder}", f"{folder}/_pagefeed")


def saved(kind: str, corpus: str) -> tuple[dict[str, bytes], str]:
    """What a first process leaves in a cache folder, and a digest of what it read."""
    with tempfile.TemporaryDirectory(prefix="pagefeed-saved-") as folder:
        digest = digest_of(folder, kind, corpus)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return files, digest
