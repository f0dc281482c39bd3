"""Numbers that are no token ids: refused with the place they are stored at."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from made.handmade import (
    INT32,
    OPTIONAL,
    REPEATED,
    REQUIRED,
    data_page,
    dictionary_page,
    element,
    levels,
    one_column,
    rle_run,
)
from made.pairs import pairs
from pagefeed import Documents, Loader, Packed, SequenceView, Windows
from pagefeed.core.any_loader import share
from pagefeed.core.sequences import Cut
from pagefeed.errors import CorruptFileError, InvalidArgumentError, TokenRangeError

SETTINGS = [Windows(4), Windows(4, eos=1), Packed(4), Documents(max_length=4)]
TYPES = [pa.int32(), pa.int64(), pa.int16(), pa.int8()]


def write(path: Path, rows: list[list[int]], kind: pa.DataType, **options: Any) -> Path:
    table = pa.table({"input_ids": pa.array(rows, pa.list_(kind))})
    pq.write_table(table, path, row_group_size=2, **options)
    return path


def load(path: Path, sequences: Cut, **options: Any) -> list[Any]:
    data = pagefeed.parquet(path, column="input_ids")
    loader = Loader(data, sequences=sequences, batch_size=1, shuffle=None, **options)
    return list(loader)


def assert_place(error: TokenRangeError, path: Path) -> None:
    assert (error.file, error.row_group) == (str(path), 1)
    assert (error.column, error.page) == ("input_ids", 0)
    assert error.offset is not None


@pytest.mark.parametrize(
    ("sequences", "use_dictionary", "kind"),
    pairs(SETTINGS, [True, False], TYPES),
    ids=str,
)
def test_negative_numbers_are_refused(
    tmp_path: Path,
    kind: pa.DataType,
    sequences: Cut,
    *,
    use_dictionary: bool,
):
    rows = [[1, 2], [3], [4], [5, -6, 7]]
    path = write(tmp_path / "a.parquet", rows, kind, use_dictionary=use_dictionary)
    expected = "row 1 of the row group holds -6 as its token 1, .*0 or more"
    with pytest.raises(TokenRangeError, match=expected) as caught:
        load(path, sequences)
    assert_place(caught.value, path)


@pytest.mark.parametrize(
    ("sequences", "use_dictionary", "largest", "kind"),
    pairs(
        SETTINGS,
        [True, False],
        [100, 50_256, 128_255],
        [pa.int32(), pa.uint32(), pa.int64()],
    ),
    ids=str,
)
def test_numbers_beyond_the_vocabulary_are_refused(
    tmp_path: Path,
    kind: pa.DataType,
    largest: int,
    sequences: Cut,
    *,
    use_dictionary: bool,
):
    rows = [[1, 2], [3], [4, largest], [5]]
    path = write(tmp_path / "a.parquet", rows, kind, use_dictionary=use_dictionary)
    assert load(path, sequences, vocab_size=largest + 1)
    assert load(path, sequences, vocab_size=1 << 40)
    expected = f"row 0 .* holds {largest} as its token 1, .*vocab_size={largest}"
    with pytest.raises(TokenRangeError, match=expected) as caught:
        load(path, sequences, vocab_size=largest)
    assert_place(caught.value, path)


def test_sizes_of_vocabularies_are_checked_at_once(tmp_path: Path):
    path = write(tmp_path / "a.parquet", [[1, 2], [3]], pa.int32())
    for wrong in (0, -1, True, 1.5, "many"):
        with pytest.raises(InvalidArgumentError, match="vocab_size"):
            load(path, Windows(4), vocab_size=wrong)
    with pytest.raises(InvalidArgumentError, match=r"padding=99 .*0 to 9"):
        load(path, Windows(4), vocab_size=10, padding=99)
    for name, sequences in (("eos", Windows(4, eos=10)), ("bos", Packed(4, bos=10))):
        with pytest.raises(InvalidArgumentError, match=f"{name}=10 .*vocab_size=10"):
            load(path, sequences, vocab_size=10)


def test_views_and_copies_of_loaders_check_too(tmp_path: Path):
    path = write(tmp_path / "a.parquet", [[1, 2], [3], [7]], pa.int32())
    data = pagefeed.parquet(path, column="input_ids")
    view = SequenceView(data, Windows(4), vocab_size=7)
    with pytest.raises(TokenRangeError, match="holds 7"):
        _ = view[0]
    loader = Loader(data, sequences=Windows(2), batch_size=1, vocab_size=7)
    assert "vocab_size" not in loader.state_dict()
    with pytest.raises(TokenRangeError, match="holds 7"):
        list(share(loader, 2))


def test_other_columns_of_documents_are_free(tmp_path: Path):
    kind = pa.list_(pa.int32())
    table = pa.table(
        {
            "input_ids": pa.array([[1, 2], [3]], kind),
            "labels": pa.array([[-100, 2], [900]], kind),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    documents = Documents(columns=["labels"], max_length=4)
    (batch,) = load(tmp_path / "a.parquet", documents, vocab_size=4)[:1]
    assert pa.array(batch["labels"]).to_pylist() == [[-100, 2]]


NARROW = {"int8": 15, "int16": 16, "uint8": 11, "uint16": 12}  # converted types


def narrow_file(
    path: Path, name: str, value: int, *, encoding: str, null: bool = False
) -> Path:
    """Lists of small integers, one of which is `value`, stored in 32 bits."""
    schema = [
        element("input_ids", repetition=OPTIONAL, children=1, converted=3),
        element("list", repetition=REPEATED, children=1),
        element("element", kind=INT32, repetition=REQUIRED, converted=NARROW[name]),
    ]
    definition = [2, 2, 2, 0] if null else [2, 2, 2]
    parts = [levels([0, 1, 0, 0][: len(definition)], 1), levels(definition, 2)]
    head = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    values = [1, 2, value]
    stored = b"".join((one & 0xFFFFFFFF).to_bytes(4, "little") for one in values)
    if encoding == "dictionary":
        runs = b"".join(rle_run(1, index, 2) for index in range(3))
        pages = [
            dictionary_page(3, stored),
            data_page(len(definition), head + b"\2" + runs, encoding=8),
        ]
    else:
        pages = [data_page(len(definition), head + stored)]
    file = one_column(schema, pages, num_rows=3 if null else 2)
    path.write_bytes(file.encode())
    return path


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("encoding", ["plain", "dictionary"])
@pytest.mark.parametrize("name", NARROW)
def test_small_integers_hold_what_their_type_can(
    tmp_path: Path, name: str, encoding: str, *, null: bool
):
    info = np.iinfo(name)
    for value in (int(info.min), int(info.max)):
        path = tmp_path / f"{value}.parquet"
        narrow_file(path, name, value, encoding=encoding, null=null)
        index = pagefeed.PageIndex.build(path, column="input_ids")
        found = pa.array(index.read_page(0)).to_pylist()
        assert found == [[1, 2], [value], None][: 2 + null]
    for value in (int(info.min) - 1, int(info.max) + 1, 1 << 30):
        path = tmp_path / f"{value}.parquet"
        narrow_file(path, name, value, encoding=encoding, null=null)
        index = pagefeed.PageIndex.build(path, column="input_ids")
        stored = value % (1 << 32) if name.startswith("u") else value
        data = pagefeed.parquet(path, column="input_ids")
        view = SequenceView(data, Windows(2))
        for read in (index.read_page, index.row_offsets, view.__getitem__):
            with pytest.raises(
                CorruptFileError, match=f"holds {stored}, its"
            ) as caught:
                read(0)
            assert (caught.value.file, caught.value.page) == (str(path), 0)
