"""The Parquet project's own files: whatever pyarrow reads, pagefeed reads the same."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import pagefeed
from made.shared_data import parquet_testing
from models import golden
from pagefeed import errors

# Their checksums are wrong on purpose; large_string_map is read on its own below.
CORRUPT = {
    "datapage_v1-corrupt-checksum.parquet": ("a", "b"),
    "rle-dict-uncompressed-corrupt-checksum.parquet": ("long_field", "binary_field"),
}
LARGE = "large_string_map.brotli.parquet"
UNREADABLE = {"incorrect_map_schema.parquet"}
# A year of it is refused, and wraps around in pyarrow.
FAR_YEARS = {"int96_from_spark.parquet"}


def found(pattern: str) -> dict[str, Path]:
    """Files below the data folder by name; none where the shared data is absent."""
    try:
        folder = parquet_testing("data")
    except pytest.skip.Exception:
        return {}
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob(pattern))}


def all_but(left_out: set[str]) -> list[str]:
    return [name for name in found("*.parquet") if name not in left_out]


def data(name: str) -> Path:
    return parquet_testing("data", name)


@pytest.mark.parametrize("name", all_but({LARGE, *CORRUPT, *UNREADABLE, *FAR_YEARS}))
def test_every_column_and_leaf(subtests: pytest.Subtests, name: str):
    path = data(name)
    for column in golden.columns_of(path):
        with subtests.test(column=column):
            golden.check_pages(path, column)


@pytest.mark.parametrize(
    "name", ["alltypes_tiny_pages.parquet", "alltypes_tiny_pages_plain.parquet"]
)
def test_pages_are_found_without_the_page_index(subtests: pytest.Subtests, name: str):
    for column in golden.columns_of(data(name)):
        with subtests.test(column=column):
            walked = golden.check_pages(data(name), column, page_index=False)
            looked_up = pagefeed.PageIndex.build(data(name), column=column)
            assert len(walked) == len(looked_up) > 80
            assert walked.page_rows.tolist() == looked_up.page_rows.tolist()


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_what_pyarrow_refuses_is_read_or_refused(name: str):
    try:
        golden.read_pages(pagefeed.PageIndex.build(data(name), column="my_map"))
    except errors.PagefeedError as error:
        named = error.file
    else:
        named = str(data(name))
    assert named == str(data(name))


@pytest.mark.parametrize("name", sorted(found("*.encrypted")))
def test_encrypted_files_are_refused_as_such(name: str):
    with pytest.raises(errors.EncryptedError, match="encrypt") as refused:
        golden.read_pages(pagefeed.PageIndex.build(data(name), column="double_field"))
    assert refused.value.file == str(data(name))


@pytest.mark.parametrize("name", sorted(CORRUPT))
def test_wrong_checksums_are_refused(name: str):
    for column in CORRUPT[name]:
        with pytest.raises(errors.ChecksumError) as refused:
            golden.read_pages(pagefeed.PageIndex.build(data(name), column=column))
        where = (refused.value.file, refused.value.row_group, refused.value.column)
        assert where == (str(data(name)), 0, column)


@pytest.mark.parametrize("name", sorted(CORRUPT))
def test_wrong_checksums_can_be_passed_over(name: str):
    for column in CORRUPT[name]:
        golden.check_pages(data(name), column, verify_checksums=False)


INDEX_LARGE = """
import resource, sys
import pagefeed
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
index = pagefeed.PageIndex.build(sys.argv[1], column="arr")
assert index.page_rows.tolist() == [1, 1]
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 100 << 10, grown
"""


def test_pages_of_over_a_gibibyte_are_indexed_in_little_memory():
    command = [sys.executable, "-c", INDEX_LARGE, str(data(LARGE))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr


READ_LARGE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import pyarrow
import pagefeed
index = pagefeed.PageIndex.build(sys.argv[1], column="arr")
assert index.page_rows.tolist() == [1, 1]
for at in range(len(index)):
    page = pyarrow.array(index.read_page(at))
    assert page.type == pyarrow.map_(pyarrow.string(), pyarrow.int32())
    assert len(page) == len(page.keys) == 1 and page.items.to_pylist() == [1]
    _, offsets, text = page.keys.buffers()
    assert memoryview(offsets).cast("i").tolist()[-2:] == [0, 2**30]
    text = memoryview(text)
    assert all(bytes(text[i : i + 2**24]) == b"a" * 2**24
               for i in range(0, 2**30, 2**24))
"""


@pytest.mark.alone
@pytest.mark.dear
def test_pages_of_over_a_gibibyte():
    if psutil.virtual_memory().available < 6e9:
        pytest.skip("takes 5 GB of memory")
    # What pyarrow gives row by row; the column as a whole it refuses.
    command = [sys.executable, "-c", READ_LARGE, str(data(LARGE))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
