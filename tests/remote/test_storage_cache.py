"""What was fetched once lies on the local disk: shared, checked, bounded."""

import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import InvalidArgumentError
from servers.web_servers import Handler, WebServer, running


def loader_of(place, folder, *, size="1GB", **options):
    chosen: Any = {"storage_cache_dir": str(folder)} | place.options | options
    data = pf.parquet(
        place.urls, column="input_ids", storage_options=chosen, storage_cache=size
    )
    return data, numbered_loader(data, epochs=1)


def tokens_of(loader):
    return [batch["input_ids"].tolist() for batch in loader]


def files_of(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file()]


@pytest.fixture
def expected(root):
    return tokens_of(numbered_loader(root / "corpus" / "tokens"))


def test_an_epoch_is_fetched_once(place, tmp_path, expected):
    data, loader = loader_of(place, tmp_path)
    assert tokens_of(loader) == expected
    kept = sum(path.stat().st_size for path in files_of(tmp_path))
    assert kept > data.storage.counts()["bytes_fetched"] / 2
    other, loader = loader_of(place, tmp_path)  # As another process, or a later one.
    assert len(other.index) > 0
    fetched = other.storage.counts()["bytes_fetched"]
    assert tokens_of(loader) == expected
    stats = loader.stats()
    assert stats["storage/bytes_fetched"] == fetched
    assert stats["storage/cache_hits"] > 0
    assert stats["storage/cache_failures"] == 0


def test_damaged_and_lost_files_are_fetched_again(place, tmp_path, expected):
    tokens_of(loader_of(place, tmp_path)[1])
    for number, path in enumerate(sorted(files_of(tmp_path))):
        held = path.read_bytes()
        if number % 3 == 0:
            path.write_bytes(held[: len(held) // 2])
        elif number % 3 == 1:
            path.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
        else:
            path.unlink()
    data, loader = loader_of(place, tmp_path)
    assert tokens_of(loader) == expected
    assert data.storage.counts()["cache_failures"] > 0


def test_the_oldest_make_room(place, tmp_path, expected):
    for _ in range(3):
        assert tokens_of(loader_of(place, tmp_path, size="60kB")[1]) == expected
    assert sum(path.stat().st_size for path in files_of(tmp_path)) < 61_000


def test_a_folder_without_room_is_no_error(place, tmp_path, expected):
    data, loader = loader_of(place, tmp_path)
    # Folders of objects cannot be made where files are: this holds for root, too.
    pages = tmp_path / "pages-1"
    shutil.rmtree(pages)
    pages.write_bytes(b"")
    assert tokens_of(loader) == expected
    assert data.storage.counts()["cache_failures"] > 0


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
from typing import Any
import pagefeed as pf
options = {"storage_cache_dir": sys.argv[1]}
data = pf.parquet(
    sys.argv[2:], column="input_ids", storage_options=options, storage_cache="1GB")
loader = pf.Loader(
    data, sequences=pf.Windows(32), batch_size=4, epochs=1, rank=0, world_size=1)
print(sum(1 for _ in loader), loader.stats()["storage/cache_failures"])
"""


def test_a_disk_that_takes_no_more_is_no_error(web, tmp_path):
    """The system refuses to write beyond so many bytes, as on a disk that is full."""
    command = [sys.executable, "-c", FULL, str(tmp_path), *web.urls]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    batches, failures = map(int, done.stdout.split())
    assert batches > 10
    assert failures > 0
    assert not [path for path in files_of(tmp_path) if path.suffix == ".draft"]


PROGRAM = """
import sys
from typing import Any
import pagefeed as pf
options = {"storage_cache_dir": sys.argv[1]}
data = pf.parquet(
    sys.argv[2:], column="input_ids", storage_options=options, storage_cache="1GB")
while True:
    loader = pf.Loader(
        data, sequences=pf.Windows(32), batch_size=4, epochs=1, rank=0, world_size=1)
    for batch in loader:
        print("batch", flush=True)
"""


def test_processes_that_are_killed_leave_a_sound_cache(web, tmp_path, expected):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *web.urls]
    for _ in range(2):
        started = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "batch\n"
            process.kill()
            process.communicate()
    (tmp_path / "pages-1" / "stray").mkdir(exist_ok=True)
    (tmp_path / "pages-1" / "stray" / ".1-1.draft").write_bytes(b"half")
    data, loader = loader_of(web, tmp_path)
    assert tokens_of(loader) == expected
    assert data.storage.counts()["cache_failures"] == 0


def test_objects_that_were_replaced_are_not_found(web, tmp_path):
    tokens_of(loader_of(web, tmp_path)[1])
    path = web.folder / "part-1.parquet"
    before = path.read_bytes()
    try:
        pq.write_table(pq.read_table(path), path, compression="none")
        data, loader = loader_of(web, tmp_path)
        assert tokens_of(loader) == tokens_of(numbered_loader(web.folder))
        assert data.storage.counts()["bytes_fetched"] > len(before) / 2
    finally:
        path.write_bytes(before)


def parquet_of(number):
    """A file of a row, as long as that of any other number."""
    out = io.BytesIO()
    tokens = pa.array([[number] * 9], pa.list_(pa.int32()))
    table = pa.table({"tokens": tokens})
    pq.write_table(table, out, compression="none", use_dictionary=False)
    return out.getvalue()


class Alike(Handler):
    """Files of one size, one date and one tag, or none; a query or server names one."""

    def answer(self):
        number = parse_qs(urlsplit(self.path).query).get("id", [self.server.root])[0]
        body = parquet_of(int(str(number)))
        headers = {"Last-Modified": "Sun, 22 Nov 2026 03:26:39 GMT"}
        if "id=" not in self.path:
            headers["ETag"] = '"same"'
        asked = self.headers.get("Range")
        if asked is None:
            self.send(200, body, headers)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        self.send(206, body[int(first) : int(last) + 1], headers)


def test_queries_and_endpoints_are_part_of_the_key(tmp_path):
    servers = [WebServer(Path(str(number)), Alike) for number in (1, 2)]

    def token_of(url, **more):
        options: Any = {"storage_cache_dir": str(tmp_path)} | more
        data = pf.parquet(
            url, column="tokens", storage_options=options, storage_cache="1MB"
        )
        return pa.array(data.index.read_page(0)).to_pylist()[0][0]

    with running(*servers):
        for _ in range(2):
            for number in (3, 4, 5):
                url = f"{servers[0].url}/a.parquet?id={number}"
                assert token_of(url) == number
            for number, server in enumerate(servers, 1):
                named = {"endpoint_url": server.url, "skip_signature": "true"}
                named |= {"aws_region": "x", "allow_http": "true"}
                assert token_of("s3://bucket/a.parquet", **named) == number
                assert token_of("gs://bucket/a.parquet", **named) == number
                named["azure_storage_account_name"] = "some"
                assert token_of("az://bucket/a.parquet", **named) == number
                hub = f"hf://datasets/a/b@{'0' * 40}/a.parquet"
                assert token_of(hub, hf_endpoint=server.url) == number


def test_arguments_are_checked(web, tmp_path, monkeypatch):
    monkeypatch.delenv("PAGEFEED_CACHE_DIR", raising=False)
    with pytest.raises(InvalidArgumentError, match="storage_cache='much'"):
        loader_of(web, tmp_path, size="much")
    with pytest.raises(InvalidArgumentError, match="needs a folder"):
        pf.parquet(web.urls, column="a", storage_cache="1GB")
    with pytest.raises(InvalidArgumentError, match="needs a folder"):
        pf.parquet(web.folder, column="a", storage_cache="1GB")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidArgumentError, match="cannot be made"):
        loader_of(web, tmp_path / "file")
    monkeypatch.setenv("PAGEFEED_CACHE_DIR", str(tmp_path))
    assert pf.parquet(web.urls, column="a", storage_cache=10**6).files
    monkeypatch.setenv("HOME", str(tmp_path))
    loader_of(web, "~/of-home")
    assert (tmp_path / "of-home").is_dir()
