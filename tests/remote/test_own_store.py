"""A store of the user's own: an epoch is right, or an error says why."""

import logging
import pickle
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from outside.memory_store import MemoryStore
from pagefeed.errors import (
    AccessDeniedError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    StaleFileError,
    UnavailableError,
)
from servers.object_store import s3_server

SECRET = "theSecretOfTheStore"
NAMES = ("tokens/part-0.parquet", "tokens/part-1.parquet")


@pytest.fixture
def files(root):
    return {name: (root / "corpus" / name).read_bytes() for name in NAMES}


@pytest.fixture
def expected(root):
    return tokens_of(pf.parquet(root / "corpus" / "tokens", column="input_ids"))


def tokens_of(data):
    return [batch["input_ids"].tolist() for batch in numbered_loader(data)]


def dataset(store, paths="tokens", **options):
    settings: Any = {"deadline": 0.5} | options
    return pf.parquet(paths, column="input_ids", store=store, storage_options=settings)


class Faulty(MemoryStore):
    """A store whose answers a function of (call, its number, answer) replaces."""

    def __init__(self, files, act) -> None:
        super().__init__(files)
        self.act, self.calls = act, dict.fromkeys(("get_range", "head", "list"), 0)
        self.lock = threading.Lock()

    def _answer(self, call, answer):
        with self.lock:
            self.calls[call] += 1
        return self.act(call, self.calls[call], answer)

    def head(self, path):
        return self._answer("head", super().head(path))

    def list(self, prefix=None):
        return self._answer("list", MemoryStore(self.files).list(prefix))

    def get_range(self, path, *, start, end):
        return self._answer("get_range", super().get_range(path, start=start, end=end))

    def get_ranges(self, path, *, starts, ends):
        pairs = zip(starts, ends, strict=True)
        return [self.get_range(path, start=a, end=b) for a, b in pairs]


def raises(error, every=1, of="get_range"):
    def act(call, number, answer):
        if call == of and number % every == 0:
            raise error
        return answer

    return act


def gives(answer, of="get_range"):
    """Give another answer, made of the right one if it is a function."""

    def act(call, _, right):
        if call != of:
            return right
        return answer(right) if callable(answer) else answer

    return act


def test_names_folders_and_patterns_are_those_of_the_store(files, expected):
    files |= {"tokens-old/part-9.parquet": b"", "tokens/_SUCCESS": b"", "tokens/": b""}
    store = MemoryStore(files)
    urls = tuple(f"store://{name}" for name in NAMES)
    for paths in (
        "tokens",
        "/tokens/",
        "tokens/*.parquet",
        list(NAMES),
        urls,
        "./tokens",
    ):
        assert dataset(store, paths).files == urls
    assert dataset(store, "tokens/*-1.parquet").files == urls[1:]
    assert dataset(MemoryStore({"a": b"", NAMES[0]: b"x"}), ".").files == urls[:1]
    assert tokens_of(dataset(store)) == expected
    with pytest.raises(MissingFileError, match=r"store://none.parquet"):
        dataset(store, "none.parquet")
    with pytest.raises(MissingFileError, match="holds no Parquet files"):
        dataset(store, "nothing/")


@pytest.mark.parametrize(
    "form", [bytes, bytearray, memoryview], ids=lambda form: form.__name__
)
def test_any_buffer_is_read(files, expected, form):
    assert tokens_of(dataset(Faulty(files, gives(form)))) == expected


@pytest.mark.parametrize(
    "version",
    [
        lambda told: {**told, "e_tag": None, "version": "v1"},
        lambda told: {**told, "e_tag": None, "last_modified": datetime(2026, 1, 1)},
        lambda told: {**told, "e_tag": None},
        lambda told: {**told, "e_tag": f'"{told["e_tag"]}"'},
        lambda told: {**told, "e_tag": f'W/"{told["e_tag"]}"'},
    ],
    ids=["version", "date", "nothing", "quoted", "weak"],
)  # fmt: skip
def test_versions_of_any_form(files, expected, version):
    def act(call, _, answer):
        if call == "list":
            return ([version(one) for one in several] for several in answer)
        return version(answer) if call == "head" else answer

    assert tokens_of(dataset(Faulty(files, act))) == expected


def short(call, number, answer):
    return answer[:-1] if call == "get_range" and number % 3 == 0 else answer


def long(call, number, answer):
    return answer + b"x" if call == "get_range" and number % 3 == 0 else answer


def twice(call, _, answer):
    if call != "list":
        return answer
    lists = list(answer)
    return iter([*lists, [], *lists])


class OddError(Exception):
    """An error that nobody knows."""


@pytest.mark.parametrize(
    "act",
    [
        short,
        long,
        twice,
        raises(ConnectionError(SECRET), 3),
        raises(OddError(SECRET), 3),
        raises(TimeoutError(SECRET), 2, "head"),
    ],
    ids=["short", "long", "twice", "connection", "odd", "overdue"],
)
def test_what_passes_is_tried_again(files, expected, act):
    data = dataset(Faulty(files, act), deadline=30)
    assert tokens_of(data) == expected
    assert act is twice or data.storage.counts()["retries"] > 0


class StatusError(Exception):
    """An error as clients of web servers raise it."""

    def __init__(self, status) -> None:
        super().__init__(SECRET)
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (raises(FileNotFoundError(SECRET)), MissingFileError, "FileNotFoundError"),
        (raises(KeyError(SECRET)), MissingFileError, "raised KeyError"),
        (raises(PermissionError(SECRET)), AccessDeniedError, "access is denied"),
        (raises(StatusError(403)), AccessDeniedError, "access is denied"),
        (raises(StatusError(404)), MissingFileError, "no such file"),
        (raises(StatusError(503)), UnavailableError, "raised StatusError"),
        (raises(TypeError(SECRET)), FileAccessError, "raised TypeError"),
        (raises(SystemExit(SECRET)), FileAccessError, "raised SystemExit"),
        (raises(OddError(SECRET)), UnavailableError, "raised OddError"),
        (gives(lambda right: right[:-1]), UnavailableError, "bytes came"),
        (gives(None), FileAccessError, "NoneType"),
        (gives(None, "head"), FileAccessError, "a dict for a file"),
        (gives({"size": -1}, "head"), FileAccessError, "size as"),
    ],
    ids=[*map(str, range(13))],
)  # fmt: skip
def test_what_stays_is_told_with_the_file_and_without_the_text(
    files, act, error, words, caplog
):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(error, match=words) as caught:
        _ = dataset(Faulty(files, act)).index
    assert caught.value.file in {f"store://{name}" for name in NAMES}
    assert SECRET not in f"{caught.value}{caught.value.__cause__}{caplog.text}"


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (7, "raised TypeError"),
        (["name"], "a dict for a file, found str"),
        ([[{"size": 7}]], "path as text"),
        (lambda _: iter(lambda: [{"path": "x", "size": 1}], 0), "a list that ends"),
        (
            [[{"path": NAMES[0], "size": n}] for n in (1, 2)],
            "one state of tokens/part-0",
        ),
    ],
    ids=["number", "texts", "no path", "endless", "two states"],
)
def test_listings_that_are_none(files, listed, words):
    with pytest.raises(PagefeedError, match=words):
        dataset(Faulty(files, gives(listed, "list")))


@pytest.mark.parametrize("of", ["head", "get_range", "list"])
def test_a_call_that_hangs_is_given_up(files, of):
    free = threading.Event()

    def hang(call, _, answer):
        if call == of:
            free.wait(20)
        return answer

    begin = time.monotonic()
    with pytest.raises(UnavailableError, match="no answer"):
        _ = dataset(Faulty(files, hang), deadline=0.2).index
    assert time.monotonic() - begin < 10
    free.set()


def test_a_file_that_changes_is_refused(files):
    store = MemoryStore(files)
    data = dataset(store)
    loader = numbered_loader(data)
    assert next(iter(loader))
    before = store.files[NAMES[1]]
    for other in (before[:-9] + b"x" + before[-8:], before[:-1], before + b"x"):
        store.files[NAMES[1]] = other
        with pytest.raises(StaleFileError, match=r"part-1.*changed since it was"):
            tokens_of(data)
    del store.files[NAMES[1]]
    with pytest.raises(MissingFileError, match="part-1"):
        tokens_of(data)
    store.files[NAMES[1]] = before
    assert tokens_of(data)


def test_a_file_that_changes_within_a_read_is_refused(files):
    store = Faulty(files, lambda *given: given[2])
    data = dataset(store)
    assert len(data) == 600

    def change(call, _, answer):
        if call == "get_range":
            store.files |= {name: data[::-1] for name, data in files.items()}
            return answer[::-1]
        return answer

    store.act = change
    with pytest.raises(StaleFileError, match="part-"):
        tokens_of(data)


class NoHead:
    """A store without one of the calls."""

    get_range = get_ranges = list = print


class Waiting(MemoryStore):
    """A store of asyncio."""

    async def head(self, path):  # type: ignore[override]
        return super().head(path)


def test_arguments_are_checked(files, tmp_path):
    store: Any = MemoryStore(files)
    wrongs: list[tuple[Any, str]] = [
        (NoHead(), "NoHead, without a head"),
        (MemoryStore, "without a get_range"),
        ("s3://bucket", "str, without a get_range"),
        (Waiting(files), "a head.. that blocks"),
    ]
    for wrong, words in wrongs:
        with pytest.raises(InvalidArgumentError, match=words):
            pf.parquet("tokens", column="input_ids", store=wrong)
    for path in ("s3://bucket/a", "https://user:pw@host/a"):
        with pytest.raises(InvalidArgumentError, match="names in the store") as caught:
            dataset(store, path)
        assert "pw" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="did you mean 'deadline'"):
        dataset(store, dead_line=3)
    with pytest.raises(InvalidArgumentError, match="is set where the store is made"):
        dataset(store, region="here")
    with pytest.raises(InvalidArgumentError, match="cache_dir= keeps the index"):
        pf.parquet("tokens", column="input_ids", store=store, index=tmp_path)
    with pytest.raises(InvalidArgumentError, match="__repr__"):
        dataset(store, storage_cache="1MB", storage_cache_dir=str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="give it as store="):
        pf.parquet("store://tokens", column="input_ids")


class Named(MemoryStore):
    """A store that says where it reads."""

    def __repr__(self) -> str:
        return "Named()"


def test_a_cache_on_disk_saves_reads(files, expected, tmp_path):
    counts = []
    for _ in range(2):
        data = dataset(
            Named(files), storage_cache="8MB", storage_cache_dir=str(tmp_path)
        )
        assert tokens_of(data) == expected
        counts.append(data.storage.counts()["cache_hits"])
    assert counts[1] > counts[0]


def test_it_travels_with_its_store(files, expected):
    data = pickle.loads(pickle.dumps(dataset(MemoryStore(files))))
    assert tokens_of(data) == expected


class ArrowStore:
    """A store of the bucket of a server process, through pyarrow."""

    def __init__(self, options) -> None:
        _, _, host = options["endpoint_url"].partition("://")
        self.fs = pyarrow.fs.S3FileSystem(
            access_key=options["access_key_id"],
            secret_key=options["secret_access_key"],
            endpoint_override=host,
            scheme="http",
            retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )

    def _told(self, info):
        name = info.path.removeprefix("corpus/")
        return {"path": name, "size": info.size, "last_modified": info.mtime}

    def head(self, path):
        info = self.fs.get_file_info(f"corpus/{path}")
        if not info.is_file:
            raise FileNotFoundError(path)
        return self._told(info)

    def list(self, prefix=None):
        chosen = pyarrow.fs.FileSelector(f"corpus/{prefix or ''}", recursive=True)
        yield [self._told(i) for i in self.fs.get_file_info(chosen) if i.is_file]

    def get_range(self, path, *, start, end):
        with self.fs.open_input_file(f"corpus/{path}") as file:
            return file.read_at(end - start, start)

    def get_ranges(self, path, *, starts, ends):
        with self.fs.open_input_file(f"corpus/{path}") as file:
            pairs = zip(starts, ends, strict=True)
            return [file.read_buffer(b - a) for a, b in pairs if file.seek(a) == a]


@pytest.mark.slow
def test_a_server_process_that_is_killed_and_comes_back(root, expected):
    with s3_server(root) as options:
        data = dataset(ArrowStore(options), deadline=1)
        assert tokens_of(data) == expected
    with pytest.raises(UnavailableError, match="raised OSError") as caught:
        tokens_of(data)
    assert options["secret_access_key"] not in str(caught.value)
    with s3_server(root) as options:
        wrong = options | {"secret_access_key": SECRET}
        with pytest.raises((AccessDeniedError, UnavailableError)) as denied:
            dataset(ArrowStore(wrong), deadline=1)
        assert SECRET not in str(denied.value)


PROGRAM = """
import sys, threading, time
import pagefeed as pf
from outside.memory_store import MemoryStore
class Slow(MemoryStore):
    called, seconds = threading.Event(), 0
    def get_range(self, path, *, start, end):
        if self.seconds:
            self.called.set()
        time.sleep(self.seconds)
        return super().get_range(path, start=start, end=end)
store = Slow({"a.parquet": open(sys.argv[1], "rb").read()})
loader = pf.Loader(pf.parquet("a.parquet", column="input_ids", store=store),
                   sequences=pf.Windows(32), batch_size=4, seed=1)
len(loader)
store.seconds = 60
threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()
store.called.wait()
print("ended")
"""


def test_a_process_ends_while_a_call_hangs(root):
    path = root / "corpus" / NAMES[0]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert not done.stderr or "CancelledError" in done.stderr
    assert not any(
        word in done.stderr for word in ("Fatal", "panicked", "exception not")
    )
