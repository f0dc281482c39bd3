"""Choices have types: mypy refuses a wrong one, and so does the package.

Each `type: ignore` below is an error of mypy if what it stands beside is accepted
(`warn_unused_ignores`, of `strict`).
"""

from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed._core import Engine
from pagefeed.contract import Step
from pagefeed.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> pf.dataset.ParquetDataset:
    path = tmp_path_factory.mktemp("few") / "few.parquet"
    pq.write_table(pa.table({"input_ids": [[1, 2, 3, 4]] * 8}), path)
    return pf.parquet(path, column="input_ids")


def refused(what: str):
    return pytest.raises(InvalidArgumentError, match=what)


def test_choices_of_a_loader(dataset: pf.dataset.ParquetDataset) -> None:
    windows = pf.Windows(4)
    with refused("pgae"):
        pf.Loader(dataset, sequences=windows, batch_size=1, shuffle="pgae")  # type: ignore[arg-type]
    with refused("jax"):
        pf.Loader(dataset, sequences=windows, batch_size=1, format="jax")  # type: ignore[arg-type]
    with refused("int8"):
        pf.Loader(dataset, sequences=windows, batch_size=1, dtype="int8")  # type: ignore[arg-type]
    with refused("lables"):
        pf.Loader(dataset, sequences=windows, batch_size=1, fields=["lables"])  # type: ignore[list-item]
    with refused("2048"):
        pf.Loader(dataset, sequences=2048, batch_size=1)  # type: ignore[arg-type]
    with refused("int8"):
        pf.SequenceView(dataset, windows, dtype="int8")  # type: ignore[arg-type]


def test_choices_of_settings(dataset: pf.dataset.ParquetDataset) -> None:
    with refused("pgae"):
        pf.Shuffle(block="pgae")  # type: ignore[arg-type]
    with refused("lables"):
        pf.Fields(names=("lables",))
    with refused("complex"):
        pf.Fields(names=("labels",), dtypes={"labels": "complex"})
    with refused("cut"):
        pf.Windows(4, tail="cut")  # type: ignore[arg-type]
    with refused("line"):
        pf.Windows(4, join="line")  # type: ignore[arg-type]
    with refused("best"):
        pf.Packed(4, method="best")  # type: ignore[arg-type]
    with refused("soon"):
        pf.mix({"all": dataset}, stop="soon")  # type: ignore[arg-type]
    with refused("words"):
        pf.mix({"all": dataset}, unit="words")  # type: ignore[arg-type]


def test_numbers_of_steps_and_their_indexes(dataset: pf.dataset.ParquetDataset) -> None:
    """A step that was skipped keeps its number, and has no index."""
    loader = pf.Loader(dataset, sequences=pf.Windows(4), batch_size=1)
    loader.skip([1])
    route = loader.view().position.whole.route
    step = Step(2)
    assert route.index_of(step) == 1
    assert route.number_of(route.index_of(step)) == 2
    # Each of these is of another step, and nothing else would tell.
    assert route.number_of(step) == 3  # type: ignore[arg-type]
    assert route.index_of(route.index_of(step)) == 1  # type: ignore[arg-type]


def test_plans_of_an_engine(dataset: pf.dataset.ParquetDataset) -> None:
    loader = pf.Loader(dataset, sequences=pf.Windows(4), batch_size=1)
    plan, engine = loader.plan([0]), cast("Engine", loader.view()._feed.engine())
    with pytest.raises(AttributeError, match="num_batches"):
        engine.submit(plan.segments)  # type: ignore[arg-type]
    loader.close()
