"""Saved indexes and arrays made wrong: made anew, or refused by a typed error."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pagefeed as pf

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


def saved() -> tuple[dict[str, bytes], str]:
    """What a first process leaves in a cache folder, and a digest of what it read."""
    with tempfile.TemporaryDirectory(prefix="pagefeed-saved-") as folder:
        digest = digest_of(folder)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return files, digest
