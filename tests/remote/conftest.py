"""Servers that all tests of remote storage share."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from made.numbered import write_numbered
from servers.object_store import s3_server
from servers.web_servers import Handler, WebServer, running


class Place(NamedTuple):
    """Files of a folder, and how they are named from afar."""

    folder: Path
    base: str
    options: Any

    @property
    def urls(self) -> list[str]:
        """All files, in order."""
        return [f"{self.base}/{file.name}" for file in sorted(self.folder.iterdir())]


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder of buckets: one with numbered tokens, and texts with a quality."""
    root = tmp_path_factory.mktemp("buckets")
    tokens = root / "corpus" / "tokens"
    tokens.mkdir(parents=True)
    write_numbered(tokens)
    for number, path in enumerate(sorted(tokens.iterdir())):
        table = pq.read_table(path)
        quality = [(row + number) % 10 / 10 for row in range(len(table))]
        table = table.append_column("quality", [quality])
        table = table.append_column("text", [[f"{n} words" for n in quality]])
        pq.write_table(table, path, row_group_size=100, data_page_size=256)
    return root


@pytest.fixture(scope="session")
def s3(root):
    with s3_server(root) as options:
        yield Place(root / "corpus" / "tokens", "s3://corpus/tokens", options)


@pytest.fixture(scope="session")
def web_server(root):
    server = WebServer(root, Handler)
    with running(server):
        yield server


@pytest.fixture
def web(root, web_server):
    web_server.fault = None
    web_server.asked.clear()
    yield Place(root / "corpus" / "tokens", f"{web_server.url}/corpus/tokens", {})
    web_server.fault = None


@pytest.fixture(params=["s3", "web"])
def place(request):
    """The same files, by one storage and the other."""
    return request.getfixturevalue(request.param)
