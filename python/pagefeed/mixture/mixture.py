"""Mixtures of datasets, as users ask for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

from pagefeed.core._base import (
    MOST,
    check_choice,
    check_number,
    check_positive,
    check_whole,
)
from pagefeed.core.dataset import Dataset, Source, SourceKind, check_dataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture.filling import checked_fill


def check_tokenizers(datasets: Mapping[str, Any], *, recorded: bool = False) -> None:
    """Raise an error if datasets were tokenized with different tokenizers.

    Args:
        datasets: The datasets by name.
        recorded: Also compare the tokenizers that files record; reads some footers.

    Raises:
        InvalidArgumentError: If so; the message names two datasets and their
            tokenizers.
    """
    first: tuple[str, Any] | None = None
    for name, dataset in datasets.items():
        tokenizer = dataset.tokenizer
        if tokenizer is None and recorded:
            tokenizer = dataset.recorded_tokenizer
        if tokenizer is None:
            continue
        if first is None:
            first = name, tokenizer
        elif tokenizer.fingerprint != first[1].fingerprint:
            raise InvalidArgumentError(
                f"{first[0]!r} is tokenized with {first[1].name} "
                f"({first[1].fingerprint}), {name!r} with {tokenizer.name} "
                f"({tokenizer.fingerprint}): a mixture takes one tokenizer"
            )


Stop: TypeAlias = Literal["first_exhausted", "all_exhausted"]
STOPS = ("first_exhausted", "all_exhausted")
UNITS = ("tokens", "sequences")
LARGEST_WEIGHT = 1e100
"""Greatest weight. Weights are relative, and their sums and products stay finite."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """New weights of a mixture from a token count or step on.

    Args:
        weights: Weight of each dataset; those that are not named are left out.
        start_tokens: Tokens of all ranks together after which it begins.
        start_step: Alternatively, the step at which it begins.
        anneal: Length of a linear change to the weights, in tokens or steps like the
            start.

    Raises:
        InvalidArgumentError: If there is not exactly one start, or the weights cannot
            be right.

    Example:
        >>> Stage(start_step=1000, weights={"code": 1}).start_step
        1000
    """

    weights: Mapping[str, float]
    start_tokens: int | None = None
    start_step: int | None = None
    anneal: int = 0

    def __post_init__(self) -> None:
        if (self.start_tokens is None) == (self.start_step is None):
            raise InvalidArgumentError(
                f"start_tokens={self.start_tokens!r} and start_step="
                f"{self.start_step!r}: a stage has exactly one of them"
            )
        for name in ("start_tokens", "start_step", "anneal"):
            value = getattr(self, name)
            if value is not None or name == "anneal":
                whole = check_whole(value, name, least=0, most=MOST)
                object.__setattr__(self, name, whole)
        weights = check_weights(self.weights, self.weights)
        object.__setattr__(self, "weights", weights)

    @property
    def start(self) -> int:
        """Tokens or steps before it."""
        return self.start_tokens or self.start_step or 0


@dataclass(frozen=True, kw_only=True)
class Mixture(Source):
    """Datasets and how they are mixed; made by :func:`mix`."""

    datasets: Mapping[str, Dataset]
    """The datasets by name."""
    weights: Mapping[str, float] | None
    """Their weights at the start; None: by temperature."""
    temperature: float = 1.0
    """Without weights: size to the power of 1/temperature."""
    unit: Literal["tokens", "sequences"] = "tokens"
    """Unit of weights and sizes."""
    stages: tuple[Stage, ...] = ()
    """Later weights."""
    max_epochs: Mapping[str, int]
    """Greatest number of epochs of a dataset, for datasets with a limit."""
    stop: Stop | None = None
    """When it ends, see :func:`mix`."""
    max_steps: int | None = None
    """Steps at most."""
    max_tokens: int | None = None
    """Tokens of all ranks at most."""
    fill: tuple[str, ...] = ()
    """Aligned columns that a dataset may lack: its tokens then have padding."""

    def infill(self, infill: object) -> NoReturn:
        """Raise an error: datasets are infilled one by one.

        Raises:
            InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(
            f"infill({infill!r:.60}) is of one dataset: infill those of this mixture "
            f"that should be, of {sorted(self.datasets)}, and mix them then"
        )

    def erase(self, **documents: object) -> NoReturn:  # noqa: ARG002
        """Raise an error: documents are erased from the datasets, one by one.

        Raises:
            InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(
            "erase() is of one dataset: erase documents of those of this mixture, of "
            f"{sorted(self.datasets)}, and mix them then"
        )

    @property
    def kind(self) -> SourceKind:
        """Kind of the source, a column of the table of options."""
        return "mixture"

    @property
    def parts(self) -> Mapping[str, Dataset]:
        """The datasets by name."""
        return self.datasets

    def make_run(self, settings: Mapping[str, Any]) -> Any:
        """Return the run of a loader with these settings."""
        from pagefeed.mixture.mixture_run import MixtureRun

        return MixtureRun(mixture=self, **settings)

    @property
    def has_end(self) -> bool:  # type: ignore[override]
        """Whether an end was asked for."""
        ends = self.stop, self.max_steps, self.max_tokens
        return ends != (None,) * 3 or len(self.max_epochs) == len(self.datasets)

    def needs(self, name: str) -> bool:
        """Whether a dataset is given a weight, now or by a stage."""
        given = [stage.weights for stage in self.stages]
        return any(weights.get(name) for weights in (self.weights or {}, *given))

    @property
    def digest(self) -> str:
        """Digest of the schedule without the data: 16 hexadecimal digits."""
        settings: list[Any] = [
            sorted(self.datasets),
            self.weights and sorted((k, float(v)) for k, v in self.weights.items()),
            float(self.temperature),
            self.unit,
        ]
        settings += [
            (
                stage.start_tokens,
                stage.start_step,
                stage.anneal,
                sorted((k, float(v)) for k, v in stage.weights.items()),
            )
            for stage in self.stages
        ]
        return hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest()

    def __repr__(self) -> str:
        """Return names and weights."""
        shown = ", ".join(
            name if self.weights is None else f"{name}: {self.weights[name]:g}"
            for name in self.datasets
        )
        stages = f", {len(self.stages)} stages" if self.stages else ""
        return f"Mixture({shown}{stages})"


def mix(
    datasets: Mapping[str, Dataset | tuple[Dataset, float]],
    *,
    temperature: float | None = None,
    unit: Literal["tokens", "sequences"] = "tokens",
    stages: Sequence[Stage] = (),
    max_epochs: Mapping[str, int] | None = None,
    stop: Stop | None = None,
    max_steps: int | None = None,
    max_tokens: int | None = None,
    rehearse: float | None = None,
    fill: Iterable[str] = (),
) -> Mixture:
    """Mix datasets, for a :class:`pagefeed.Loader`.

    Args:
        datasets: ``{name: (dataset, weight)}``, or ``{name: dataset}`` for weights by
            size and temperature. The order of a dataset depends on its name and the
            seed alone. A weight of 0 keeps a dataset for a later stage. A dataset
            without a sequence, such as an empty tier, must have the weight 0; it has
            that weight by size, too.
        temperature: T of the weights ``size ** (1 / T)``: 1, the default, is
            proportional to size; a large T is nearly uniform.
        unit: ``"tokens"`` if weights and sizes count delivered tokens, ``"sequences"``
            if they count sequences. To count tokens of ``Documents`` with a
            ``max_length``, the lengths of all rows are read once.
        stages: Later weights, in order of their start.
        max_epochs: Most epochs of a dataset, by name. After them the dataset is left
            out, and the weights of the others grow in proportion.
        stop: ``"first_exhausted"`` ends when the first dataset was delivered in full
            (``max_epochs`` times if it has a limit, else once), ``"all_exhausted"``
            when all were. None never ends, unless every dataset has a limit. For a
            mixture that never ends, give the loader ``epochs=None``, or give
            ``max_steps`` or ``max_tokens`` here.
        max_steps: Most steps, including steps before a resume. A run that loads the
            state at the end continues with the next epoch of the mixture.
        max_tokens: Most tokens of all ranks, estimated by the mean tokens of a
            sequence.
        rehearse: Take this share of every dataset, such as 1/16, by
            :meth:`pagefeed.dataset.ParquetDataset.take`. A run of a sixteenth of the
            tokens then repeats each dataset as often as the long run would (simulated
            epochs, arXiv 2606.07597), to within one document: subsets hold whole
            documents, less than one too many. The caller scales ``max_steps``,
            ``max_tokens`` and the starts of the stages.
        fill: Aligned columns that some datasets lack. Tokens of these datasets get the
            column's padding, and a ``count`` of 0. All other aligned columns must be in
            every dataset.

    Raises:
        InvalidArgumentError: If a weight is negative, not finite, or all are 0; if
            weights and temperature are both given; if a name is unknown; if a column to
            fill has no padding.

    Example:
        >>> mix({"web": (web, 0.7), "code": (code, 0.3)})  # doctest: +SKIP
        Mixture(web: 0.7, code: 0.3)
    """
    if not isinstance(datasets, Mapping) or not datasets:
        raise InvalidArgumentError(
            "a mixture needs datasets: {'web': (web, 0.7), 'code': (code, 0.3)}, found "
            f"{datasets!r:.60}"
        )
    weighted = {n: pair for n, pair in datasets.items() if isinstance(pair, tuple)}
    for name, pair in weighted.items():
        if len(pair) != 2:
            raise InvalidArgumentError(
                f"{name!r} is {pair!r:.60}: expected (dataset, weight)"
            )
    if weighted and len(weighted) < len(datasets):
        bare = [name for name in datasets if name not in weighted]
        raise InvalidArgumentError(
            f"{', '.join(bare)}: no weight, while others have one; give all datasets "
            "one, as (dataset, weight), or none of them"
        )
    if weighted and temperature is not None:
        raise InvalidArgumentError(
            f"temperature={temperature} makes weights of sizes: give datasets without "
            "weights"
        )
    plain = {n: p[0] if isinstance(p, tuple) else p for n, p in datasets.items()}
    _check_datasets(plain)
    if rehearse is not None:
        plain = {name: _taken(dataset, rehearse) for name, dataset in plain.items()}
    weights: dict[str, float] | None = None
    if weighted:
        given = {name: pair[1] for name, pair in weighted.items()}
        weights = check_weights(given, plain)
    for stage in _checked_stages(stages):
        check_names(stage.weights, plain)
    if stop is not None:
        check_choice(stop, STOPS, "stop")
    return Mixture(
        datasets=plain,
        weights=weights,
        temperature=_checked_temperature(temperature),
        unit=unit if check_choice(unit, UNITS, "unit") == "tokens" else "sequences",
        stages=tuple(stages),
        max_epochs=_checked_epochs({} if max_epochs is None else max_epochs, plain),
        stop=stop,
        max_steps=None if max_steps is None else check_positive(max_steps, "max_steps"),
        max_tokens=(
            None if max_tokens is None else check_positive(max_tokens, "max_tokens")
        ),
        fill=checked_fill(fill, plain),
    )


def check_weights(
    weights: Mapping[str, float], names: Mapping[str, Any]
) -> dict[str, float]:
    """Return weights, checked.

    Raises:
        InvalidArgumentError: If one is negative or not finite, none is above 0, or a
            name is not one of ``names``.
    """
    if not isinstance(weights, Mapping):
        raise InvalidArgumentError(
            f"weights={weights!r:.60} must be a dict of names and numbers, such as "
            "{'web': 0.7, 'code': 0.3}"
        )
    check_names(weights, names)
    for name, weight in weights.items():
        check_number(
            weight, f"the weight of {name!r}", "a number", least=0, most=LARGEST_WEIGHT
        )
    if not any(weights.values()):
        raise InvalidArgumentError(
            f"no weight is above 0: {dict(weights)!r}; at least one dataset takes part"
        )
    return {
        name: weight if isinstance(weight, int | float) else float(weight)
        for name, weight in weights.items()
    }


def check_names(names: Iterable[str], datasets: Mapping[str, Any]) -> None:
    """Raise an error for names of datasets that do not exist.

    Raises:
        InvalidArgumentError: If a name is unknown; the message lists the names of the
            mixture.
    """
    unknown = [name for name in names if name not in datasets]
    if unknown:
        raise InvalidArgumentError(
            f"{', '.join(map(repr, unknown))}: no such dataset in the mixture; it has "
            f"{', '.join(map(repr, datasets))}"
        )


def _checked_stages(stages: object) -> Sequence[Stage]:
    if isinstance(stages, Sequence) and all(isinstance(s, Stage) for s in stages):
        return stages
    raise InvalidArgumentError(
        f"stages={stages!r:.60} must be a list, such as [Stage(start_step=1000, "
        "weights={'code': 1})]"
    )


def _check_datasets(datasets: Mapping[str, Any]) -> None:
    for name, dataset in datasets.items():
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(
                f"the name of a dataset is a str, found {name!r}"
            )
        if not isinstance(dataset, Source):
            raise InvalidArgumentError(
                f"{name!r} is {dataset!r:.60}: expected a dataset, such as "
                "pagefeed.parquet(...), or (dataset, weight)"
            )
        check_dataset(dataset, name)
    check_tokenizers(datasets)


def _checked_temperature(temperature: float | None) -> float:
    if temperature is None:
        return 1.0
    what = "a number, 1 for shares by size and a large one for equal ones,"
    return check_number(temperature, "temperature", what, above=0)


def _taken(dataset: Any, share: float) -> Any:
    if len(dataset) == 0:  # An empty tier stays empty.
        return dataset
    return dataset.take(share=share)


def _checked_epochs(
    max_epochs: Mapping[str, int], datasets: Mapping[str, Any]
) -> dict[str, int]:
    if not isinstance(max_epochs, Mapping):
        raise InvalidArgumentError(
            f"max_epochs={max_epochs!r} must be a dict, such as {{'code': 2}}"
        )
    check_names(max_epochs, datasets)
    return {
        name: check_positive(epochs, f"max_epochs[{name!r}]")
        for name, epochs in max_epochs.items()
    }
