"""Saved indexes and arrays made wrong: made anew, or refused by a typed error."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pagefeed as pf
from pagefeed.dataset import write_index

DATA = Path(__file__).resolve().parent / "seeds" / "plain-index.parquet"
LOADER: dict[str, Any] = {
    "batch_size": 2,
    "rank": 0,
    "world_size": 1,
    "memory": "16MiB",
    "num_threads": 1,
}


def digest_of(cache: str) -> str:
    """A digest of all batches, read by way of indexes, selections and sums there."""
    hashed = hashlib.sha256()
    dataset = pf.parquet(DATA, column="tokens", cache_dir=cache).where("number > 3")
    documents = pf.Documents(columns=["tokens", "number"])
    for sequences in (pf.Windows(8), pf.Packed(8, eos=1), documents):
        for batch in pf.Loader(dataset, sequences=sequences, **LOADER):
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


def saved() -> tuple[dict[str, bytes], str]:
    """What a first process leaves in a cache folder, and a digest of what it read."""
    with tempfile.TemporaryDirectory(prefix="pagefeed-saved-") as folder:
        digest = digest_of(folder)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return files, digest
