"""Aligned columns of datasets, as batches have them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.aligned.aligned import AlignedColumn
from pagefeed.core._base import IGNORED, require, warn_user
from pagefeed.core.batches import Batch, ColumnsBeside, Fields
from pagefeed.core.dataset import Dataset
from pagefeed.core.sequences import SequenceLayout
from pagefeed.errors import InvalidArgumentError, LabelWarning


class Numbers(NamedTuple):
    """A column, and the type and width of its numbers in a batch."""

    column: AlignedColumn
    dtype: str
    """Their type: a name of NumPy, or bfloat16."""
    width: int
    """Numbers of a token."""


@dataclass(frozen=True)
class AlignedColumns(ColumnsBeside):
    """Aligned columns of datasets, with the same settings in all that have them.

    Args:
        columns: The columns of a batch.
        handles: For each dataset, the source of each column; None if it lacks the
            column.
    """

    columns: tuple[Numbers, ...] = ()
    handles: tuple[tuple[_core.Index | _core.FlatField | None, ...], ...] = ()

    @classmethod
    def of(
        cls, datasets: Sequence[Dataset], fill: Collection[str] = ()
    ) -> AlignedColumns:
        """Return the aligned columns of datasets.

        Args:
            datasets: The datasets.
            fill: Columns that a dataset may lack. Its tokens then have padding.

        Raises:
            InvalidArgumentError: If datasets differ in the name, type, width or padding
                of a column.
        """
        all_columns: dict[str, tuple[Dataset, Numbers]] = {}
        handles: list[dict[str, _core.Index | _core.FlatField]] = []
        for data in datasets:
            both = zip(data.aligned, data.aligned_sources, strict=True)
            handles.append({})
            for column, source in both:
                own = Numbers(
                    column, column.dtype(source), column.width(source, data.index)
                )
                first, numbers_of_first = all_columns.setdefault(
                    column.column, (data, own)
                )
                if numbers_of_first != own:
                    raise InvalidArgumentError(
                        f"{first!r} has {_shown(numbers_of_first)} and {data!r} has "
                        f"{_shown(own)}: a batch needs one type, width and padding. "
                        "Give both datasets the same, or write one of them again"
                    )
                handles[-1][column.column] = source.handle
        for name, (first, (column, dtype, _)) in all_columns.items():
            column.bits(column.padding, dtype)
            for data, there in zip(datasets, handles, strict=True):
                if name not in there and name not in fill:
                    raise InvalidArgumentError(
                        f"{first!r} has the aligned column {name!r}, but {data!r} does "
                        "not: name it in aligned= of both, or give tokens without it "
                        f"the padding, by mix(..., fill=[{name!r}])"
                    )
        return cls(
            tuple(numbers for _, numbers in all_columns.values()),
            tuple(tuple(map(there.get, all_columns)) for there in handles),
        )

    @property
    def lacked(self) -> list[str]:
        """Names of columns that a dataset lacks."""
        columns = zip(self.names, zip(*self.handles, strict=True), strict=True)
        return [name for name, handles in columns if None in handles]

    def lacked_by(self, dataset: int) -> set[str]:
        """Return the names of columns that a dataset, by its number, lacks."""
        columns = zip(self.names, self.handles[dataset], strict=True)
        return {name for name, handle in columns if handle is None}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.column for column, _, _ in self.columns)

    @property
    def arrays_of(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Name and type of each in a batch, and dimensions after [batch, length]."""
        for column, dtype, width in self.columns:
            kind = "uint16" if dtype == "bfloat16" else dtype
            yield column.column, kind, () if width == 1 else (width,)
            if column.like.count is not None:
                yield column.like.count, "int32", ()

    def check(self, fields: Fields) -> None:
        """Refuse settings of fields that do not apply to columns of the files.

        Raises:
            InvalidArgumentError: If labels of the files get ``shifted`` or
                ``ignore_index``, or a column gets another type.
        """
        fields.check_given(
            name for column, _, _ in self.columns for name in column.names
        )
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
            InvalidArgumentError: If ``learn_eos=False`` and the labels are made from
                tokens: these label every token.
        """
        if "labels" not in self.names:
            super().check_eos(layout, datasets)
            return
        if layout.eos is None or layout.learn_eos is not None:
            return
        if not all(data.labels_end(layout.eos) for data in datasets):
            warn_user(
                f"the labels of eos={layout.eos} after each row are padding, so that "
                "no model learns to write it: give learn_eos=True, or learn_eos=False "
                "where rows end with a token that says so",
                LabelWarning,
            )

    def settings(self, fields: Fields, layout: SequenceLayout) -> _core.BesideConfig:
        """Return the engine's settings of these columns and of fields.

        A column with the name of a field replaces the field.
        """
        names = self.names
        made_fields = [name for name in fields.made if name not in names]
        label = layout.eos if layout.learn_eos else None
        config: _core.BesideConfig = {
            "fields": fields.settings | {"fields": made_fields},
            "aligned": self.handles,
            "per_token": self.per_token(label),
        }
        if "labels" in names and "loss_mask" in made_fields:
            names_of_arrays = [name for name, _, _ in self.arrays_of]
            config["loss_column"] = names_of_arrays.index("labels")
        return config

    def per_token(self, eos: int | None = None) -> list[dict[str, Any]]:
        """Return the settings of each column for the data plane.

        Args:
            eos: Label of the separators after rows; None for padding.
        """
        labels = None if eos is None else float(eos)
        return [
            column.asked(dtype, width, labels if column.column == "labels" else None)
            for column, dtype, width in self.columns
        ]

    def typed(self, batch: Batch) -> Batch:
        """View tensors of raw bits in the type that the bits encode."""
        for column, dtype, _ in self.columns:
            bits = batch[column.column]
            if dtype == "bfloat16" and not isinstance(bits, np.ndarray):
                torch = require("torch", extra="torch", purpose="dtype='bfloat16'")
                batch[column.column] = bits.view(torch.bfloat16)
        return batch

    def arrays(
        self, memory: _core.Buffer, shape: tuple[int, ...]
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a batch by name, as views of its memory."""
        view = memoryview(memory)
        return {
            name: np.ndarray(shape + own, kind, view, memory.aligned_offset(field))
            for field, (name, kind, own) in enumerate(self.arrays_of)
        }


def _shown(numbers: Numbers) -> str:
    column, dtype, width = numbers
    facts = [f"{column.column!r} of {dtype} x {width}", f"padding={column.padding}"]
    for setting in fields(column.like):
        value = getattr(column.like, setting.name)
        if setting.name not in ("width", "padding") and value != setting.default:
            facts.append(f"{setting.name}={value!r}")
    return ", ".join(facts)
