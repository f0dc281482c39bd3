"""Files whose footers are changed while they are read: all else is as it lies there."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError
from pagefeed.selection import renamed_files
from pagefeed.selection.renamed_files import open_renamed


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("renamed") / "numbers.parquet"
    pq.write_table(pa.table({"number": [*range(500)]}), path, compression="none")
    return path


@pytest.mark.parametrize("beyond", [-600, -1, 0, 1, 7, 8, 9, 600, 1 << 20])
def test_every_byte_is_that_of_the_file_or_of_the_new_footer(file, monkeypatch, beyond):
    """Whatever part of it the bytes that are read first hold, so many beyond it."""
    stored = file.read_bytes()
    length = int.from_bytes(stored[-8:-4], "little")
    monkeypatch.setattr(renamed_files, "TAIL_BYTES", max(8, length + beyond))
    given = []

    def rename(footer: bytes) -> bytes:
        given.append(footer)
        return footer[::-1] + b"more"

    opened = open_renamed(Storage(), str(file), rename)
    footer = stored[-8 - length : -8]
    assert given == [footer]
    new = footer[::-1] + b"more"
    expected = stored[: -8 - length] + new + len(new).to_bytes(4, "little") + b"PAR1"
    assert opened.size() == len(expected)
    assert opened.read() == expected
    draw = random.Random(beyond)
    for _ in range(100):
        at, size = draw.randrange(len(expected) + 1), draw.randrange(900)
        opened.seek(at)
        assert opened.read(size) == expected[at : at + size]


@pytest.mark.parametrize("length", [4, 11])
def test_a_file_without_a_footer_is_refused(tmp_path, length):
    path = tmp_path / "short.parquet"
    path.write_bytes(b"PAR1" + length.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(CorruptFileError, match=f"a footer of {length} bytes"):
        open_renamed(Storage(), str(path), bytes)
