"""Rows of embeddings for tokens that a model has not seen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import check_columns, check_positive
from pagefeed.core.storage import PathLike, local_path
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare.vocabulary.appending import merges_of
from pagefeed.prepare.vocabulary.checkpoints import (
    TensorFacts,
    check_output,
    open_checkpoint,
)
from pagefeed.prepare.vocabulary.recipes import library
from pagefeed.remote import checked_output
from pagefeed.tokenizer import Tokenizer

__all__ = ["ExtendedEmbeddings", "extend_embeddings", "pieces_of"]

Rows = npt.NDArray[np.floating[Any]]

NAMES = (
    *("embed_tokens.weight", "wte.weight", "tok_embeddings.weight", "embed_in.weight"),
    *("word_embeddings.weight", "token_embedding.weight", "lm_head.weight"),
    *("embed_out.weight", "output.weight", "lm_head.bias", "shared.weight"),
    *("output_layer.weight", "word_embeddings_for_head.weight"),
)
"""Ends of the names of embeddings and of heads, as models have them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendedEmbeddings:
    """Result of extending the embeddings of a checkpoint."""

    path: str
    """The new checkpoint."""
    tensors: tuple[str, ...]
    """Names of the tensors with new rows: embeddings and head, once if they are tied.
    """
    num_new: int
    """New rows, which are means of old ones."""
    num_rows: int
    """Rows of each tensor after the change."""


def extend_embeddings(
    checkpoint: PathLike,
    output: PathLike,
    *,
    old: Tokenizer,
    new: Tokenizer,
    tensors: Iterable[str] | None = None,
    multiple_of: int = 1,
) -> ExtendedEmbeddings:
    """Give a checkpoint rows for the tokens that a tokenizer was extended by.

    The row of a new token is the mean of the rows of the old tokens that it replaces,
    in the input embedding and in the head. All other tensors are copied as they are;
    states of optimizers are not looked at.

    Args:
        checkpoint: A file of safetensors, or of torch; for a model in several files of
            safetensors its ``model.safetensors.index.json``.
        output: Path of the new checkpoint, of the same kind. It appears when it is
            complete. For an index, a path in another folder, which gets all files.
        old: The tokenizer of the checkpoint.
        new: The tokenizer that :func:`extend_tokenizer` made of it.
        tensors: Names of the tensors to extend. By default those with the usual names
            of embeddings and heads.
        multiple_of: Rows are padded to a multiple of this, with zeros.

    Returns:
        What was changed.

    Raises:
        InvalidArgumentError: If the tokenizers do not belong together, a tensor does
            not exist or has fewer rows than there are tokens, or no tensor has a usual
            name.
        UnsupportedError: If a tensor is not of floats of 16, 32 or 64 bits.
        CorruptFileError: If the file is not what its name says.
        MissingDependencyError: If a torch checkpoint is given without torch.

    Example:
        >>> extend_embeddings(  # doctest: +SKIP
        ...     "model.safetensors", "law.safetensors", old=tok, new=extended
        ... )
    """
    given = local_path(checkpoint, "checkpoint")
    path = checked_output(output, None, "output", buckets=False)
    check_output(given, path)
    pieces = pieces_of(old, new)
    rounding = check_positive(multiple_of, "multiple_of")
    opened = open_checkpoint(given)
    names = _names(opened.tensors, tensors, old.vocab_size, given)
    most = max(opened.tensors[name].shape[0] for name in names)
    num_rows = -(-max(most, new.vocab_size) // rounding) * rounding

    def extended(values: Rows) -> Rows:
        return with_means(values, pieces, num_rows)

    opened.write(path, names, extended)
    return ExtendedEmbeddings(
        path=path, tensors=tuple(names), num_new=len(pieces), num_rows=num_rows
    )


def with_means(values: Rows, pieces: dict[int, Sequence[int]], num_rows: int) -> Rows:
    """Return rows with new ones added, each the mean of some old rows.

    Args:
        values: float [rows, ...].
        pieces: For each new row, by its number, the old rows whose mean it is.
        num_rows: Number of rows to return; rows without a token are zero.
    """
    wide = np.promote_types(values.dtype, np.float32)
    rows = np.zeros((num_rows, *values.shape[1:]), dtype=values.dtype)
    rows[: len(values)] = values
    for row, parts in pieces.items():
        rows[row] = values[list(parts)].astype(wide).mean(axis=0)
    return rows


def pieces_of(old: Tokenizer, new: Tokenizer) -> dict[int, Sequence[int]]:
    """Return the old tokens that each new token replaces, by its id.

    Raises:
        InvalidArgumentError: If an old token has another id in the new tokenizer, or no
            token is new.
    """
    before, after = (
        json.loads(tokenizer.to_json())["model"] for tokenizer in (old, new)
    )
    old_ids, all_ids = _ids(before), _ids(after)
    moved = [
        token for token, token_id in old_ids.items() if all_ids.get(token) != token_id
    ]
    added = {t: n for t, n in all_ids.items() if n >= old.vocab_size}
    if moved or not added or before["type"] != after["type"]:
        difference = f"{moved[0]!r} has another id" if moved else "it has no new token"
        raise InvalidArgumentError(
            f"{new.name} is not {old.name} with more tokens: {difference}; give what "
            "extend_tokenizer made of it"
        )
    if before["type"] != "BPE":
        model = library().Tokenizer.from_str(old.to_json()).model
        return {
            token_id: [piece.id for piece in model.tokenize(token)]
            for token, token_id in added.items()
        }
    prefix = after.get("continuing_subword_prefix") or ""
    parts: dict[str, list[int]] = {token: [n] for token, n in old_ids.items()}
    for left, right in merges_of(after)[len(before["merges"]) :]:
        parts[left + right.removeprefix(prefix)] = parts[left] + parts[right]
    return {token_id: parts[token] for token, token_id in added.items()}


def _ids(model: dict[str, Any]) -> dict[str, int]:
    vocab = model["vocab"]
    if isinstance(vocab, dict):
        return vocab
    return {piece: token_id for token_id, (piece, _) in enumerate(vocab)}


def _names(
    facts: dict[str, TensorFacts],
    tensors: Iterable[str] | None,
    vocab_size: int,
    path: str,
) -> list[str]:
    if tensors is None:
        names = [name for name in facts if name.endswith(NAMES)]
        # Other layers may end alike; what has a row for each token is meant.
        names = [name for name in names if facts[name].shape[0] >= vocab_size]
        if not names:
            raise InvalidArgumentError(
                f"{path}: no tensor with {vocab_size:,} rows or more is called as an "
                f"embedding or head: name them, tensors=[...]; it has {[*facts][:8]}"
            )
        return names
    names = list(check_columns(tensors, "tensors"))
    for name in names:
        if name not in facts:
            raise InvalidArgumentError(
                f"{path} has no tensor {name!r}; it has {[*facts][:8]}"
            )
        if not facts[name].shape or facts[name].shape[0] < vocab_size:
            raise InvalidArgumentError(
                f"{path}: {name!r} has the shape {list(facts[name].shape)}, and the "
                f"tokenizer {vocab_size:,} tokens: name tensors with a row for each "
                "token"
            )
    return names
