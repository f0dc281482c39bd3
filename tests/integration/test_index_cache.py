"""The index on disk: built once, mapped afterwards, refused when files changed."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pytest

import pagefeed as pf
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    StaleFileError,
    UnsupportedError,
)


def build(paths, cache_dir, **options):
    return pf.PageIndex.build(paths, "input_ids", cache_dir, **options)


def test_a_cached_index_is_the_same_and_reads_no_file(
    token_files, tmp_path, monkeypatch
):
    built = build(token_files, tmp_path)
    monkeypatch.setattr(pf._core.Index, "build", None, raising=False)
    opened = build(token_files, tmp_path)
    assert opened.fingerprint == built.fingerprint
    assert np.array_equal(opened.page_values, built.page_values)
    assert pa.array(opened.read_page(1)).equals(pa.array(built.read_page(1)))
    assert [opened.locate(i) for i in range(len(opened))] == [
        built.locate(i) for i in range(len(built))
    ]


def test_the_cache_folder_can_come_from_the_environment(
    token_files, tmp_path, monkeypatch
):
    monkeypatch.setenv("PAGEFEED_CACHE_DIR", str(tmp_path))
    pf.PageIndex.build(token_files, "input_ids")
    assert len(list(tmp_path.iterdir())) == 1


def test_the_fingerprint_is_of_the_contents_not_of_the_place(token_files, tmp_path):
    copies = [shutil.copy(path, tmp_path / f"x{path.name}") for path in token_files]
    original = build(token_files, None).fingerprint
    assert build(copies, None).fingerprint == original
    assert build(copies[::-1], None).fingerprint != original


def change_in_place(path, write_tokens):
    write_tokens(path, [[9, 9, 9]] * 50)


def replace(path, write_tokens):
    os.replace(write_tokens(path.with_suffix(".new"), [[9, 9]] * 50), path)


def truncate(path, _):
    os.truncate(path, path.stat().st_size - 100)


def remove(path, _):
    path.unlink()


@pytest.mark.parametrize("change", [change_in_place, replace, truncate, remove])
def test_a_changed_file_is_refused_by_name(tmp_path, write_tokens, change):
    kept = write_tokens(tmp_path / "kept.parquet", [[1, 2, 3]] * 50)
    path = write_tokens(tmp_path / "changing.parquet", [[4, 5, 6]] * 50)
    cache_dir = tmp_path / "cache"
    index = build([kept, path], cache_dir)
    assert len(pa.array(index.read_page(1))) == 50
    change(path, write_tokens)
    with pytest.raises(PagefeedError, match=r"changing\.parquet") as caught:
        index.read_page(1)
    assert isinstance(caught.value, StaleFileError | MissingFileError)
    with pytest.raises(PagefeedError, match=r"changing\.parquet"):
        build([kept, path], cache_dir)
    assert len(pa.array(index.read_page(0))) == 50


def test_a_changed_file_is_indexed_anew_when_asked(tmp_path, write_tokens):
    path = write_tokens(tmp_path / "a.parquet", [[1, 2, 3]] * 50)
    build(path, tmp_path / "cache")
    change_in_place(path, write_tokens)
    with pytest.raises(StaleFileError) as caught:
        build(path, tmp_path / "cache")
    assert "refresh=True" in "".join(caught.value.__notes__)
    assert build(path, tmp_path / "cache", refresh=True).num_rows == 50
    assert build(path, tmp_path / "cache").num_rows == 50


def test_a_damaged_cache_is_built_again(token_files, tmp_path):
    expected = build(token_files, tmp_path).fingerprint
    (cached,) = tmp_path.iterdir()
    cached.write_bytes(cached.read_bytes()[:200])
    assert build(token_files, tmp_path).fingerprint == expected


def test_folders_and_patterns(token_files):
    folder = token_files[0].parent
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").touch()
    (folder / "_metadata.parquet").touch()
    expected = [str(path) for path in token_files]
    assert build(folder, None).files == expected
    assert build(str(folder / "part-*.parquet"), None).files == expected
    assert build([token_files[2], folder / "part-[01].parquet"], None).files == [
        expected[2],
        *expected[:2],
    ]


def test_what_is_not_there_is_named(token_files, tmp_path):
    with pytest.raises(MissingFileError, match="absent"):
        build(tmp_path / "absent.parquet", None)
    with pytest.raises(MissingFileError, match="no Parquet files"):
        build(tmp_path, None)
    with pytest.raises(ColumnNotFoundError, match="input_ids"):
        pf.PageIndex.build(token_files, "input_id")
    with pytest.raises(InvalidArgumentError, match="twice"):
        build([token_files[0], token_files[0]], None)
    with pytest.raises(UnsupportedError, match="s3://"):
        build("s3://bucket/file.parquet", None)
    with pytest.raises(InvalidArgumentError, match="out of range"):
        build(token_files, None).read_page(10**6)


def test_a_file_that_is_not_parquet_is_refused_by_name(tmp_path):
    path = tmp_path / "text.parquet"
    path.write_text("not Parquet at all, whatever its name says")
    with pytest.raises(CorruptFileError, match=r"text\.parquet") as caught:
        build(path, None)
    assert caught.value.file == str(path)


def test_the_default_cache_folder_shares_sums(tmp_path, monkeypatch, token_files):
    monkeypatch.setenv("PAGEFEED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("pagefeed.order.starts.PIECE", 1)
    loader = pf.Loader(
        pf.parquet(token_files, column="input_ids"),
        sequences=pf.Windows(16),
        batch_size=2,
        rank=0,
        world_size=1,
    )
    next(iter(loader))
    assert len(list(tmp_path.glob("order-*.starts"))) == 1
