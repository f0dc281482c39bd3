"""Columns that batches have beside tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pagefeed import _core
from pagefeed.core.batches.fields import Fields
from pagefeed.core.batches.formats import Batch
from pagefeed.core.dataset import Dataset
from pagefeed.core.sequences import SequenceLayout
from pagefeed.core.wiring import provided
from pagefeed.errors import InvalidArgumentError

__all__ = ["ColumnsBeside", "columns_beside"]


@dataclass(frozen=True)
class ColumnsBeside:
    """The aligned columns of batches: none. The room of aligned columns derives others.

    Args:
        columns: What a batch has of them.
    """

    columns: tuple[Any, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return ()

    def check(self, fields: Fields) -> None:
        """Refuse settings of fields whose values are read from the files."""

    def check_eos(self, layout: SequenceLayout, datasets: Sequence[Dataset]) -> None:  # noqa: ARG002
        """Refuse ``learn_eos=False`` where labels are made of all tokens.

        Raises:
            InvalidArgumentError: Then.
        """
        if layout.learn_eos is False:
            raise InvalidArgumentError(
                "learn_eos=False is of data with labels of their own: leave it out"
            )

    def settings(self, fields: Fields, layout: SequenceLayout) -> _core.BesideConfig:  # noqa: ARG002
        """Return the engine's settings of these columns and of fields."""
        return {"fields": fields.settings}

    def arrays(self, memory: _core.Buffer, shape: tuple[int, ...]) -> Batch:  # noqa: ARG002
        """Return the columns of a batch by name, as views of its memory."""
        return {}

    def typed(self, batch: Batch) -> Batch:
        """Give tensors of bits the type of the numbers that they are."""
        return batch


def columns_beside(
    datasets: Sequence[Dataset], fill: Collection[str] = ()
) -> ColumnsBeside:
    """Return the aligned columns of datasets, of their room if there are some.

    Args:
        datasets: What has them.
        fill: Those that a dataset may lack: its tokens have padding.

    Raises:
        InvalidArgumentError: If they differ in name, type, width or padding.
    """
    if not any(data.aligned for data in datasets):
        return ColumnsBeside()
    columns: ColumnsBeside = provided("aligned columns")(datasets, fill)
    return columns
