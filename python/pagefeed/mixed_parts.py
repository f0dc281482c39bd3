"""The datasets of a mixture as its schedule knows them: how many tokens each has."""

from __future__ import annotations

from collections.abc import Sequence

from pagefeed.dataset import ParquetDataset
from pagefeed.documents import DocumentUnits
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import Mixture, Part
from pagefeed.sequences import Units

__all__ = ["make_parts"]

FINGERPRINT_DIGITS = 12
"""Of each dataset, in a state."""


def make_parts(
    mixture: Mixture,
    names: Sequence[str],
    datasets: Sequence[ParquetDataset],
    units_of: Sequence[Units],
) -> list[Part]:
    """Return the datasets with their sequences and the tokens these deliver.

    Args:
        mixture: What is asked for.
        names: Names of the datasets.
        datasets: The datasets.
        units_of: The datasets, cut.

    Raises:
        InvalidArgumentError: If something counts tokens and a dataset has none.
    """
    tokens = _num_tokens(mixture, names, units_of)
    usual = 1 if mixture.stop == "first_exhausted" else None
    return [
        Part(
            name=name,
            fingerprint=dataset.fingerprint[:FINGERPRINT_DIGITS],
            num_units=units.num_units,
            num_tokens=num_tokens,
            max_epochs=mixture.max_epochs.get(name, usual),
        )
        for name, dataset, units, num_tokens in zip(
            names, datasets, units_of, tokens, strict=True
        )
    ]


def _num_tokens(
    mixture: Mixture, names: Sequence[str], units_of: Sequence[Units]
) -> list[int]:
    """Tokens of each dataset; 0 where they are not counted, and nobody needs them."""
    documents = [units for units in units_of if isinstance(units, DocumentUnits)]
    ends = [
        f"{name}={value}"
        for name, value in (
            ("max_tokens", mixture.max_tokens),
            *(("start_tokens", stage.start_tokens) for stage in mixture.stages),
        )
        if value is not None
    ]
    if documents and not any(units.has_tokens for units in documents) and not ends:
        return [0] * len(units_of)  # Text and the like: rows are what counts.
    if not ends and mixture.unit == "samples":
        # What the index knows; lengths are not read for it.
        is_read = [isinstance(u, DocumentUnits) and u.reads_lengths for u in units_of]
        return [
            0 if skipped else units.num_delivered_tokens
            for units, skipped in zip(units_of, is_read, strict=True)
        ]
    for name, units in zip(names, units_of, strict=True):
        is_bare = isinstance(units, DocumentUnits) and not units.has_tokens
        if is_bare or units.num_delivered_tokens == 0:
            what = "a column without tokens" if is_bare else "no token in any row"
            instead = "use max_steps" if ends else "give pagefeed.mix unit='samples'"
            raise InvalidArgumentError(
                f"dataset {name!r} has {what}, and "
                f"{' and '.join(ends) or 'the weights of the mixture'} count tokens: "
                f"{instead}"
            )
    return [units.num_delivered_tokens for units in units_of]
