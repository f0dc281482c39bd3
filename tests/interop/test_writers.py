"""Whoever wrote a file: every page is the slice of the column that pyarrow reads."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pagefeed
from made import files
from models import golden

Written = Callable[[str], list[Path]]
PYARROWS = ["pyarrow-11", "pyarrow-13", "pyarrow-22", "pyarrow"]


def leaves_of(path: Path, column: str) -> list[str]:
    return [leaf for leaf in golden.leaf_paths(path) if leaf.split(".")[0] == column]


def top_level(path: Path) -> list[str]:
    return list(pq.read_schema(path).names)


@pytest.mark.parametrize("page_index", [True, False])
@pytest.mark.parametrize("writer", [*PYARROWS, "polars", "duckdb", "fastparquet"])
def test_pages_are_slices_of_the_column(
    written: Written, subtests: pytest.Subtests, writer: str, page_index: bool
):
    for path in written(writer):
        for column in top_level(path):
            with subtests.test(file=path.name, column=column):
                index = golden.check_pages(path, column, page_index=page_index)
                check_fineness(index, path, column)


def check_fineness(index, path: Path, column: str) -> None:
    """As many pages as the writer wrote, or those in which a record begins."""
    if len(leaves_of(path, column)) > 1:
        return
    num_stored = len(files.data_pages(path, column))
    if "." not in leaves_of(path, column)[0] or "index" in path.name:
        assert len(index) == num_stored
    else:
        assert num_stored / 2 < len(index) <= num_stored


@pytest.mark.parametrize("writer", [*PYARROWS, "polars"])
def test_files_hold_many_pages_per_row_group(written: Written, writer: str):
    for path in written(writer):
        if path.name != "defaults.parquet":
            groups = pq.read_metadata(path).num_row_groups
            for column in ("tokens_dict", "tokens_plain", "text_plain", "flat_int"):
                assert len(files.data_pages(path, column)) > 2 * groups >= 6


@pytest.mark.parametrize("writer", ["pyarrow-11", "pyarrow-13", "pyarrow-22"])
def test_old_files_split_records_between_pages(written: Written, writer: str):
    path = next(path for path in written(writer) if path.name == "v1-small.parquet")
    index = golden.check_pages(path, "tokens_plain")
    sizes = [page.num_values for page in files.data_pages(path, "tokens_plain")]
    assert [0, *index.page_values.tolist()] != [0, *sizes]


@pytest.mark.parametrize("writer", ["pyarrow-22", "pyarrow", "polars", "duckdb"])
def test_inner_columns_are_read_by_dotted_path(
    written: Written, subtests: pytest.Subtests, writer: str
):
    path = written(writer)[0]
    nested = ("nested", "list_struct", "list_list", "a_map", "tokens_dict")
    for column in golden.columns_of(path):
        if "." in column and column.startswith(nested):
            with subtests.test(file=path.name, column=column):
                golden.check_pages(path, column)


def test_one_index_covers_the_files_of_all_versions(written: Written):
    paths = [path for writer in PYARROWS for path in written(writer)]
    index = pagefeed.PageIndex.build(paths, column="tokens_dict")
    whole = golden.whole_column(paths[0], "tokens_dict").to_pylist()
    tokens = [row for page in golden.read_pages(index) for row in page.to_pylist()]
    assert tokens == whole * len(paths)
    assert index.files == [str(path) for path in paths]
    assert index.num_values == sum(map(len, whole)) * len(paths)
