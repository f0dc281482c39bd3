"""The datasets of a mixture as its schedule knows them: how many tokens each has."""

from __future__ import annotations

from collections.abc import Sequence

from pagefeed.dataset import Dataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import Component, Mixture
from pagefeed.sequences import DocumentIndex, SequenceIndex

__all__ = ["make_parts"]

FINGERPRINT_DIGITS = 12
"""Of each dataset, in a state."""


def make_parts(
    mixture: Mixture,
    names: Sequence[str],
    datasets: Sequence[Dataset],
    sequences_of: Sequence[SequenceIndex],
) -> list[Component]:
    """Return the datasets with their sequences and the tokens these deliver.

    Args:
        mixture: What is asked for.
        names: Names of the datasets.
        datasets: The datasets.
        sequences_of: The datasets, cut.

    Raises:
        InvalidArgumentError: If something counts tokens and a dataset has none.
    """
    tokens = _num_tokens(mixture, names, sequences_of)
    usual = 1 if mixture.stop == "first_exhausted" else None
    return [
        Component(
            name=name,
            fingerprint=dataset.fingerprint[:FINGERPRINT_DIGITS],
            num_sequences=sequences.num_sequences,
            num_tokens=num_tokens,
            max_epochs=mixture.max_epochs.get(name, usual),
        )
        for name, dataset, sequences, num_tokens in zip(
            names, datasets, sequences_of, tokens, strict=True
        )
    ]


def _num_tokens(
    mixture: Mixture, names: Sequence[str], sequences_of: Sequence[SequenceIndex]
) -> list[int]:
    """Tokens of each dataset; 0 where they are not counted, and nobody needs them."""
    documents = [
        sequences for sequences in sequences_of if isinstance(sequences, DocumentIndex)
    ]
    ends = [
        f"{name}={value}"
        for name, value in (
            ("max_tokens", mixture.max_tokens),
            *(("start_tokens", stage.start_tokens) for stage in mixture.stages),
        )
        if value is not None
    ]
    if (
        documents
        and not any(sequences.has_tokens for sequences in documents)
        and not ends
    ):
        return [0] * len(sequences_of)  # Text and the like: rows are what counts.
    if not ends and mixture.unit == "sequences":
        # What the index knows; lengths are not read for it.
        is_read = [
            isinstance(u, DocumentIndex) and u.reads_lengths for u in sequences_of
        ]
        return [
            0 if skipped else sequences.num_delivered_tokens
            for sequences, skipped in zip(sequences_of, is_read, strict=True)
        ]
    for name, sequences in zip(names, sequences_of, strict=True):
        is_bare = isinstance(sequences, DocumentIndex) and not sequences.has_tokens
        if is_bare or sequences.num_delivered_tokens == 0:
            what = "a column without tokens" if is_bare else "no token in any row"
            instead = (
                "use max_steps" if ends else "give pagefeed.mix sequence='samples'"
            )
            raise InvalidArgumentError(
                f"dataset {name!r} has {what}, and "
                f"{' and '.join(ends) or 'the weights of the mixture'} count tokens: "
                f"{instead}"
            )
    return [sequences.num_delivered_tokens for sequences in sequences_of]
