"""Functions of the user's that decode columns of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pagefeed.core._base import check_flag, check_positive
from pagefeed.errors import InvalidArgumentError

__all__ = ["Decode"]


@dataclass(frozen=True)
class Decode:
    """Functions that decode columns, and what runs them.

    Args:
        functions: By column, called with the value of a row: str, memoryview, or as the
            batch has it otherwise; nulls stay None. A batch has the list of what they
            return.
        workers: Threads or processes that run them; by default as many as the loader
            has threads.
        processes: Run them in processes, which are spawned: for functions that hold the
            GIL. They are called with bytes in place of memoryviews, and must be
            picklable, as what they return.

    Raises:
        InvalidArgumentError: If these are no functions by column.

    Example:
        >>> Decode({"image": len}, workers=2).workers
        2
    """

    functions: Mapping[str, Callable[[Any], Any]]
    workers: int | None = None
    processes: bool = False

    def __post_init__(self) -> None:
        functions = self.functions
        if not (
            isinstance(functions, Mapping)
            and functions
            and all(isinstance(name, str) for name in functions)
            and all(map(callable, functions.values()))
        ):
            raise InvalidArgumentError(
                f"decode={functions!r:.80} must name a function for each column, such "
                'as {"image": decode_image}'
            )
        object.__setattr__(self, "functions", dict(functions))
        if self.workers is not None:
            check_positive(self.workers, "workers")
        check_flag(self.processes, "processes")

    @classmethod
    def parse(cls, decode: Decode | Mapping[str, Any] | None) -> Decode | None:
        """Return a Decode; functions by column become one.

        Raises:
            InvalidArgumentError: If it is neither.
        """
        if decode is None or isinstance(decode, Decode):
            return decode
        return cls(decode)
