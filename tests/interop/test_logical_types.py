"""Logical types that Arrow has extension types for: as pyarrow reads them."""

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from models import golden
from pagefeed import Documents, Loader


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ids = [None if n % 5 == 0 else uuid.UUID(int=n**9).bytes for n in range(99)]
    stored = pa.array(ids, pa.binary(16))
    flat = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    offsets = pa.array([0, 0, *range(2, 99), 99], pa.int32())
    listed = pa.ListArray.from_arrays(offsets, flat)
    table = pa.table(
        {
            "uuid": flat,
            "list_uuid": listed,
            "struct_uuid": pa.StructArray.from_arrays(
                [flat, pa.array(range(99))], names=["id", "n"]
            ),
            "json": pa.array(["{}", None, "[1]"] * 33, pa.json_()),
            "half": pa.array([1.5, None, -2.0] * 33, pa.float16()),
            "list_json": pa.array([["{}"], None, []] * 33, pa.list_(pa.string())),
        }
    )
    path = tmp_path_factory.mktemp("logical") / "types.parquet"
    pq.write_table(table, path, data_page_size=256, write_batch_size=9)
    return path


@pytest.mark.parametrize("page_index", [True, False])
@pytest.mark.parametrize(
    "column", ["uuid", "list_uuid", "struct_uuid", "json", "half", "list_json"]
)
def test_pages_have_the_type_that_pyarrow_gives(
    path: Path, column: str, *, page_index: bool
):
    whole = pq.read_table(path, columns=[column])[column]
    index = pagefeed.PageIndex.build(path, column=column, page_index=page_index)
    pages = [pa.array(index.read_page(page)) for page in range(len(index))]
    assert all(page.type == whole.type for page in pages)
    assert [value for page in pages for value in page.to_pylist()] == whole.to_pylist()
    golden.check_pages(path, column, page_index=page_index)


def test_batches_of_documents_have_them_too(path: Path):
    columns = ["uuid", "list_uuid", "struct_uuid", "json"]
    data = pagefeed.parquet(path, column="json")
    loader = Loader(
        data, sequences=Documents(columns=columns), batch_size=33, shuffle=None
    )
    table = pq.read_table(path)
    batches = list(loader)
    for name in columns:
        found = [pa.array(batch[name]) for batch in batches]
        assert all(array.type == table[name].type for array in found)
        values = [value for array in found for value in array.to_pylist()]
        assert values == table[name].to_pylist()
