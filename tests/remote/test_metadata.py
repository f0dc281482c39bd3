"""Columns that tell of documents, and spans, come from afar as from the disk."""

import itertools
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf

FIELDS: Final = ("input_ids", "labels", "metadata")


@pytest.fixture(scope="module")
def told(root: Path) -> Path:
    """Two files of documents with an id, a nested language and spans."""
    folder = root / "told" / "lang=en"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    for number in range(2):
        lengths = rng.integers(0, 60, 400).tolist()
        rows = {
            "input_ids": [rng.integers(3, 999, n).tolist() for n in lengths],
            "weight": [rng.random(n).tolist() for n in lengths],
            "id": [f"{number}/{row}" for row in range(len(lengths))],
            "meta": [{"score": n / 7, "n": n} for n in lengths],
            "concepts": [
                [
                    {"start": at, "end": at + 3, "name": f"c{at}"}
                    for at in range(0, n, 9)
                ]
                if n > 12
                else []
                for n in lengths
            ],
        }
        for row, n in zip(rows["concepts"], lengths, strict=True):
            for span in row:
                span["end"] = min(n, span["end"])
        pq.write_table(
            pa.table(rows),
            folder / f"{number}.parquet",
            row_group_size=150,
            data_page_size=500,
            write_batch_size=20,
        )
    return folder


@pytest.mark.parametrize("kind", ["s3", "web"])
@pytest.mark.parametrize(
    "sequences",
    [pf.Windows(32, eos=1), pf.Packed(64), pf.Documents(max_length=24)],
    ids=["windows", "packed", "documents"],
)
def test_tables_are_those_of_the_files(request, told, sequences, kind):
    place = request.getfixturevalue(kind)
    base = f"{place.base.removesuffix('corpus/tokens')}told"
    far = [f"{base}/lang=en/{number}.parquet" for number in range(2)]
    loaders = [
        pf.Loader(
            pf.parquet(
                paths,
                column="input_ids",
                aligned=["weight"],
                metadata=["id", "meta.score", "lang"],
                spans=["concepts"],
                storage_options=options,
            ),
            sequences=sequences,
            batch_size=4,
            shuffle="page",
            seed=2,
            drop_last=False,
            fields=FIELDS,
        )
        for paths, options in ((far, place.options or None), (str(told), None))
    ]
    count = 0
    for one, other in itertools.zip_longest(*loaders):
        assert one.keys() == other.keys()
        assert pa.table(one["metadata"]) == pa.table(other["metadata"])
        for name in ("input_ids", "labels", "weight"):
            np.testing.assert_array_equal(one[name], other[name])
        count += len(one["metadata"])
    assert count > 500
    assert loaders[0].stats()["storage/bytes_fetched"] > 0


def test_a_remote_file_of_wrong_spans_says_where(s3, root):
    folder = root / "wrong"
    folder.mkdir(exist_ok=True)
    rows = {"input_ids": [[1, 2]], "spans": [[{"start": 0, "end": 7}]]}
    pq.write_table(pa.table(rows), folder / "a.parquet")
    data = pf.parquet(
        "s3://wrong/a.parquet",
        column="input_ids",
        spans=["spans"],
        storage_options=s3.options,
    )
    loader = pf.Loader(data, sequences=pf.Windows(2), batch_size=1, fields=FIELDS)
    with pytest.raises(pf.errors.CorruptFileError, match="from 0 to 7") as found:
        next(iter(loader))
    assert found.value.file == "s3://wrong/a.parquet"
