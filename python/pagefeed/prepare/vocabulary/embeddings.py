"""Rows of embeddings for tokens that a model has not seen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import check_columns, check_positive
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.prepare.vocabulary.appending import merges_of
from pagefeed.prepare.vocabulary.recipes import library
from pagefeed.tokenizer import Tokenizer

Rows = npt.NDArray[np.floating[Any]]

NAMES = (
    *("embed_tokens.weight", "wte.weight", "tok_embeddings.weight", "embed_in.weight"),
    *("word_embeddings.weight", "token_embedding.weight", "lm_head.weight"),
    *("embed_out.weight", "output.weight", "lm_head.bias", "shared.weight"),
    *("output_layer.weight", "word_embeddings_for_head.weight"),
)
"""Ends of the names of embeddings and of heads, as models have them."""


def extend_embeddings(
    state: Mapping[str, Any],
    *,
    old: Tokenizer,
    new: Tokenizer,
    tensors: Iterable[str] | None = None,
    multiple_of: int = 1,
) -> dict[str, Any]:
    """Give a model's tensors rows for the tokens that a tokenizer was extended by.

    The row of a new token is the mean of the rows of the old tokens that it replaces,
    in the input embedding and in the head. Tied tensors stay tied, and all others are
    returned as they are.

    Args:
        state: Tensors of torch or NumPy by name: ``model.state_dict()``, or what
            ``safetensors.torch.load_file`` returns.
        old: The tokenizer of the model.
        new: The tokenizer that :func:`extend_tokenizer` made of it.
        tensors: Names of the tensors to extend. By default those with the usual names
            of embeddings and heads.
        multiple_of: Rows are padded to a multiple of this, with zeros.

    Returns:
        The tensors by name, in the same order.

    Raises:
        InvalidArgumentError: If the tokenizers do not belong together, a tensor does
            not exist or has fewer rows than there are tokens, or no tensor has a usual
            name.
        UnsupportedError: If a tensor is not of floats of 16, 32 or 64 bits.

    Example:
        >>> weights = {"embed_tokens.weight": np.zeros((tok.vocab_size, 4), np.float32)}
        >>> more = extend_embeddings(weights, old=tok, new=extended)
        >>> more["embed_tokens.weight"].shape == (extended.vocab_size, 4)
        True
    """
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(
            f"state={state!r:.60} must be a dict of tensors by name: open a file with "
            "safetensors.torch.load_file, a model with transformers"
        )
    pieces = pieces_of(old, new)
    rounding = check_positive(multiple_of, "multiple_of")
    names = _names(state, tensors, old.vocab_size)
    most = max(int(state[name].shape[0]) for name in names)
    num_rows = -(-max(most, new.vocab_size) // rounding) * rounding
    # Tied tensors are at one address.
    extended: dict[tuple[int, ...], Any] = {}
    changed = {}
    for name in names:
        values = state[name]
        is_array = isinstance(values, np.ndarray)
        address = values.ctypes.data if is_array else values.data_ptr()
        key = (address, *values.shape)
        if key not in extended:
            extended[key] = _extended(name, values, pieces, num_rows)
        changed[name] = extended[key]
    return dict(state) | changed


def _extended(
    name: str, values: Any, pieces: dict[int, Sequence[int]], num_rows: int
) -> Any:
    """Return a tensor with new rows, of the same library and type."""
    if not _is_float(values):
        raise UnsupportedError(
            f"{name!r} is {values.dtype}: rows can be the mean of others in floats of "
            "16, 32 and 64 bits"
        )
    if isinstance(values, np.ndarray):
        return with_means(values, pieces, num_rows)
    import torch

    wide = values.float() if values.dtype == torch.bfloat16 else values
    rows = with_means(wide.detach().cpu().numpy(), pieces, num_rows)
    return torch.from_numpy(rows).to(values.dtype)


def _is_float(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind == "f"
    return bool(values.is_floating_point()) and values.itemsize >= 2


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
    state: Mapping[str, Any], tensors: Iterable[str] | None, vocab_size: int
) -> list[str]:
    if tensors is None:
        # Names of other layers may end alike; only embeddings have a row for a token.
        names = [
            name
            for name, values in state.items()
            if name.endswith(NAMES) and values.shape[:1] >= (vocab_size,)
        ]
        if not names:
            raise InvalidArgumentError(
                f"no tensor with {vocab_size:,} rows or more is named like an "
                f"embedding or head: name them, tensors=[...]; there are {[*state][:8]}"
            )
        return names
    names = list(check_columns(tensors, "tensors"))
    for name in names:
        if name not in state:
            raise InvalidArgumentError(
                f"there is no tensor {name!r}; there are {[*state][:8]}"
            )
        shape = tuple(state[name].shape)
        if shape[:1] < (vocab_size,):
            raise InvalidArgumentError(
                f"{name!r} has the shape {list(shape)}, and the tokenizer "
                f"{vocab_size:,} tokens: name tensors with a row for each token"
            )
    return names
