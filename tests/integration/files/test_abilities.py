"""A dataset of any kind is delivered, if it has what the contract asks."""

from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.core.dataset.dataset import Source


class Other(Source):
    """A dataset of another kind: it has what the protocol asks, and no more."""

    def __init__(self, dataset: pf.dataset.ParquetDataset) -> None:
        for name in ("column", "metadata", "files"):
            setattr(self, name, getattr(dataset, name))
        for name in ("verify_checksums", "fingerprint", "index", "spans"):
            setattr(self, name, getattr(dataset, name))
        for name in ("aligned", "aligned_sources", "span_columns"):
            setattr(self, name, getattr(dataset, name))
        for name in ("column_index", "source_of", "check_not_empty", "draws"):
            setattr(self, name, getattr(dataset, name))
        self._length = len(dataset)

    kind: Literal["tokens"] = "tokens"

    @property
    def parts(self) -> dict[str, Any]:
        return {"": self}

    def __len__(self) -> int:
        return self._length


@pytest.mark.parametrize("sequences", [pf.Documents(), pf.Windows(8), pf.Packed(8)])
def test_any_dataset_of_the_protocol_is_delivered(tmp_path, sequences):
    rows = [[n] * (1 + n % 5) for n in range(200)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    dataset = pf.parquet(tmp_path, column="input_ids")

    def delivered(dataset):
        settings = {"sequences": sequences, "batch_size": 4, "seed": 3}
        loader = pf.Loader(dataset, **settings)
        origins = [loader.locate(step, 0) for step in range(3)]
        return origins, sum(1 for _ in loader), loader.state_dict()

    assert delivered(Other(dataset)) == delivered(dataset)
    other: Any = Other(dataset)
    mixed = pf.mix({"a": (other, 1.0)})
    assert next(iter(pf.Loader(mixed, sequences=sequences, batch_size=4, epochs=None)))
