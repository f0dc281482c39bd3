"""Saved indexes and arrays made wrong: made anew, or refused by a typed error."""

import hashlib
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pagefeed as pf

DATA = Path(__file__).resolve().parent / "seeds" / "plain-index.parquet"
LOADER: dict[str, Any] = {
    "batch_size": 2,
    "rank": 0,
    "world_size": 1,
    "memory": "16MiB",
    "num_threads": 1,
}


class Saved(NamedTuple):
    """What a first process leaves in a cache folder, and what it has read."""

    files: dict[str, bytes]
    digest: str


def digest_of(cache: str) -> str:
    """A digest of all batches, read by way of indexes, selections and sums there."""
    hashed = hashlib.sha256()
    dataset = pf.parquet(DATA, column="tokens", cache_dir=cache).where("number > 3")
    documents = pf.Documents(columns=["tokens", "number"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pf.errors.PaddingWarning)
        for sequences in (pf.Windows(8), pf.Packed(8, eos=1), documents):
            for batch in pf.Loader(dataset, sequences=sequences, **LOADER):
                hashed.update(repr(batch).encode())
    return hashed.hexdigest()


def saved() -> Saved:
    """Fill a cache folder."""
    with tempfile.TemporaryDirectory(prefix="pagefeed-saved-") as folder:
        digest = digest_of(folder)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return Saved(files, digest)


def write_damaged(
    saved: Saved, folder: Path, draw: random.Random
) -> tuple[str, Path, bytes]:
    """Write the cache folder with one file changed; return how, and the file."""
    name = draw.choice(sorted(saved.files))
    kind = draw.choice(sorted(DAMAGES))
    damaged = DAMAGES[kind](saved.files[name], draw, list(saved.files.values()))
    for one, data in saved.files.items():
        path = folder / one
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damaged if one == name else data)
    return kind, folder / name, damaged


def flipped(data: bytes, draw: random.Random, _all: list[bytes]) -> bytes:
    """A bit or some."""
    out = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 9])):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def cut(data: bytes, draw: random.Random, _all: list[bytes]) -> bytes:
    return data[: draw.randrange(len(data))]


def grown(data: bytes, draw: random.Random, _all: list[bytes]) -> bytes:
    return data + bytes(draw.choice([1, 8, 4096]))


def zeroed(data: bytes, draw: random.Random, _all: list[bytes]) -> bytes:
    """A block that never came to the disk."""
    at, size = draw.randrange(len(data)), draw.choice([1, 8, 512, 4096])
    size = min(size, len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


def another(_data: bytes, draw: random.Random, every: list[bytes]) -> bytes:
    """A whole file, sound by itself, in the wrong place."""
    return draw.choice(every)


DAMAGES = {
    "flipped": flipped,
    "cut": cut,
    "grown": grown,
    "zeroed": zeroed,
    "another": another,
}
