"""Aligned columns of datasets, as batches have them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.aligned.aligned import AlignedColumn
from pagefeed.core._base import IGNORED, Int64Array, require
from pagefeed.core.batches import Batch, ColumnsBeside, Fields
from pagefeed.core.dataset import Dataset
from pagefeed.core.sequences import SequenceLayout
from pagefeed.errors import DataError, InvalidArgumentError, LabelWarning

__all__ = ["AlignedColumns"]


class Numbers(NamedTuple):
    """A column, and the numbers that a batch has of it."""

    column: AlignedColumn
    dtype: str
    """Their type: a name of NumPy, or bfloat16."""
    width: int
    """How many of them a token has."""


@dataclass(frozen=True)
class AlignedColumns(ColumnsBeside):
    """The aligned columns of datasets, alike in all that have them.

    Args:
        columns: What a batch has of them.
        handles: For each dataset, where they lie; None for those that it lacks.
    """

    columns: tuple[Numbers, ...] = ()
    handles: tuple[tuple[_core.Index | _core.FlatField | None, ...], ...] = ()

    @classmethod
    def of(
        cls, datasets: Sequence[Dataset], fill: Collection[str] = ()
    ) -> AlignedColumns:
        """Return the aligned columns of datasets.

        Args:
            datasets: What has them.
            fill: Those that a dataset may lack: its tokens have padding.

        Raises:
            InvalidArgumentError: If they differ in name, type, width or padding.
        """
        all_columns: dict[str, tuple[Dataset, Numbers]] = {}
        handles: list[dict[str, _core.Index | _core.FlatField]] = []
        for data in datasets:
            both = zip(data.aligned, data.aligned_sources, strict=True)
            handles.append({})
            for each, source in both:
                own = Numbers(each, each.dtype(source), each.width(source, data.index))
                first, found = all_columns.setdefault(each.column, (data, own))
                if found != own:
                    raise InvalidArgumentError(
                        f"{first!r} has {_shown(found)} and {data!r} has "
                        f"{_shown(own)}: a batch needs one type, width and padding. "
                        "Give both datasets the same, or write one of them again"
                    )
                handles[-1][each.column] = source.handle
        for name, (first, (each, dtype, _)) in all_columns.items():
            each.bits(each.padding, dtype)
            for data, there in zip(datasets, handles, strict=True):
                if name not in there and name not in fill:
                    raise InvalidArgumentError(
                        f"a batch has the aligned column {name!r} of {first!r}, and "
                        f"{data!r} names none: name it in aligned= of both, or give "
                        f"tokens without it the padding by mix(..., fill=[{name!r}])"
                    )
        return cls(
            tuple(numbers for _, numbers in all_columns.values()),
            tuple(tuple(map(there.get, all_columns)) for there in handles),
        )

    @property
    def lacked(self) -> list[str]:
        """Names of columns that a dataset lacks."""
        each = zip(self.names, zip(*self.handles, strict=True), strict=True)
        return [name for name, handles in each if None in handles]

    def lacked_by(self, dataset: int) -> set[str]:
        """Return the names of columns that a dataset, by its number, lacks."""
        each = zip(self.names, self.handles[dataset], strict=True)
        return {name for name, handle in each if handle is None}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.column for each, _, _ in self.columns)

    @property
    def arrays_of(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """What a batch has of them: name, type and what follows [batch, length]."""
        for each, dtype, width in self.columns:
            kind = "uint16" if dtype == "bfloat16" else dtype
            yield each.column, kind, () if width == 1 else (width,)
            if each.like.count is not None:
                yield each.like.count, "int32", ()

    def check(self, fields: Fields) -> None:
        """Refuse settings of fields whose values are read from the files.

        Raises:
            InvalidArgumentError: If labels of the files were to be shifted, or a column
                was to have another type.
        """
        fields.check_given(name for each, _, _ in self.columns for name in each.names)
        if "labels" in self.names and fields.ignore_index != IGNORED:
            raise InvalidArgumentError(
                f"ignore_index={fields.ignore_index} does not apply to labels that are "
                "read from the column 'labels': leave it out, and set their padding by "
                f"aligned={{'labels': {fields.ignore_index}}}"
            )
        if "labels" in self.names and "labels" in fields.names and fields.shifted:
            raise InvalidArgumentError(
                "shifted=True moves labels that are made, and those of the column "
                "'labels' come as they are: leave shifted out"
            )

    def check_eos(self, layout: SequenceLayout, datasets: Sequence[Dataset]) -> None:
        """Warn if no label teaches a model to write the ``eos`` after each row.

        Raises:
            InvalidArgumentError: If ``learn_eos=False`` and labels are made: those have
                every token.
        """
        if "labels" not in self.names:
            super().check_eos(layout, datasets)
            return
        if layout.eos is None or layout.learn_eos is not None:
            return
        if not all(data.labels_end(layout.eos) for data in datasets):
            warnings.warn(
                f"the labels of eos={layout.eos} behind each row are padding, so that "
                "no model learns to write it: give learn_eos=True, or learn_eos=False "
                "where rows end with a token that says so",
                LabelWarning,
                stacklevel=2,
            )

    def settings(self, fields: Fields, layout: SequenceLayout) -> _core.BesideConfig:
        """Return the engine's settings of these columns and of fields.

        A column with the name of a field takes its place.
        """
        names = self.names
        made = [name for name in fields.made if name not in names]
        label = layout.eos if layout.learn_eos else None
        told: _core.BesideConfig = {
            "fields": fields.settings | {"fields": made},
            "aligned": self.handles,
            "per_token": self.per_token(label),
        }
        if "labels" in names and "loss_mask" in made:
            each = [name for name, _, _ in self.arrays_of]
            told["loss_column"] = each.index("labels")
        return told

    def per_token(self, eos: int | None = None) -> list[dict[str, Any]]:
        """Return the settings of each column for the data plane.

        Args:
            eos: Label of separators behind rows, where it is not padding.
        """
        labels = None if eos is None else float(eos)
        return [
            each.asked(dtype, width, labels if each.column == "labels" else None)
            for each, dtype, width in self.columns
        ]

    def typed(self, batch: Batch) -> Batch:
        """Give tensors of bits the type of the numbers that they are."""
        for each, dtype, _ in self.columns:
            found = batch[each.column]
            if dtype == "bfloat16" and not isinstance(found, np.ndarray):
                torch = require("torch", extra="torch", purpose="dtype='bfloat16'")
                batch[each.column] = found.view(torch.bfloat16)
        return batch

    def of_documents(
        self,
        columns: Mapping[str, _core.ArrowArray],
        lengths: Int64Array,
        shape: tuple[int, int],
        starts: Int64Array | None = None,
        *,
        across_documents: bool = False,
        has: Mapping[str, _core.ArrowArray],
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of padded documents by name.

        Args:
            columns: The rows of the batch.
            lengths: Tokens of each: int64.
            shape: Of the tokens of the batch.
            starts: Where each row begins in the one that holds all: int64.
            across_documents: Whether a row leads to the next there.
            has: Of columns that a dataset lacks: not null in the rows of the others.
        """
        made: dict[str, npt.NDArray[Any]] = {}
        arrays = list(self.arrays_of)
        ends = [-1]
        if starts is not None and not across_documents:
            ends += (starts[1:] - 1).tolist()
        for (each, _, _), asked in zip(self.columns, self.per_token(), strict=True):
            try:
                memory = _core.padded_numbers(
                    columns[each.column],
                    lengths,
                    shape[1],
                    asked,
                    starts=starts,
                    has=has.get(each.column),
                )
            except DataError as error:
                told = DataError(f"column {each.column!r}: {error}")
                told.column, told.batch_row = each.column, error.batch_row
                raise told from None
            padding = asked["padding"].to_bytes(8, "little")
            for number, name in enumerate(each.names):
                kind, own = arrays[len(made)][1:]
                found = np.ndarray(
                    shape + own, kind, memoryview(memory), memory.aligned_offset(number)
                )
                if each.like.shifted:
                    found[:, :-1] = found[:, 1:]
                    last = bytes(8) if number else padding
                    found[:, ends] = np.frombuffer(last, kind, 1)
                made[name] = found
        return made

    def loss_mask(self, made: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Return a loss mask from the labels of the files, if they have labels."""
        names = self.names
        if "labels" not in names or "loss_mask" in names or "loss_mask" not in made:
            return {}
        mask = made["labels"] != self.columns[names.index("labels")].column.padding
        return {"loss_mask": mask.astype(made["loss_mask"].dtype, copy=False)}

    def arrays(
        self, memory: _core.Buffer, shape: tuple[int, ...]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a batch by name, as views of its memory."""
        view = memoryview(memory)
        return {
            name: np.ndarray(shape + own, kind, view, memory.aligned_offset(number))
            for number, (name, kind, own) in enumerate(self.arrays_of)
        }


def _shown(numbers: Numbers) -> str:
    column, dtype, width = numbers
    facts = [f"{column.column!r} of {dtype} x {width}", f"padding={column.padding}"]
    for setting in fields(column.like):
        value = getattr(column.like, setting.name)
        if setting.name not in ("width", "padding") and value != setting.default:
            facts.append(f"{setting.name}={value!r}")
    return ", ".join(facts)
