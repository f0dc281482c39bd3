"""Columns with a number for every token: what is refused, and where they arrive."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    UnsupportedError,
)

EOS = 9


def write(path: Path, columns: dict[str, Any], **options: Any) -> str:
    pq.write_table(pa.table(columns), path, **options)
    return str(path)


def rows(count: int, *, change: dict[int, int] | None = None) -> list[list[int]]:
    """Rows of 0 to 6 numbers; some have more or fewer."""
    lengths = [n % 7 + (change or {}).get(n, 0) for n in range(count)]
    return [list(range(10 * n, 10 * n + length)) for n, length in enumerate(lengths)]


def loader(data: Any, sequences: Any = None, **options: Any) -> pf.Loader:
    settings = {"batch_size": 2, "seed": 0, "shuffle": None} | options
    return pf.Loader(data, sequences=sequences or pf.Windows(8, eos=EOS), **settings)


def test_they_arrive_in_their_own_type_with_their_padding(tmp_path: Path):
    path = write(
        tmp_path / "a.parquet",
        {
            "input_ids": [[5, 6, 7], None, [8]],
            "labels": pa.array([[-100, 6, 7], None, [8]], pa.list_(pa.int32())),
            "loss_weight": pa.array([[0.5, 1.0, 2.0], [], [4.0]]),
            "kind": pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int8())),
        },
    )
    names = ["labels", "loss_weight", "kind"]
    data = pf.parquet(path, column="input_ids", aligned=names)
    fields: Final = ("input_ids", "labels", "loss_mask")
    [batch] = loader(data, fields=fields, batch_size=1, drop_last=False)
    assert batch["input_ids"].tolist() == [[5, 6, 7, EOS, EOS, 8, EOS, 0]]
    assert batch["labels"].tolist() == [[-100, 6, 7, -100, -100, -100, -100, -100]]
    assert batch["loss_mask"].tolist() == [[0, 1, 1, 0, 0, 0, 0, 0]]
    assert batch["loss_weight"].tolist() == [[0, 1, 2, 0, 0, 0, 0, 0]]
    assert batch["kind"].tolist() == [[1, 2, 3, 0, 0, 4, 0, 0]]
    kinds = [str(batch[name].dtype) for name in names]
    assert kinds == ["int32", "float64", "int8"]
    documents = pf.Documents(max_length=2)
    [batch] = loader(data, documents, fields=fields, batch_size=3)
    assert batch["labels"].tolist() == [[-100, 6], [-100, -100], [-100, -100]]
    assert batch["loss_mask"].tolist() == [[0, 1], [0, 0], [0, 0]]
    assert batch["loss_weight"].tolist() == [[0, 1], [0, 0], [0, 0]]
    weights = pf.Fields(names=fields, dtypes={"loss_mask": "float32"})
    for cut, mask in [
        (None, [[0, 1, 1, 0, 0, 0, 0, 0]]),
        (documents, [[0, 1], [0, 0], [0, 0]]),
    ]:
        options = {"batch_size": len(mask), "fields": weights, "drop_last": False}
        [batch] = loader(data, cut, **options)
        assert batch["loss_mask"].dtype == np.float32
        assert batch["loss_mask"].tolist() == mask
    whole = next(iter(loader(data, pf.Documents(), batch_size=3)))
    assert pa.array(whole["kind"]).to_pylist() == [[1, 2, 3], [], [4]]
    view = pf.SequenceView(data, pf.Windows(4))
    assert view[0]["labels"].tolist() == [-100, 6, 7, -100]
    assert data[0] == {
        "input_ids": [5, 6, 7],
        "labels": [-100, 6, 7],
        "loss_weight": [0.5, 1.0, 2.0],
        "kind": [1, 2, 3],
    }
    assert "aligned" in repr(data)


def test_a_file_with_other_lengths_is_refused_by_the_row(tmp_path: Path):
    good = {"input_ids": rows(40), "labels": rows(40)}
    write(tmp_path / "a.parquet", good, row_group_size=10)
    wrong = {"input_ids": rows(40), "labels": rows(40, change={26: 1})}
    path = write(tmp_path / "b.parquet", wrong, row_group_size=10)
    data = pf.parquet(tmp_path, column="input_ids", aligned=["labels"])
    with pytest.raises(
        CorruptFileError,
        match=r"row group 2.* row 6 of the row group has 6 values and 5",
    ) as e:
        loader(data)
    assert (e.value.file, e.value.row_group, e.value.column) == (path, 2, "labels")


@pytest.mark.parametrize(
    "cut", [pf.Windows(8), pf.Packed(8), pf.Documents(max_length=4)]
)
def test_rows_of_other_lengths_are_refused_if_their_sums_are_right(
    tmp_path: Path, cut: Any
):
    change = {25: 1, 26: -1}
    wrong = {"input_ids": rows(40), "weights": rows(40, change=change)}
    path = write(tmp_path / "a.parquet", wrong, row_group_size=10)
    data = pf.parquet(path, column="input_ids", aligned=["weights"])
    with pytest.raises(CorruptFileError) as caught:
        list(loader(data, cut, batch_size=1))
    error = caught.value
    assert (error.file, error.row_group, error.column) == (path, 2, "weights")
    text = str(error) + "".join(error.__notes__)
    assert "row 5 of the row group" in text or "row 25 of the file" in text
    assert error.steps


def test_what_has_no_number_for_every_token_is_refused(tmp_path: Path):
    columns = {
        "input_ids": [[1, 2], [3]],
        "text": ["a", "b"],
        "holes": pa.array([[1, None], [3]], pa.list_(pa.int32())),
        "small": pa.array([[1, 2], [3]], pa.list_(pa.uint8())),
        "once": [1, 2],
        "meta": [{"labels": [1, 2]}, {"labels": [3]}],
    }
    path = write(tmp_path / "a.parquet", columns)

    def refused(aligned: Any, kind: type[Exception], match: str) -> None:
        with pytest.raises(kind, match=match):
            loader(pf.parquet(path, column="input_ids", aligned=aligned))

    refused("text", InvalidArgumentError, r"\['text'\]")
    refused(["text"], UnsupportedError, "'text' .*holds no numbers")
    refused(["holes"], UnsupportedError, "column holes.*stands for no number")
    refused({"small": -1}, InvalidArgumentError, "uint8 numbers, and .* -1,")
    refused({"small": 0.5}, InvalidArgumentError, "its padding or eos, 0.5,")
    refused({"small": "0"}, InvalidArgumentError, "a number for padding")
    refused(
        ["once"], CorruptFileError, "row 0 of the row group has 1 values and 2 tokens"
    )
    refused(["small", "small"], InvalidArgumentError, "each once")
    refused(["input_ids"], InvalidArgumentError, "next to input_ids")
    with pytest.raises(InvalidArgumentError, match="a batch has a field"):
        pf.parquet(path, column="once", aligned=["input_ids"])
    refused(["nothing"], pf.errors.ColumnNotFoundError, "nothing")
    nested = pf.parquet(path, column="input_ids", aligned=["meta.labels"])
    [batch] = loader(nested, batch_size=1, drop_last=False)
    assert batch["meta.labels"].tolist() == [
        [-100, 2, -100, -100, -100, -100, -100, -100]
    ]
    [batch] = loader(nested, pf.Documents(max_length=2))
    assert batch["meta.labels"].tolist() == [[-100, 2], [-100, -100]]


def test_labels_of_files_are_not_moved(tmp_path: Path):
    path = write(tmp_path / "a.parquet", {"input_ids": [[1]], "labels": [[1]]})
    data = pf.parquet(path, column="input_ids", aligned=["labels"])
    fields = pf.Fields(names=("input_ids", "labels"), shifted=True)
    with pytest.raises(InvalidArgumentError, match="shifted=True moves labels"):
        loader(data, fields=fields)


@pytest.mark.parametrize("cut", [pf.Windows(8), pf.Documents(max_length=8)], ids=str)
def test_types_and_ignored_labels_are_not_those_of_files(tmp_path: Path, cut: Any):
    path = write(tmp_path / "a.parquet", {"input_ids": [[1]], "labels": [[1]]})
    data = pf.parquet(path, column="input_ids", aligned=["labels"])
    names: Final = ("input_ids", "labels")
    fields = pf.Fields(names=names, dtypes={"labels": "int32"})
    with pytest.raises(InvalidArgumentError, match=r"the type that the files have"):
        loader(data, cut, fields=fields, dtype="int32")
    fields = pf.Fields(names=names, ignore_index=0)
    with pytest.raises(InvalidArgumentError, match=r"aligned=\{'labels': 0\}"):
        loader(data, cut, fields=fields)


def test_datasets_of_a_mixture_have_the_same(tmp_path: Path):
    one = {"input_ids": rows(40), "labels": rows(40)}
    other = one | {"labels": pa.array(rows(40), pa.list_(pa.int16()))}
    paths = [write(tmp_path / "a.parquet", one), write(tmp_path / "b.parquet", other)]

    def mixture(*aligned: Any) -> Any:
        parts = zip("ab", paths, aligned, strict=True)
        return pf.mix(
            {
                name: (pf.parquet(path, column="input_ids", aligned=columns), 1)
                for name, path, columns in parts
            },
            max_steps=5,
        )

    with pytest.raises(
        InvalidArgumentError, match=r"'labels' of int64 x 1.*'labels' of int16"
    ):
        loader(mixture(["labels"], ["labels"]))
    with pytest.raises(InvalidArgumentError, match=r"does not: .*fill=\['labels'\]"):
        loader(mixture(["labels"], []))
    made = loader(mixture([], []), pf.Windows(8), fields=("input_ids",))
    assert "labels" not in next(iter(made))


def test_they_count_in_memory_and_in_what_a_plan_says(tmp_path: Path):
    count = 2000
    columns = {
        "input_ids": pa.array(rows(count), pa.list_(pa.int32())),
        "labels": rows(count),
        "weights": pa.array(rows(count), pa.list_(pa.float32())),
    }
    path = write(tmp_path / "a.parquet", columns, data_page_size=999)
    plain = pf.parquet(path, column="input_ids")
    beside = pf.parquet(path, column="input_ids", aligned=["labels", "weights"])
    settings = {"shuffle": "page", "memory": "2MiB"}
    alone, both = (loader(data, **settings) for data in (plain, beside))
    needed = [pf.forecast(one).needed_bytes for one in (alone, both)]
    assert needed[1] > 2 * needed[0]  # Pages of other columns end at other rows.
    added = pf.forecast(both).columns
    assert set(added) == {"labels", "weights"}
    assert pf.forecast(alone).columns == {}
    for one, other in zip(alone, both, strict=True):
        np.testing.assert_array_equal(one["input_ids"], other["input_ids"])
    stats = both.stats()
    for name, each in added.items():
        index = beside.column_index(name)
        assert each.reads >= len(index)
    assert stats["peak_bytes"] <= 2 << 20
    assert stats["bytes_read"] > 1.2 * alone.stats()["bytes_read"]
