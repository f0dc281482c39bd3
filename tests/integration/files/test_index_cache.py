"""The index on disk: built once, mapped afterwards, refused when files changed."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.caches.indexes import cache_file
from pagefeed.core.dataset.index_recipe import IndexRecipe
from pagefeed.core.storage import Storage
from pagefeed.errors import (
    CacheWarning,
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


def test_what_others_have_mapped_is_replaced_and_never_shrunk(tmp_path, write_tokens):
    """Another process that reads behind the end of a mapped file dies of SIGBUS."""
    path, cache = tmp_path / "a.parquet", tmp_path / "cache"

    def derive(num_rows):
        write_tokens(path, [[1, 2, 3] * (1 + row % 9) for row in range(num_rows)])
        pf.PageIndex.build(path, "input_ids", cache, refresh=True)
        data = pf.parquet(path, column="input_ids", cache_dir=cache)
        loader = pf.Loader(data, sequences=pf.Packed(64, split="never"), batch_size=2)
        next(iter(loader))

    derive(3000)
    held = {
        file: (os.open(file, os.O_RDONLY), file.read_bytes())
        for file in cache.rglob("*")
        if file.is_file()
    }
    assert held
    for num_rows in (10, 3000, 10):
        derive(num_rows)
    for file, (handle, expected) in held.items():
        assert os.pread(handle, len(expected) + 1, 0) == expected, file
        os.close(handle)


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


def test_the_index_of_another_column_is_not_taken_for_this_one(tmp_path):
    """Both are sound: one lies where the other should."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[1], [2]], "b": [[3], [4]]}), path)
    places = {}
    for column in "ab":
        pf.PageIndex.build(path, column, tmp_path / column)
        places[column] = next((tmp_path / column).iterdir())
    shutil.copy(places["a"], places["b"])
    index = pf.PageIndex.build(path, "b", tmp_path / "b")
    assert pa.array(index.read_page(0)).to_pylist() == [[3], [4]]


def test_every_flipped_bit_of_a_cached_index_is_noticed(tmp_path, write_tokens):
    paths = [
        write_tokens(tmp_path / f"{name}.parquet", [[number] * 5] * 20)
        for number, name in enumerate("ab")
    ]
    expected = [p.fingerprint for p in (build(paths, None), build(paths[:1], None))]
    cache_dir = tmp_path / "cache"
    assert build(paths, cache_dir).fingerprint == expected[0] != expected[1]
    (cached,) = cache_dir.iterdir()
    data = cached.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        cached.write_bytes(changed)
        with pytest.raises(CorruptFileError, match="build the index again") as caught:
            pf._core.Index.open(cached)
        assert caught.value.file == str(cached)
        if place % 500 == 0:
            assert build(paths, cache_dir).fingerprint == expected[0]
            assert cached.read_bytes() == data
    cached.write_bytes(b"")
    assert build(paths, cache_dir).fingerprint == expected[0]


def test_an_index_without_the_files_own_is_another(tmp_path, write_tokens):
    path = write_tokens(tmp_path / "a.parquet", [[1, 2, 3]] * 50)
    for page_index in (True, False):
        build(path, tmp_path / "cache", page_index=page_index)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    build(path, tmp_path / "cache", page_index=False)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def is_a_file(path):
    path.touch()
    return path


def is_a_folder_where_the_index_goes(path):
    recipe = IndexRecipe(
        storage=Storage(),
        files=(str(path.parent / "a.parquet"),),
        column="input_ids",
        cache_dir=str(path),
        page_index=True,
        verify_checksums=True,
    )
    file = cache_file(recipe)
    assert file is not None
    file.mkdir(parents=True)
    return path


def is_no_place_for_files(_):
    return "/proc/pagefeed"


@pytest.mark.parametrize(
    "place", [is_a_file, is_a_folder_where_the_index_goes, is_no_place_for_files]
)
def test_a_cache_folder_that_cannot_be_used_is_told(
    tmp_path, write_tokens, place, monkeypatch
):
    monkeypatch.setattr("pagefeed.caches.arrays._told", set())
    path = write_tokens(tmp_path / "a.parquet", [[1, 2, 3]] * 50)
    cache_dir = str(place(tmp_path / "cache"))
    dataset = pf.parquet(path, column="input_ids", cache_dir=cache_dir)
    with pytest.warns(CacheWarning, match="cannot be used.*cache_dir") as told:
        assert len(dataset) == 50
    assert cache_dir in str(told[0].message)
    assert sum(len(part) for part in dataset.split(a=0.5, b=0.5).values()) == 50
    assert build(path, cache_dir).fingerprint == dataset.fingerprint
    assert len(told) == 1


def test_a_full_disk_is_told_and_left_clean(tmp_path, write_tokens, run_python):
    path = write_tokens(tmp_path / "a.parquet", [[1, 2, 3]] * 50)
    cache_dir = tmp_path / "cache"
    run_python(f"""
import resource
import warnings
import pagefeed as pf
from pagefeed.errors import CacheWarning
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    index = pf.PageIndex.build({str(path)!r}, "input_ids", {str(cache_dir)!r})
assert [each.category for each in told] == [CacheWarning], told
assert len(index.read_page(0)) == 50
""")
    assert list(cache_dir.iterdir()) == []


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
        build("ftp://bucket/file.parquet", None)
    with pytest.raises(InvalidArgumentError, match="out of range"):
        build(token_files, None).read_page(10**6)


def test_a_file_that_is_not_parquet_is_refused_by_name(tmp_path):
    path = tmp_path / "text.parquet"
    path.write_text("not Parquet at all, whatever its name says")
    with pytest.raises(CorruptFileError, match=r"text\.parquet") as caught:
        build(path, None)
    assert caught.value.file == str(path)
