"""Aligned columns, with a value for every token: in the engine and in batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed._base import IGNORED
from pagefeed.batches.fields import Fields
from pagefeed.dataset import Aligned, Dataset
from pagefeed.errors import InvalidArgumentError, LabelWarning
from pagefeed.sequences import SequenceLayout
from pagefeed.tokenizer import ChatRows

__all__ = ["AlignedColumns"]


@dataclass(frozen=True)
class AlignedColumns:
    """The aligned columns of datasets, the same in all of them.

    Args:
        columns: Their names and paddings.
        dtypes: Types of their numbers, by names of NumPy.
        handles: For each dataset, where they lie.
    """

    columns: tuple[Aligned, ...]
    dtypes: tuple[str, ...]
    handles: tuple[tuple[_core.Index | _core.FlatField, ...], ...]

    @classmethod
    def of(cls, datasets: Sequence[Dataset]) -> AlignedColumns:
        """Return the aligned columns of datasets.

        Raises:
            InvalidArgumentError: If they differ in name, padding or type.
        """
        first = datasets[0]
        handles = tuple(
            tuple(index.handle for index in data.aligned_sources) for data in datasets
        )
        dtypes = [tuple(str(each.number_type) for each in own) for own in handles]
        for data, own in zip(datasets, dtypes, strict=True):
            if (data.aligned, own) != (first.aligned, dtypes[0]):
                raise InvalidArgumentError(
                    f"a batch has aligned columns of one name, type and padding, but "
                    f"{first!r} has {_shown(first, dtypes[0])} and {data!r} has "
                    f"{_shown(data, own)}: name the same for both, or write one anew"
                )
        for each, dtype in zip(first.aligned, dtypes[0], strict=True):
            each.bits(each.padding, dtype)
        return cls(first.aligned, dtypes[0], handles)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.column for each in self.columns)

    def check(self, fields: Fields) -> None:
        """Refuse settings of fields that come from the files as they are.

        Raises:
            InvalidArgumentError: If labels of the files were to be shifted, or a column
                was to have another type.
        """
        fields.check_given(self.names)
        if "labels" in self.names and fields.ignore_index != IGNORED:
            raise InvalidArgumentError(
                f"ignore_index={fields.ignore_index} is of labels that are made, and "
                "those of the column 'labels' come as they are: leave it out; their "
                f"padding is that of aligned={{'labels': {fields.ignore_index}}}"
            )
        if "labels" in self.names and "labels" in fields.names and fields.shifted:
            raise InvalidArgumentError(
                "shifted=True moves labels that are made, and those of the column "
                "'labels' come as they are: leave shifted out"
            )

    def check_eos(self, layout: SequenceLayout, datasets: Sequence[Dataset]) -> None:
        """Warn if no label lets a model learn the ``eos`` behind each row.

        Raises:
            InvalidArgumentError: If ``learn_eos=False`` and labels are made: those have
                every token.
        """
        if "labels" not in self.names:
            if layout.learn_eos is False:
                raise InvalidArgumentError(
                    "learn_eos=False is of data with labels of their own: leave it out"
                )
            return
        if layout.eos is None or layout.learn_eos is not None:
            return
        rows = [getattr(data, "row_encoder", None) for data in datasets]
        if not all(
            isinstance(each, ChatRows) and each.writes(layout.eos) for each in rows
        ):
            warnings.warn(
                f"the labels of eos={layout.eos} behind each row are padding, so that "
                "no model learns to write it: give learn_eos=True, or learn_eos=False "
                "where rows end with a token that says so",
                LabelWarning,
                stacklevel=2,
            )

    def settings(self, fields: Fields, layout: SequenceLayout) -> dict[str, Any]:
        """Return the engine's settings of these columns and of fields.

        A column with the name of a field takes its place.
        """
        names = self.names
        made = [name for name in fields.made if name not in names]
        found: dict[str, Any] = {"fields": fields.settings | {"fields": made}}
        if not names:
            return found
        paddings = [
            (padding, each.bits(layout.eos or 0, dtype) if learns else padding)
            for each, dtype, padding in zip(
                self.columns, self.dtypes, self.padding_bits, strict=True
            )
            for learns in [layout.learn_eos and each.column == "labels"]
        ]
        found |= {"aligned": self.handles, "paddings": paddings}
        if "labels" in names and "loss_mask" in made:
            found["loss_column"] = names.index("labels")
        return found

    @property
    def padding_bits(self) -> list[int]:
        """Bits of each column's padding."""
        both = zip(self.columns, self.dtypes, strict=True)
        return [each.bits(each.padding, dtype) for each, dtype in both]

    @property
    def each(self) -> Iterator[tuple[str, str, int]]:
        """Name, type and bits of the padding of each column."""
        return zip(self.names, self.dtypes, self.padding_bits, strict=True)

    def loss_mask(self, made: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Return a loss mask made of the files' labels, if there is one to make."""
        names = self.names
        if "labels" not in names or "loss_mask" in names or "loss_mask" not in made:
            return {}
        ignored = self.columns[names.index("labels")].padding
        mask = made["labels"] != ignored
        return {"loss_mask": mask.astype(made["loss_mask"].dtype, copy=False)}

    def arrays(
        self, memory: _core.Buffer, shape: tuple[int, ...]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a batch by name, as views of its memory."""
        if not self.columns:
            return {}
        view = memoryview(memory)
        both = enumerate(zip(self.names, self.dtypes, strict=True))
        return {
            name: np.ndarray(shape, dtype, view, memory.aligned_offset(number))
            for number, (name, dtype) in both
        }


def _shown(dataset: Dataset, dtypes: tuple[str, ...]) -> list[str]:
    both = zip(dataset.aligned, dtypes, strict=True)
    return [f"{each.column}: {dtype}, {each.padding}" for each, dtype in both]
