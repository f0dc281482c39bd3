"""Patterns of URLs mean what those of paths do."""

import fnmatch
import glob
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.storage.paths import is_url
from pagefeed.remote.paths import listed_folder, matches

NAMES = st.text("ab.[]!-*?/", min_size=1, max_size=8)


@given(NAMES, st.text("ab.*?!", min_size=1, max_size=6))
def test_inside_of_a_folder_as_in_the_standard_library(name, pattern):
    if "/" not in name and "**" not in pattern:
        assert matches(name, pattern) == fnmatch.fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    "pattern",
    ["*.parquet", "*/*.parquet", "**/*.parquet", "a/**", "?/c.parquet", "[!b]/*", "**"],
)
def test_folders_as_on_disk(tmp_path, pattern):
    names = ["c.parquet", "a/c.parquet", "a/b/c.parquet", "b/d.txt", "b/c.parquet"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = glob.glob(str(tmp_path / pattern), recursive=True)
    files = [Path(path) for path in found if Path(path).is_file()]
    expected = {path.relative_to(tmp_path).as_posix() for path in files}
    assert {name for name in names if matches(name, pattern)} == expected


def test_folders_of_patterns():
    assert listed_folder("s3://b/x/a-[0-9].parquet") == "s3://b/x/"
    assert listed_folder("s3://b/x/") is None
    assert listed_folder("https://host/a?b=*") is None
    assert not is_url("file:///data")
