"""Fields of a batch: labels, positions, masks and borders, made from its documents.

The data plane makes these fields together with the tokens. All follow from the same
document borders, so they agree on what attends to what, what is predicted from what,
and what is padding.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from pagefeed import _core
from pagefeed.core._base import (
    FIELDS,
    IGNORED,
    check_choice,
    check_flag,
    check_whole,
    lazy,
)
from pagefeed.core.batches.formats import parse_dtype
from pagefeed.core.sequences import Cut
from pagefeed.errors import InvalidArgumentError

FieldName: TypeAlias = Literal[
    "input_ids",
    "labels",
    "position_ids",
    "document_ids",
    "seq_idx",
    "cu_seqlens",
    "cu_seqlens_padded",
    "max_seqlen",
    "doc_lens",
    "max_doc_lens",
    "attention_mask",
    "loss_mask",
    "dataset_ids",
    "metadata",
]
"""The names of ``FIELDS``, for type checkers."""

DTYPES = {name: np.dtype(name) for name in ("int64", "int32", "uint16")}
"""Types of tokens: to make one of its name takes NumPy longer than an array."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields of a batch, and how its labels are made.

    Args:
        names: Any of ``input_ids``, ``labels``, ``position_ids``, ``document_ids``,
            ``seq_idx``, ``cu_seqlens``, ``cu_seqlens_padded``, ``max_seqlen``,
            ``doc_lens``, ``max_doc_lens``, ``attention_mask``, ``loss_mask``,
            ``dataset_ids`` (number of each sequence's dataset in
            ``loader.dataset_names``) and ``metadata`` (metadata columns of the
            documents).
        shifted: True: a label is at the position where it is predicted, one before its
            token. False: it is at the position of its token, as Hugging Face models
            expect.
        across_documents: True: the first token of a document is predicted from the last
            token of the document before it in the row. False: it carries no loss, as no
            token of its document comes before it. Both hold for labels and weights of
            the files, too.
        dtypes: Types of fields that should not have their default type, by field name.
            A type is one of NumPy or torch, or its name: ``labels`` and
            ``position_ids`` int64 or int32, ``document_ids`` int32 or int64,
            ``attention_mask`` and ``loss_mask`` bool, int64 or float32. The type of
            labels must hold all tokens of the loader's ``dtype``.
        ignore_index: Label that carries no loss.

    Raises:
        InvalidArgumentError: If a name or a type is unknown, a type is given for a
            field that is not in ``names``, or ``ignore_index`` does not fit the type of
            labels.

    Example:
        >>> Fields(names=("input_ids", "labels"), shifted=True).names
        ('input_ids', 'labels')
        >>> masked = Fields(names=("loss_mask",), dtypes={"loss_mask": "float32"})
        >>> masked.dtype_of("loss_mask")
        'float32'
    """

    names: tuple[str, ...] = ("input_ids", "labels")
    shifted: bool = False
    across_documents: bool = False
    dtypes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    ignore_index: int = IGNORED

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _names(self.names))
        check_flag(self.shifted, "shifted")
        check_flag(self.across_documents, "across_documents")
        object.__setattr__(self, "dtypes", _dtypes(self.dtypes, self.names))
        bounds = np.iinfo(self.dtype_of("labels"))
        least, most = int(bounds.min), int(bounds.max)
        check_whole(self.ignore_index, "ignore_index", least=least, most=most)

    @classmethod
    def parse(cls, fields: Fields | Iterable[str] | None, cut: Cut) -> Fields:
        """Return a :class:`Fields` unchanged, or make one from names.

        None gives what a loss needs, ``input_ids`` and ``labels``; of rows as the files
        have them no field is made.

        Raises:
            InvalidArgumentError: If a name is unknown or there is none.
        """
        if fields is None:
            return cls(names=("input_ids",)) if cut.delivers == "rows" else cls()
        return fields if isinstance(fields, Fields) else cls(names=_names(fields))

    def also(self, name: str) -> Fields:
        """Return these fields and one more."""
        return self if name in self.names else replace(self, names=(*self.names, name))

    @lazy
    def made(self) -> tuple[str, ...]:
        """The fields that the data plane makes."""
        others = {"sequences", "table"}
        return tuple(name for name in self.names if FIELDS[name].shape not in others)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the data plane; those at their default are left out."""
        told: dict[str, Any] = {
            "fields": self.made,
            "shifted": self.shifted,
            "across_documents": self.across_documents,
        }
        if self.dtypes:
            told["dtypes"] = self.dtypes
        if self.ignore_index != IGNORED:
            told["ignore_index"] = self.ignore_index
        return told

    def dtype_of(self, name: str) -> str:
        """Return the type of a field whose type can be chosen."""
        return str(self.dtypes.get(name, FIELDS[name].dtypes[0]))

    def check_tokens(self, dtype: str) -> None:
        """Raise an error if labels cannot hold all tokens.

        Raises:
            InvalidArgumentError: If tokens of ``dtype`` may be larger.
        """
        labels = self.dtype_of("labels")
        if "labels" in self.names and np.iinfo(labels).max < np.iinfo(dtype).max:
            raise InvalidArgumentError(
                f"dtypes['labels']={labels!r} does not hold all tokens of "
                f"dtype={dtype!r}: give the Loader dtype={labels!r}"
            )

    def check_given(self, names: Iterable[str]) -> None:
        """Raise an error if a type is given for a field that is read from a column.

        Raises:
            InvalidArgumentError: If ``dtypes`` names such a field.
        """
        for name in names:
            if name in self.dtypes:
                raise InvalidArgumentError(
                    f"dtypes[{name!r}] is for a field that is made, but the column "
                    f"{name!r} comes in the type that the files have: leave it out"
                )

    def arrays(
        self,
        memory: _core.Buffer,
        shape: tuple[int, int],
        dtype: str,
        given: Container[str] = (),
    ) -> dict[str, Any]:
        """Return the fields of a batch by name, as views of its memory.

        Args:
            memory: The memory of a batch, which the data plane made with these
                settings.
            shape: Shape of the tokens, (batch_size, length).
            dtype: Type of the tokens.
            given: Fields that are not made, because columns of the files have their
                names.
        """
        view, offsets, of_tokens = memoryview(memory), memory.offsets, DTYPES[dtype]
        arrays: dict[str, Any] = {}
        for name, form, kind, number in self._forms:
            if given and name in given:
                continue
            size: int | tuple[int, int] = shape
            if form != "tokens":
                if form in {"number", "rows"}:
                    arrays[name] = getattr(memory, name)
                    continue
                if form == "borders":
                    size = memory.num_borders
                else:
                    size = shape[0], memory.most_segments
            arrays[name] = np.ndarray(size, kind or of_tokens, view, offsets[number])
        return arrays

    @lazy
    def _forms(self) -> list[tuple[str, str, np.dtype[Any] | None, int]]:
        """Return name, shape, type and number in ``FIELDS`` of each field that is made.

        The type is None for fields with the type of the tokens.
        """
        numbers = {name: number for number, name in enumerate(FIELDS)}
        return [
            (
                name,
                FIELDS[name].shape,
                np.dtype(self.dtype_of(name)) if FIELDS[name].dtypes else None,
                numbers[name],
            )
            for name in self.made
        ]


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidArgumentError(
            f"fields={names!r} must be a list of {', '.join(FIELDS)}"
        )
    chosen = tuple(check_choice(name, tuple(FIELDS), "fields") for name in names)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidArgumentError(
            f"fields={list(chosen)} must name some of {', '.join(FIELDS)}, each once"
        )
    return chosen


def _dtypes(asked: object, names: tuple[str, ...]) -> dict[str, str]:
    """Return the names of types that are not the usual ones."""
    if not isinstance(asked, Mapping):
        raise InvalidArgumentError(
            f"dtypes={asked!r} must name types by field: dtypes={{'loss_mask': "
            "'float32'}"
        )
    chosen = {}
    for name, dtype in asked.items():
        typed = tuple(name_of for name_of, entry in FIELDS.items() if entry.dtypes)
        check_choice(name, typed, "dtypes")
        if name not in names:
            raise InvalidArgumentError(
                f"dtypes has {name!r}, which is not among the fields "
                f"{', '.join(names)}: add it to names, or leave it out"
            )
        usual = FIELDS[name].dtypes
        dtype_of = parse_dtype(dtype, usual, f"dtypes[{name!r}]")
        if dtype_of != usual[0]:
            chosen[name] = dtype_of
    return chosen
