"""open-instruct: the shards of its offline distillation, in the layout of DistillKit.

Each row has ``input_ids`` and, for every token but the first, ``bytepacked_indices``
and ``compressed_logprobs``: bytes of the ids that a teacher found most likely there,
and of their log-probabilities. ``compression_config.yaml`` beside the files says how
they are packed. The layout is that of pull requests 1525 and 1534 of
allenai/open-instruct.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.aligned import Aligned
from pagefeed.core._base import of_bfloat16
from pagefeed.core.batches import Batch
from pagefeed.errors import InvalidArgumentError

__all__ = ["CompressedLogits"]

LOGPROBS, IDS, COUNT = "compressed_logprobs", "bytepacked_indices", "teacher_bytes"
WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Bin:
    """Residuals that share a scale."""

    scale: str
    bits: int
    count: int

    @property
    def num_bytes(self) -> int:
        return WIDTHS[self.scale] + -(-self.bits * self.count // 8)


class CompressedLogits:
    """Reads the packed logits of a teacher in the shards of open-instruct.

    Args:
        config: What ``compression_config.yaml`` holds: ``yaml.safe_load(file)``.
        shifted: Predictions of a token arrive one position before it, where a model
            makes them; with False, at the token itself.

    Raises:
        InvalidArgumentError: If ``config`` is not such a configuration.

    Example:
        >>> logits = CompressedLogits({"d": 1000, "k": 2, "exact_k": 2})
        >>> {name: like.width for name, like in logits.aligned.items()}
        {'bytepacked_indices': 3, 'compressed_logprobs': 8}
    """

    def __init__(self, config: Mapping[str, Any], *, shifted: bool = True) -> None:
        try:
            self.k = int(config["k"])
            """Ids of a token."""
            self._exact = int(config["exact_k"])
            self._bits = max(1, math.ceil(math.log2(int(config["d"]))))
            self._dtype = str(config.get("exact_dtype", "float32"))
            self._term_dtype = str(config.get("term_dtype", "float32"))
            self._bins = [
                _Bin(
                    str(residual["scale_dtype"]),
                    int(residual["element_bits"]),
                    int(residual["num_elements"]),
                )
                for residual in config.get("residual_bins") or ()
            ]
            self._is_delta = bool(config.get("delta_encoding", True))
            self._is_normal = bool(config.get("normalize_t", False))
            terms = config.get("polynomial_terms") or ()
            self._functions = [_function(term) for term in terms]
            self._num_bytes = (
                self._exact * WIDTHS[self._dtype]
                + len(self._functions) * WIDTHS[self._term_dtype]
                + sum(residual.num_bytes for residual in self._bins)
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgumentError(
                f"{config!r:.200} is no compression_config.yaml of open-instruct: "
                f"{type(error).__name__}: {error}"
            ) from None
        others = self.k - self._exact - sum(residual.count for residual in self._bins)
        are_known = all(1 <= residual.bits <= 32 for residual in self._bins)
        if not (0 <= self._exact <= self.k and self.k and others >= 0 and are_known):
            raise InvalidArgumentError(
                f"{config!r:.200} says k={self.k}, which is not what its exact and "
                "approximate numbers come to, of 1 to 32 bits each: give the "
                "compression_config.yaml that lies beside the shards"
            )
        self._shifted = shifted

    @property
    def aligned(self) -> dict[str, Aligned]:
        """Argument for ``pagefeed.parquet(..., aligned=)`` to read the shards."""
        ids = -(-self.k * self._bits // 8)
        shifted = self._shifted
        return {
            IDS: Aligned(width=ids, first=1, shifted=shifted, count=COUNT),
            LOGPROBS: Aligned(width=self._num_bytes, first=1, shifted=shifted),
        }

    def unpack(self, batch: Batch) -> Batch:
        """Replace the bytes of a batch by numbers: the ``transform`` of a loader.

        Returns:
            The batch with ``teacher_ids``, int64 [batch_size, length, k], -1 where the
            teacher says nothing, and ``teacher_logprobs``, float32, -inf there.
        """
        own = [batch.pop(name) for name in (IDS, LOGPROBS, COUNT)]
        ids, logprobs, count = (np.asarray(column) for column in own)
        # Bytes have an axis of their own, also where there is one a token.
        tokens, numbers = self.decode(np.atleast_3d(ids), np.atleast_3d(logprobs))
        nothing = (count == 0)[..., None]
        fields = {
            "teacher_ids": np.where(nothing, -1, tokens),
            "teacher_logprobs": np.where(nothing, np.float32(-np.inf), numbers),
        }
        for name, values in fields.items():
            of = own[0]
            batch[name] = values if isinstance(of, np.ndarray) else _like(of, values)
        return batch

    def decode(self, ids: Array, logprobs: Array) -> tuple[Array, Array]:
        """Return the ids and log-probabilities that bytes hold.

        Args:
            ids: uint8 [..., bytes].
            logprobs: uint8 [..., bytes].

        Returns:
            Ids, int64 [..., k], and log-probabilities, float32 [..., k], the most
            likely first.
        """
        numbers, rest = _floats(logprobs, self._dtype, self._exact)
        count = self.k - self._exact
        approximate = np.zeros((*logprobs.shape[:-1], count), np.float32)
        factors, rest = _floats(rest, self._term_dtype, len(self._functions))
        end = 1 if self._is_normal else count - 1
        points = np.linspace(0, end, count, dtype=np.float32)
        for index, function in enumerate(self._functions):
            approximate += factors[..., index, None] * function(points)
        first = 0
        for residual in self._bins:
            scale, rest = _floats(rest, residual.scale, 1)
            size = residual.num_bytes - WIDTHS[residual.scale]
            whole = _unpacked(rest[..., :size], residual.bits, residual.count)
            rest = rest[..., size:]
            signed = (
                2 * whole - 1
                if residual.bits == 1
                else whole - (1 << residual.bits - 1)
            )
            approximate[..., first : first + residual.count] += signed * scale
            first += residual.count
        values = np.concatenate([numbers, approximate], axis=-1)
        if self._is_delta:
            values = np.cumsum(values, axis=-1, dtype=np.float32)
        return _unpacked(ids, self._bits, self.k), values


def _function(term: object) -> Any:
    """Return the function that a term of a polynomial is."""
    if term in {"sqrt", "exp"}:
        return np.sqrt if term == "sqrt" else np.exp
    power = int(str(term))
    return lambda points: points**power


def _like(tensor: Any, values: Array) -> Any:
    """Return numbers as a tensor of the type and device of another."""
    import torch

    return torch.from_numpy(values).to(tensor.device)


def _floats(packed: Array, dtype: str, count: int) -> tuple[Array, Array]:
    """Return numbers, float32 [..., count], and the bytes after them."""
    size = WIDTHS[dtype] * count
    own = np.ascontiguousarray(packed[..., :size])
    if dtype == "bfloat16":
        return of_bfloat16(own.view(np.uint16)), packed[..., size:]
    return own.view(dtype).astype(np.float32), packed[..., size:]


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Return numbers of ``bits`` bits, the highest first: int64 [..., count]."""
    flags = np.unpackbits(packed, axis=-1, count=bits * count)
    digits = flags.reshape(*packed.shape[:-1], count, bits).astype(np.int64)
    powers: Array = 1 << np.arange(bits - 1, -1, -1, dtype=np.int64)
    return digits @ powers
