"""Hashes, permutations and packing of many numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

def mix(values: npt.NDArray[np.uint64], first: int, second: int) -> None: ...
def deal(
    sequences: npt.NDArray[np.int64],
    costs: npt.NDArray[np.float64],
    stays: npt.NDArray[np.uint8] | None,
    *,
    first: Sequence[int],
    keys: Sequence[tuple[int, int]],
    num_ranks: int,
    exact: bool,
    bucket: int,
    equal: float,
) -> tuple[bytes, bytes]: ...
def permute(
    values: npt.NDArray[np.uint64],
    *,
    size: int,
    sizes: npt.NDArray[np.uint64] | None,
    tweaks: npt.NDArray[np.uint64] | None,
    rounds: Sequence[int],
    inverse: bool,
) -> None: ...
def pack(
    lengths: npt.NDArray[np.int64],
    length: int,
    packing: Mapping[str, Any],
) -> bytes: ...
