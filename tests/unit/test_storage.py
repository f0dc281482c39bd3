"""Files of data are listed, told apart and read in one place."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.storage import Storage
from pagefeed.errors import FileAccessError, MissingFileError, StaleFileError
from pagefeed.remote import RangeFile

STORAGE: Storage = Storage()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 some data PAR1")
    return str(path)


def test_files_are_listed_by_name(file):
    folder = os.path.dirname(file)
    assert STORAGE.list_files(folder) == [file]
    assert STORAGE.name_of(os.path.relpath(file)) == file


@given(st.binary(max_size=50), st.data())
def test_ranges_of_bytes_are_read(tmp_path_factory, content, data):
    path = tmp_path_factory.getbasetemp() / "ranges"
    path.write_bytes(content)
    begin = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(begin, len(content)))
    assert STORAGE.read(str(path), begin, end) == content[begin:end]
    assert STORAGE.size(str(path)) == len(content)


def test_a_file_that_ends_before_is_stale(file):
    with pytest.raises(StaleFileError, match="bytes 4 to 99, found its end at 19") as e:
        STORAGE.read(file, 4, 99)
    assert e.value.file == file


def rewrite(path: Path) -> None:
    state = path.stat()
    path.write_bytes(b"PAR1 MORE DATA PAR1")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def replace(path: Path) -> None:
    """By another file of the same size and time, as a copy that keeps times does."""
    state = path.stat()
    draft = path.with_suffix(".draft")
    draft.write_bytes(b"PAR1 MORE DATA PAR1")
    os.utime(draft, ns=(state.st_atime_ns, state.st_mtime_ns))
    draft.rename(path)


def lengthen(path: Path) -> None:
    state = path.stat()
    path.write_bytes(b"PAR1 some more data PAR1")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def overwrite(path: Path) -> None:
    """In place, with as many bytes and the old time."""
    state = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("change", [rewrite, replace, lengthen, overwrite])
def test_a_changed_file_is_another_version(file, change):
    before = STORAGE.version(file)
    assert STORAGE.version(file) == before
    change(Path(file))
    assert STORAGE.version(file) != before


def test_other_permissions_are_no_other_version(file):
    before = STORAGE.version(file)
    Path(file).chmod(0o600)
    assert STORAGE.version(file) == before


QUESTIONS = {
    "version": STORAGE.version,
    "size": STORAGE.size,
    "read": lambda file: STORAGE.read(file, 0, 4),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_file_that_is_gone_is_named(file, ask):
    Path(file).unlink()
    with pytest.raises(MissingFileError, match=r"a\.parquet.* does not exist any") as e:
        ask(file)
    assert e.value.file == file


def test_what_the_system_refuses_is_an_error_of_access(tmp_path):
    with pytest.raises(FileAccessError, match="cannot be read") as e:
        STORAGE.read(str(tmp_path), 0, 1)
    assert e.value.file == str(tmp_path)
    assert not isinstance(e.value, MissingFileError)


def test_storages_of_one_place_are_equal():
    assert {Storage(), Storage()} == {STORAGE}


def test_pyarrow_opens_files_by_their_names(file):
    pytest.importorskip("pyarrow")
    with STORAGE.open_arrow(file) as opened:
        assert opened.read(4) == b"PAR1"


def test_files_of_any_storage_are_read_like_files(file):
    opened = RangeFile(STORAGE, file)
    whole = Path(file).read_bytes()
    for size in (-1, None):
        opened.seek(5)
        assert opened.read(size) == whole[5:]
        assert opened.read(size) == opened.read(1) == b""
    assert opened.seek(-14, io.SEEK_END) == 5
    assert opened.read(4) == b"some"
    assert opened.seek(1, io.SEEK_CUR) == opened.tell() == 10
    assert opened.read(99) == b"data PAR1"
