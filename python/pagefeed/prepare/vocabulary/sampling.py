"""Draw texts at random from datasets, with a share of each source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pagefeed.core._base import (
    Work,
    check_choice,
    check_column,
    check_number,
    check_positive,
    check_whole,
    in_order,
    parse_bytes,
    require,
)
from pagefeed.core.dataset import FolderColumn, PageIndex
from pagefeed.core.loader import Loader
from pagefeed.documents import Documents
from pagefeed.errors import InvalidArgumentError
from pagefeed.parquet_files import ParquetDataset

TextDatasets: TypeAlias = ParquetDataset | Mapping[str, ParquetDataset]
"""A dataset of texts, or several by their names."""
Mixing: TypeAlias = Literal["page", "row"]

MOST_SOURCES = 1000
ROUNDING = 1e-9
"""Allowed difference of two sums of the same sizes."""
PILOT_ROWS = 256
"""Rows from which the mean length of a source's texts is taken."""
MEMORY = "1GiB"
"""Memory limit of reading: pages that are mixed take a quarter of it at most, so none
is read twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSource:
    """Size of a source, and how much was drawn from it."""

    source: str
    """Name of the source, or its value in the column of sources."""
    num_rows: int
    """Rows of the source without the held-out ones."""
    num_bytes: int
    """Bytes of their texts, by the mean of some."""
    sampled_rows: int
    """Rows drawn, counted each time."""
    sampled_bytes: int
    """Bytes of their texts."""


@dataclass(kw_only=True)
class TextSample:
    """Drawn texts, the same at every iteration: some bytes of each source."""

    datasets: Mapping[str, ParquetDataset]
    """Datasets of texts by the names of sources."""
    num_bytes: int
    """Bytes to draw in all; fewer if the texts have fewer."""
    temperature: float
    """Sources of n bytes are drawn in proportion to n ** (1 / T)."""
    seed: int
    """Seed of the draw."""
    shuffle: Mixing
    """Whether pages or rows are drawn at random."""
    weights: Mapping[str, float] | None = None
    """Share of each source, in place of the temperature."""
    memory: int | str = MEMORY
    """Bytes that reading may hold."""

    sources: tuple[SampledSource, ...] = ()
    """Sizes of the sources; filled by the first iteration."""

    def __post_init__(self) -> None:
        self._sizes = {name: self._size(name) for name in self.datasets}
        self._wanted = amounts(
            self._sizes, self.num_bytes, self.temperature, self.weights
        )

    def __iter__(self) -> Iterator[str]:
        """Yield the texts, source after source."""
        total, sources = round(sum(self._wanted.values())), []
        with Work("texts are read", total=total, unit="B") as work:
            for name, dataset in self.datasets.items():
                rows = size = 0
                for text, num_bytes in self._drawn(name):
                    rows, size = rows + 1, size + num_bytes
                    work.advance(num_bytes)
                    yield text
                drawn = SampledSource(
                    source=name,
                    num_rows=len(dataset),
                    num_bytes=round(self._sizes[name]),
                    sampled_rows=rows,
                    sampled_bytes=size,
                )
                sources.append(drawn)
        self.sources = tuple(sources)

    def _drawn(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield the texts drawn of a source, with the bytes of each."""
        size, wanted = self._sizes[name], self._wanted[name]
        # Take the whole source if the wanted size is about its size.
        most = math.inf if abs(wanted - size) <= ROUNDING * wanted else wanted
        # Repeat a source that is smaller than its wanted size.
        is_repeated = wanted > size * (1 + ROUNDING) > 0
        return up_to(self._texts(name, None if is_repeated else 1), most)

    def _texts(self, name: str, epochs: int | None = 1) -> Iterator[str]:
        return texts_of(
            self.datasets[name],
            seed=self.seed,
            shuffle=self.shuffle,
            epochs=epochs,
            memory=self.memory,
        )

    def _size(self, name: str) -> float:
        some = islice(self._texts(name), PILOT_ROWS)
        lengths = [len(text.encode()) for text in some]
        return len(self.datasets[name]) * float(np.mean(lengths)) if lengths else 0.0


def amounts(
    sizes: Mapping[str, float],
    num_bytes: int,
    temperature: float,
    given: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the share of each source, as given or in proportion to n ** (1 / T).

    Args:
        sizes: Bytes that each source has.
        num_bytes: Bytes to draw in all, at most those that there are.
        temperature: 1 is proportional, more is more even.
        given: Weight of each source, in place of the temperature.

    Raises:
        InvalidArgumentError: If the temperature is not above 0, there are no texts, or
            weights do not fit the sources.

    Example:
        >>> amounts({"en": 900, "is": 100}, 500, 1)
        {'en': 450.0, 'is': 50.0}
    """
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InvalidArgumentError(
            f"temperature={temperature!r} must be above 0: 1 is proportional to what "
            "there is, 2 and more give small sources more"
        )
    total = sum(sizes.values())
    if total <= 0:
        raise InvalidArgumentError(f"there are no texts in {', '.join(sizes)}")
    # Powers of shares, which a float can hold.
    weights = {
        name: (size / total) ** (1 / temperature) if size else 0.0
        for name, size in sizes.items()
    }
    if given is not None:
        weights = _checked_weights(given, sizes, temperature)
    bytes_per_weight = min(num_bytes, total) / math.fsum(weights.values())
    return {name: weight * bytes_per_weight for name, weight in weights.items()}


def _checked_weights(
    given: object, sizes: Mapping[str, float], temperature: float
) -> dict[str, float]:
    """Return the weight of each source."""
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"weights={given!r:.60} must name a weight for each source, such as "
            '{"en": 0.4, "th": 0.6}'
        )
    if temperature != 1:
        raise InvalidArgumentError(
            f"weights= and temperature={temperature:g} both say how much of a source "
            "is drawn: give one of them"
        )
    if given.keys() != sizes.keys():
        raise InvalidArgumentError(
            f"weights are for {', '.join(map(str, given))}, and the sources are "
            f"{', '.join(sizes)}: name each source, with 0 to learn nothing from it"
        )
    weights = {
        name: check_number(given[name], f"weights[{name!r}]", least=0, below=math.inf)
        for name in sizes
    }
    if not any(weights.values()) or any(weights[n] for n in sizes if not sizes[n]):
        raise InvalidArgumentError(
            f"weights={weights}: one must be above 0, none of a source without texts"
        )
    return weights


def texts_of(
    dataset: ParquetDataset,
    *,
    seed: int,
    shuffle: Mixing = "page",
    epochs: int | None = 1,
    memory: int | str = MEMORY,
) -> Iterator[str]:
    """Yield the texts of a dataset in shuffled order; none that is null or empty."""
    arrow = require("pyarrow", extra="pyarrow", purpose="texts of Parquet")
    if not len(dataset):
        return
    column = dataset.column
    loader = Loader(
        dataset,
        sequences=Documents(columns=[column]),
        batch_size=min(64, len(dataset)),
        seed=seed,
        shuffle=shuffle,
        epochs=epochs,
        drop_last=epochs is None,
        memory=memory,
        rank=0,
        world_size=1,
    )
    for batch in loader:
        for text in arrow.array(batch[column]).to_pylist():
            if text:
                yield text.decode() if isinstance(text, bytes) else text


def up_to(texts: Iterable[str], most: float) -> Iterator[tuple[str, int]]:
    """Yield texts and their bytes, until ``most`` bytes are reached.

    Example:
        >>> list(up_to(["ab", "cd", "ef"], 3))
        [('ab', 2), ('cd', 2)]
    """
    size = 0
    for text in texts:
        if size >= most:
            return
        num_bytes = len(text.encode())
        size += num_bytes
        yield text, num_bytes


def drawn(
    datasets: TextDatasets,
    source_column: str | None,
    *,
    sample: int | str,
    held_out: float,
    temperature: float,
    shuffle: Mixing,
    seed: int,
    weights: Mapping[str, float] | None = None,
    memory: int | str = MEMORY,
) -> tuple[TextSample, dict[str, ParquetDataset]]:
    """Return texts to learn from, and held-out rows of each source.

    Raises:
        InvalidArgumentError: If an argument is invalid, or there are no texts.
    """
    num_bytes = check_positive(parse_bytes(sample, name="sample"), "sample")
    check_choice(shuffle, get_args(Mixing), "shuffle")
    check_number(held_out, "held_out", "a share of the rows", above=0, below=1)
    seed = check_whole(seed, "seed")
    parts = {
        name: dataset.split(seed=seed, learned=1 - held_out, held_out=held_out)
        for name, dataset in sources_of(datasets, source_column).items()
    }
    texts = TextSample(
        datasets={name: division["learned"] for name, division in parts.items()},
        num_bytes=num_bytes,
        temperature=temperature,
        seed=seed,
        shuffle=shuffle,
        weights=weights,
        memory=memory,
    )
    return texts, {name: division["held_out"] for name, division in parts.items()}


def sources_of(
    datasets: TextDatasets, source_column: str | None
) -> dict[str, ParquetDataset]:
    """Return datasets by name, divided by the values of ``source_column`` if given.

    Raises:
        InvalidArgumentError: If one is not a dataset of texts, or there are too many.
        ColumnNotFoundError: If there is no such column.
    """
    named = datasets if isinstance(datasets, Mapping) else {"": datasets}
    if not named:
        raise InvalidArgumentError("no datasets were given: name at least one")
    sources: dict[str, ParquetDataset] = {}
    for name, dataset in named.items():
        texts = _checked(name, dataset)
        if source_column is None:
            sources[name or "all"] = texts
            continue
        column = check_column(source_column, "source_column")
        prefix = f"{name}/" if name else ""
        sources |= {
            prefix + value: texts_of_value
            for value, texts_of_value in _by_value(texts, column).items()
        }
    return sources


def _checked(name: str, dataset: object) -> ParquetDataset:
    shown = f"dataset {name!r}" if name else "dataset"
    if not isinstance(dataset, ParquetDataset):
        raise InvalidArgumentError(
            f"{shown}={dataset!r:.60} is not a dataset of texts: give "
            "pagefeed.parquet(paths, column='text')"
        )
    if dataset.tokenizer is not None:
        raise InvalidArgumentError(
            f"{shown} is tokenized already: give its texts, without tokenize(...)"
        )
    if dataset.index.value_bytes:
        raise InvalidArgumentError(
            f"{shown}: column {dataset.column!r} holds numbers: name a column of texts"
        )
    return replace(dataset, metadata=(), aligned=())


def _by_value(dataset: ParquetDataset, column: str) -> dict[str, ParquetDataset]:
    """Divide by the values of a column; rows without one, if any, are the last."""
    values = _values(dataset, column)
    if len(values) > MOST_SOURCES:
        raise InvalidArgumentError(
            f"column {column!r} has {len(values):,} values, such as {values[0]!r}: "
            f"sources can be {MOST_SOURCES:,} at most; name a column of languages or "
            "sources"
        )
    if not values:
        return {f"{column} is null": dataset}
    # The edges are all values, so each tier has one value; one pass finds all tiers.
    _, *tiers = dataset.tiers(column, edges=values).items()
    names = [*map(str, values), *(name for name, _ in tiers[len(values) :])]
    return {
        name: tier for name, (_, tier) in zip(names, tiers, strict=True) if len(tier)
    }


def _values(dataset: ParquetDataset, column: str) -> list[Any]:
    """Return all values that a column has, in rising order."""
    source = dataset.source_of(column)
    if isinstance(source, FolderColumn):
        return sorted({value for value in source.values if value is not None})
    distinct: set[Any] = set()
    pages = range(len(source))
    for values in in_order(lambda page: _of_page(source, column, page), pages):
        distinct |= values
        if len(distinct) > 100 * MOST_SOURCES:  # More are reported above.
            break
    return sorted(distinct)


def _of_page(index: PageIndex, column: str, page: int) -> set[Any]:
    arrow = require("pyarrow", extra="pyarrow", purpose="a column of sources")
    compute = require("pyarrow.compute", extra="pyarrow", purpose="a column of sources")
    values = arrow.array(index.read_page(page))
    for field in column.split(".")[1:]:
        if arrow.types.is_struct(values.type):
            values = compute.struct_field(values, field)
    return {value for value in compute.unique(values).to_pylist() if value is not None}
