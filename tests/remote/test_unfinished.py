"""A job that ends anywhere leaves nothing that opens as a part, and can go on."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shared_data import ROOT
from made.texts_made import make_tokenizer
from pagefeed.errors import (
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    TokenRangeError,
)
from pagefeed.prepare.conversion import token_rows as conversion_rows
from pagefeed.remote import FileWriter, ObjectWriter, output_folder

DOCUMENTS = [[row * 10 + n for n in range(row % 7)] for row in range(300)]


class Folder(NamedTuple):
    """Where a job writes: its name, and its files on this machine."""

    url: str
    path: Path
    options: Any

    @property
    def out(self) -> Any:
        return output_folder(self.url, self.options, "output")

    def below(self, name: object) -> "Folder":
        return Folder(f"{self.url}/{name}", self.path / str(name), self.options)

    def contents(self) -> dict[str, bytes]:
        files = (file for file in self.path.rglob("*") if file.is_file())
        return {str(file.relative_to(self.path)): file.read_bytes() for file in files}

    def opened(self) -> list[Any]:
        """The folder, and a pattern, as readers take them."""
        names = (self.url, f"{self.url}/part-*.parquet")
        return [
            pf.parquet(name, column="input_ids", storage_options=self.options)
            for name in names
        ]


@pytest.fixture(params=["here", "bucket"])
def folder(request, tmp_path: Path) -> Folder:
    if request.param == "here":
        return Folder(str(tmp_path / "out"), tmp_path / "out", None)
    root, s3 = (request.getfixturevalue(name) for name in ("root", "s3"))
    name = f"unfinished-{abs(hash(request.node.name)) % 10**9}"
    (root / name).mkdir()
    # The server answers 500 where a folder of its disk is asked for as an object.
    options = s3.options | {"deadline": 2}
    return Folder(f"s3://{name}/out", root / name / "out", options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rows = pa.array(DOCUMENTS, pa.list_(pa.int32()))
    texts = [f"{row} words of a text" for row in range(len(rows))]
    table = pa.table({"input_ids": rows, "text": texts})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    return tmp_path / "a.parquet"


def convert(source: Path, folder: Folder, **more: Any) -> Any:
    dataset = pf.parquet(source, column="input_ids")
    given: dict[str, Any] = {"to": "parquet", "shard_size": 1000, "eos": 7} | more
    return pf.convert(dataset, folder.url, storage_options=folder.options, **given)


def tokenize(source: Path, folder: Folder) -> Any:
    options = folder.options
    return pf.tokenize(
        *(source, folder.url),
        tokenizer=make_tokenizer(),
        shard_size=2500,
        num_threads=1,
        storage_options=options,
    )


class EndedError(Exception):
    """A job ends here."""


@contextmanager
def ending(number: int, moment: str) -> Iterator[Callable[[], bool]]:
    """End what runs when it gives a file its name the so many-th time, or behind."""
    counted, hits = itertools.count(), list[int]()

    def wrapped(commit: Any) -> Any:
        def commit_or_end(self: Any) -> None:
            is_done = getattr(self, "_is_ended", False)  # Contexts commit once more.
            is_hit = not is_done and next(counted) == number
            self._is_ended = True
            if is_hit and moment == "before":
                hits.append(number)
                raise EndedError
            commit(self)
            if is_hit:
                hits.append(number)
                raise EndedError

        return commit_or_end

    with (
        mock.patch.object(FileWriter, "commit", wrapped(FileWriter.commit)),
        mock.patch.object(ObjectWriter, "commit", wrapped(ObjectWriter.commit)),
    ):
        yield lambda: bool(hits)


@pytest.mark.parametrize("moment", ["before", "behind"])
@pytest.mark.parametrize("job", [convert, tokenize])
def test_whatever_ends_it(source, folder, tmp_path, job, moment):
    folders = folder
    whole = Folder(str(tmp_path / "whole"), tmp_path / "whole", None)
    done = job(source, whole)
    expected = whole.contents()
    assert "_manifest.json" in expected
    assert len(done.files) > 2
    num_refused, step = 0, 1 if folder.options is None else 3
    for number in itertools.count(1, step):
        folder = folders.below(number)
        with ending(number, moment) as is_ended:
            with suppress(EndedError):
                job(source, folder)
            if not is_ended():
                break
        if "_manifest.json" not in folder.contents():
            with pytest.raises((FileAccessError, MissingFileError)) as refused:
                folder.opened()
            if "part-" in " ".join(folder.contents()):
                assert "is not finished" in str(refused.value)
                num_refused += 1
        again = job(source, folder)
        assert folder.contents() == expected, number
        assert again.num_tokens == done.num_tokens
        assert [len(each) for each in folder.opened()] == [again.num_documents] * 2
    assert num_refused > 1


def test_finished_files_stay_as_they_are(source, tmp_path):
    folder = Folder(str(tmp_path / "out"), tmp_path / "out", None)
    with ending(6, "behind"), pytest.raises(EndedError):
        convert(source, folder)
    kept = {file: file.stat().st_mtime_ns for file in folder.path.glob("*.parquet")}
    assert len(kept) > 2
    first = min(kept)
    first.write_bytes(b"")  # What something else wrote there is written again.
    convert(source, folder)
    assert first.stat().st_size > 0
    assert [row["input_ids"][:-1] for row in folder.opened()[0]] == DOCUMENTS
    with ending(6, "behind"), pytest.raises(EndedError):
        convert(source, other := Folder(f"{folder.url}2", tmp_path / "out2", None))
    kept = {file: file.stat().st_mtime_ns for file in other.path.glob("*.parquet")}
    del kept[max(kept)]  # It ended before this one was noted.
    convert(source, other)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert len(list(other.path.glob("*.parquet"))) > len(kept)


def test_another_job_begins_elsewhere(source, folder):
    with ending(5, "behind"), pytest.raises(EndedError):
        convert(source, folder)
    before = folder.contents()
    for other in ({"eos": None}, {"column": "tokens"}, {"dtype": "uint16"}):
        with pytest.raises(InvalidArgumentError, match="is of another job"):
            convert(source, folder, **other)
    assert {name: before[name] for name in folder.contents()} == before
    convert(source, folder)
    with pytest.raises(InvalidArgumentError, match="is there already"):
        convert(source, folder)


def test_a_job_goes_on_where_another_is_refused(source, folder):
    tried = list[str]()

    def others_first(*arguments: Any) -> Iterator[Any]:
        for rows in conversion_rows(*arguments):
            if not tried:
                with pytest.raises(InvalidArgumentError) as refused:
                    convert(source, folder, eos=3)
                tried.append(str(refused.value))
            yield rows

    with mock.patch("pagefeed.prepare.conversion.token_rows", others_first):
        done = convert(source, folder)
    assert "is of another job (eos: 7 there, 3 now)" in tried[0]
    assert len(folder.opened()[0]) == done.num_documents
    assert not [name for name in folder.contents() if name.startswith(".")]


@pytest.mark.parametrize("held", ["begun", "foreign"])
def test_refused_tokenizing_leaves_a_folder_as_it_is(source, folder, held):
    """Without a lock, in buckets too."""
    if held == "begun":
        with ending(5, "behind"), pytest.raises(EndedError):
            tokenize(source, folder)
    else:
        folder.out.write("other.txt", b"of somebody")
    before = folder.contents()
    other = pf.Tokenizer(lambda text: [*text.encode()], vocab_size=256, name="bytes")
    with pytest.raises(InvalidArgumentError, match="give an"):
        pf.tokenize(
            *(source, folder.url),
            tokenizer=other,
            storage_options=folder.options,
        )
    assert folder.contents() == before


def test_tokenizing_goes_on_where_another_tokenizer_is_refused(source, folder):
    """It is refused before it claims the folder, while the first is at work."""
    tried = list[str]()

    def others_first(text: str) -> list[int]:
        if text.startswith("150 ") and not tried:
            with pytest.raises(InvalidArgumentError) as refused:
                tokenize(source, folder)
            tried.append(str(refused.value))
        return [*text.encode()]

    mine = pf.Tokenizer(others_first, vocab_size=256, name="bytes")
    done = pf.tokenize(
        *(source, folder.url),
        tokenizer=mine,
        shard_size=2500,
        num_threads=1,
        storage_options=folder.options,
    )
    assert "tokenizer" in tried[0]
    assert len(folder.opened()[0]) == done.num_documents == len(DOCUMENTS)
    assert not [name for name in folder.contents() if name.startswith(".")]


@pytest.mark.parametrize("job", [convert, tokenize])
def test_of_two_that_begin_together_one_is_first(source, folder, job):
    """The other looked before the first had begun, and takes nothing over."""
    replace, seen = type(folder.out).replace, list[str]()

    def replaced(self: Any, name: str, data: bytes, version: Any) -> bool:
        if not seen:
            seen.append(name)
            replace(self, name, json.dumps({"settings": {}}).encode(), None)
            self.write(".other.lock", b"")
        return bool(replace(self, name, data, version))

    with (
        mock.patch.object(type(folder.out), "replace", replaced),
        pytest.raises(InvalidArgumentError, match="is of another job"),
    ):
        job(source, folder)
    assert sorted(folder.contents()) == [".other.lock", "_unfinished/job.json"]


def damaged(data: bytes, random: Random) -> bytes:
    """A record of a job that something else wrote."""
    if random.random() < 0.3:
        at = random.randrange(len(data))
        return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    told = json.loads(data)
    inner, key = told, random.choice([*told])
    while isinstance(inner[key], dict | list) and inner[key] and random.random() < 0.8:
        inner = inner[key]
        key = random.choice(range(len(inner)) if isinstance(inner, list) else [*inner])
    others = [None, 3, -1, "x", [], {}, [3], {"a": 1}, 1e300, True]
    inner[key] = random.choice(others)
    return json.dumps(told).encode()


def test_damaged_records_are_told_or_do_no_harm(source, tmp_path):
    whole = Folder(str(tmp_path / "whole"), tmp_path / "whole", None)
    convert(source, whole)
    begun = Folder(str(tmp_path / "begun"), tmp_path / "begun", None)
    with ending(6, "behind"), pytest.raises(EndedError):
        convert(source, begun)
    num_told = 0
    for seed in range(60):
        folder = Folder(str(tmp_path / f"{seed}"), tmp_path / f"{seed}", None)
        shutil.copytree(begun.path, folder.path)
        records = sorted((folder.path / "_unfinished").glob("*.json"))
        record = records[seed % len(records)]
        record.write_bytes(damaged(record.read_bytes(), Random(seed)))
        try:
            convert(source, folder)
        except (CorruptFileError, InvalidArgumentError):
            num_told += 1
        else:
            for name, data in whole.contents().items():
                if name.endswith(".parquet"):
                    assert folder.contents()[name] == data, seed
    assert num_told > 30


def test_what_fails_at_once_leaves_nothing(source, folder):
    with pytest.raises(TokenRangeError):
        convert(source, folder, dtype="uint8")
    assert folder.contents() == {}
    convert(source, folder)


def test_shards_of_a_stream(source, tmp_path):
    folder = Folder(str(tmp_path / "out"), tmp_path / "out", None)
    append, left = pf.StreamWriter.append_many, iter(range(4))

    def append_or_end(*arguments: Any) -> None:
        if next(left, None) is None:
            raise EndedError
        append(*arguments)

    with (
        mock.patch.object(pf.StreamWriter, "append_many", append_or_end),
        pytest.raises(EndedError),
    ):
        convert(source, folder, to="stream")
    assert len(list(folder.path.rglob("*.in_band.bin"))) > 1
    with pytest.raises(FileAccessError, match="is not finished"):
        pf.stream(folder.url)
    with pytest.raises(FileAccessError, match="is not finished"):
        convert(source, folder, to="stream")
    shutil.rmtree(folder.path)
    done = convert(source, folder, to="stream")
    assert len(pf.stream(folder.url)) == done.num_documents == len(DOCUMENTS)


PROGRAM = """
import json, os, sys
from pathlib import Path
from random import Random
from remote.test_unfinished import Folder, convert
from pagefeed.remote import FileWriter, ObjectWriter

source, url, path, options, number = sys.argv[1:]
left = int(number)
commit = ObjectWriter.commit

def commit_or_die(self):
    global left
    commit(self)
    left -= 1
    if not left:
        os._exit(9)

ObjectWriter.commit = commit_or_die
convert(Path(source), Folder(url, Path(path), json.loads(options)))
"""


def test_killed(source, root, s3, tmp_path):
    whole = Folder(str(tmp_path / "whole"), tmp_path / "whole", None)
    convert(source, whole)
    (root / "killed").mkdir()
    folder = Folder("s3://killed/out", root / "killed" / "out", s3.options)
    given = [str(source), folder.url, str(folder.path), json.dumps(s3.options)]
    paths = os.pathsep.join([*sys.path, str(ROOT / "tests")])
    for number in (4, 3, 100):  # Killed, killed in going on, and to the end.
        command = [sys.executable, "-c", PROGRAM, *given, str(number)]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": paths}, check=False
        )
        if done.returncode:
            with pytest.raises(FileAccessError, match="is not finished"):
                folder.opened()
    assert done.returncode == 0
    assert folder.contents() == whole.contents()
