"""Formats of batches: NumPy arrays or torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    check_choice,
    check_flag,
    check_whole,
    require,
    warn_user,
)
from pagefeed.core.order import Draw, Drawing
from pagefeed.core.sequences import Cut
from pagefeed.errors import InvalidArgumentError, PagefeedWarning

Format: TypeAlias = Literal["numpy", "torch"]
"""The type of the arrays in a batch."""


class TorchDType(Protocol):
    """A type of torch, which may be absent."""

    @property
    def is_floating_point(self) -> bool:
        """Whether the array holds floating-point numbers."""


_TokenName = Literal["int64", "int32", "uint16"]
DTYPES: tuple[str, ...] = get_args(_TokenName)
DType: TypeAlias = _TokenName | type[np.generic] | np.dtype[Any] | TorchDType
"""Type of tokens: a name, or that type of NumPy or torch."""

Batch = dict[str, Any]
"""Arrays or tensors by name; ``input_ids`` is [batch_size, length]."""

Converter = Callable[[npt.NDArray[Any]], Any]
"""Converts an array to the format of the loader; copies only if memory is pinned."""


def parse_dtype(
    dtype: object, of: Sequence[str] = DTYPES, argument: str = "dtype"
) -> str:
    """Return the name of a type, which is given by name or as a NumPy or torch type.

    Args:
        dtype: The type.
        of: Names of the accepted types. By default the types of tokens.
        argument: Name of the argument, for errors.

    Raises:
        InvalidArgumentError: If the type is not accepted.
    """
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    if isinstance(dtype, np.dtype | type):
        name = getattr(dtype, "name", getattr(dtype, "__name__", name))
        name = name.removesuffix("_")  # bool_, of NumPy before 2
    if name not in of:
        raise InvalidArgumentError(
            f"{argument}={dtype!r} is unknown: choose one of {', '.join(of)}"
        )
    return name


def check_padding(padding: object, dtype: str, sequences: Cut) -> int:
    """Return the padding token, after checking that it and the separators fit the type.

    Raises:
        InvalidArgumentError: If padding is not a token, or it or a separator does not
            fit.
    """
    bounds = np.iinfo(dtype)
    for name in ("eos", "bos"):
        token = getattr(sequences, name, None)
        if token is not None and token > bounds.max:
            raise InvalidArgumentError(
                f"{name}={token} of {sequences!r} does not fit dtype={dtype!r}, whose "
                f"largest token is {bounds.max}: give a wider dtype"
            )
    return check_whole(padding, "padding", least=int(bounds.min), most=int(bounds.max))


def make_converter(format_name: str, *, pin_memory: bool) -> Converter:
    """Return a function that makes arrays ``"numpy"`` arrays or ``"torch"`` tensors.

    With ``pin_memory`` tensors are copied to page-locked memory. Without CUDA this only
    warns, as in torch's own ``DataLoader``.

    Raises:
        InvalidArgumentError: If the format is unknown, or NumPy arrays are to be
            pinned.
        MissingDependencyError: If torch is needed and not installed.
    """
    pin_memory = check_flag(pin_memory, "pin_memory")
    if check_choice(format_name, get_args(Format), "format") == "numpy":
        if pin_memory:
            raise InvalidArgumentError(
                "pin_memory=True needs format='torch': NumPy arrays cannot be pinned"
            )
        return as_numpy
    torch = require("torch", extra="torch", purpose="format='torch'")
    convert = cast("Converter", torch.from_numpy)
    if not pin_memory:
        return convert
    if not torch.cuda.is_available():
        warn_user(
            "pin_memory=True does nothing here: torch finds no CUDA device",
            PagefeedWarning,
        )
        return convert
    return lambda array: convert(array).pin_memory()


def as_numpy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array unchanged."""
    return array


def converted(batch: Batch, convert: Converter) -> Batch:
    """Convert the arrays of a batch in place; leave other values unchanged."""
    for name, value in batch.items():
        if isinstance(value, np.ndarray):
            batch[name] = convert(value)
    return batch


def transformed(transform: Drawing, batch: Batch, draw: Draw) -> Any:
    """Return the batch after the user's ``transform``.

    Raises:
        InvalidArgumentError: If ``transform`` returned None.
        RuntimeError: If ``transform`` raised StopIteration, which would end the loop
            silently.
    """
    try:
        changed = transform(batch, draw)
    except StopIteration as error:
        raise RuntimeError("transform raised StopIteration") from error
    if changed is None:
        raise InvalidArgumentError(
            "transform returned None: it must return the batch, even if it changed "
            "it in place"
        )
    return changed
