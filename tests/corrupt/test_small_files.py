"""Small files that describe data may hold anything: a typed error, in little memory."""

from pathlib import Path

import pytest

import pagefeed as pf
from made.tokenizers_made import tokenizer_json
from pagefeed.caches import find_arrays
from pagefeed.cli.common import read_json
from pagefeed.core.storage import Storage
from pagefeed.errors import LimitExceededError, PagefeedError
from pagefeed.flat.stream_manifest import MANIFEST
from pagefeed.integrations.delivery import KEY, Leaf
from pagefeed.parsing import MOST_BYTES
from pagefeed.prepare.jobs import JOB, read_record
from pagefeed.remote import output_folder
from pagefeed.tables.delta_checkpoint import added_up_to

CONFIG = "tokenizer_config.json"
DEEP, LONG = b"[" * 100_000, b"9" * 5_000
TEXTS = {
    "deep": DEEP,
    "deep inside": b'{"a": ' + DEEP,
    "long number": b'{"version": ' + LONG + b', "shards": ' + LONG + b"}",
    "infinite": b'{"version": 1e999, "shards": 1e999, "content": Infinity}',
    "list": b"[[1, 2], 3]",
    "number": b"7",
    "null": b"null",
    "nothing": b"",
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "surrogate": b'{"content": "\\ud800", "digest": {}, "shards": ["\\ud800"]}',
    "wrong types": b'{"content": [], "digest": 1, "shards": {"raw_data": 3}, "add": 4}',
}


def read_tokenizer(folder: Path, name: str) -> object:
    if name == CONFIG:
        (folder / "tokenizer.json").write_text(tokenizer_json("llama3"))
        name = "tokenizer.json"
    return pf.Tokenizer(folder / name).vocab_size


def read_flat(folder: Path, kind: str) -> object:
    data = getattr(pf.dataset, kind)(folder)
    return len(data)


def read_state(folder: Path) -> object:
    return read_json(str(folder / "state.json"), "no state")


def read_job(folder: Path) -> object:
    return read_record(output_folder(str(folder), None, "output"), JOB)


def read_arrays(folder: Path) -> object:
    assert find_arrays(folder, "a", "key") is None
    raise PagefeedError("they are made anew")


def read_commit(folder: Path) -> object:
    return added_up_to(Storage(), str(folder), 0)


def read_leaf(folder: Path) -> object:
    """A state inside that of a framework."""
    text = (folder / "leaf").read_bytes().decode(errors="replace")
    Leaf(pf.Loader(RANGE, sequences=pf.Windows(4), batch_size=1)).load_state_dict(
        {KEY: text}
    )
    return None


RANGE = pf.parquet(
    Path(__file__).parents[1] / "fuzz" / "seeds" / "plain-index.parquet",
    column="tokens",
)
READERS = {
    "tokenizer.json": lambda folder: read_tokenizer(folder, "tokenizer.json"),
    "tokenizer_config.json": lambda folder: read_tokenizer(
        folder, "tokenizer_config.json"
    ),
    "a.model": lambda folder: read_tokenizer(folder, "a.model"),
    MANIFEST: lambda folder: read_flat(folder, "stream"),
    "index.json": lambda folder: read_flat(folder, "mds"),
    "state.json": read_state,
    JOB: read_job,
    "a/about.json": read_arrays,
    f"{0:020}.json": read_commit,
}


def put(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("name", [*READERS, "leaf"])
def test_any_text_is_read_or_refused_by_a_typed_error(tmp_path, name):
    read, taken, told = (READERS | {"leaf": read_leaf})[name], [], [""]
    for number, (what, text) in enumerate(TEXTS.items()):
        folder = tmp_path / f"{number}"
        put(folder, name).write_bytes(text)
        try:
            read(folder)
            taken.append(what)
        except PagefeedError as error:
            told.append(str(error))
    assert max(map(len, told)) < 2_000
    is_any_object = name in ("state.json", JOB, CONFIG) or name.endswith("0.json")
    assert is_any_object or not taken


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_too_large_is_not_read(tmp_path, name):
    """It has a hole: whoever reads it takes all of its size."""
    with put(tmp_path, name).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    kind = PagefeedError if name == "a/about.json" else LimitExceededError
    with pytest.raises(kind):
        READERS[name](tmp_path)
