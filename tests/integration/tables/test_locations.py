"""Folders of Delta tables whose names deltalake takes for quoted characters."""

import shutil

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import pagefeed as pf
from made.tables import delete_from_delta, rows_table
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    UnsupportedError,
)

QUOTED = ["with%20space", "a%2Fb", "%41", "twice%2520", "\u65e5%E6%97%A5"]


@pytest.fixture
def plain(tmp_path):
    """A table of two commits, a checkpoint, and a commit of deletion vectors."""
    folder = tmp_path / "plain"
    write_deltalake(folder, rows_table(0, 10), partition_by=["lang"])
    write_deltalake(folder, rows_table(10, 20), mode="append")
    table = DeltaTable(folder)
    table.create_checkpoint()
    files = sorted(table.get_add_actions()["path"].to_pylist())
    for path, kind in zip(files, "ui", strict=False):
        delete_from_delta(folder, {path: [0]}, kind)
    return folder


def told(folder, version=None):
    web = pf.delta(folder, version, column="tokens", metadata=["id", "lang"])
    return web, sorted((row["id"], row["lang"] or "", *row["tokens"]) for row in web)


@pytest.mark.parametrize("name", QUOTED)
def test_a_quoted_character_in_the_name_of_a_folder(plain, tmp_path, name):
    """As a folder of another name, by which the log is read; files keep their paths."""
    folder = tmp_path / f"over%20it/{name}"
    shutil.copytree(plain, folder)
    with pytest.raises(DeltaError):
        DeltaTable(str(folder))
    web, rows = told(folder)
    assert rows == told(plain)[1]
    assert len(rows) == 18
    assert all(file.startswith(f"{folder}/lang=") for file in web.files)
    now, expected = (
        one.where("lang == 'en' and id > 3") for one in (web, told(plain)[0])
    )
    assert [row["id"] for row in now] == [row["id"] for row in expected]
    assert told(folder, 0)[1] == told(plain, 0)[1]
    assert told(f"file://{folder}", "2999-01-01")[1] == rows


def test_the_folder_that_deltalake_would_read_is_another(plain, tmp_path):
    """Its rows are never taken for those of the folder that was named."""
    named, meant = tmp_path / "a%20b", tmp_path / "a b"
    write_deltalake(meant, rows_table(90, 95))
    shutil.copytree(plain, named)
    assert told(named)[1] == told(plain)[1]
    shutil.rmtree(named)
    with pytest.raises(MissingFileError, match="a%20b is not a Delta table"):
        pf.delta(named, column="tokens")
    named.mkdir()
    (named / "_delta_log").mkdir()
    with pytest.raises(MissingFileError, match="a%20b is not a Delta table") as caught:
        pf.delta(named, column="tokens")
    assert "pagefeed-" not in str(caught.value)


def test_errors_name_the_folder_that_was_given(plain, tmp_path):
    folder = tmp_path / "a%20b"
    shutil.copytree(plain, folder)
    with pytest.raises(InvalidArgumentError, match=r"a%20b has the versions 0 to 3"):
        pf.delta(folder, 9, column="tokens")
    with pytest.raises(InvalidArgumentError, match=r"before the first one of .*a%20b,"):
        pf.delta(folder, "1999-01-01", column="tokens")
    log = folder / "_delta_log"
    broken = log / f"{3:020}.json"
    broken.write_text("{")
    with pytest.raises(CorruptFileError, match="a%20b") as caught:
        pf.delta(folder, column="tokens")
    assert "pagefeed-" not in str(caught.value)
    broken.rename(log / f"{4:020}.json")
    with pytest.raises(PagefeedError, match="a%20b") as other:
        pf.delta(folder, column="tokens")
    assert "pagefeed-" not in str(other.value)


def test_a_quoted_character_in_a_url_is_refused():
    """Nothing can be linked there, and deltalake would read another table."""
    with pytest.raises(UnsupportedError, match=r"would read %20 .* as ' '"):
        pf.delta("s3://corpus/a%20b", column="tokens")
