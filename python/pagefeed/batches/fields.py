"""Fields of a batch: labels, positions, masks and borders, made from its documents.

The data plane makes them beside the tokens, all from the same borders of documents, so
they agree with each other: what attends to what, what is predicted from what, and what
is padding.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed._base import check_choice, check_flag
from pagefeed.errors import InvalidArgumentError

__all__ = ["FIELDS", "IGNORED", "Fields"]

IGNORED = -100
"""Label that carries no loss: ``ignore_index`` of torch's cross entropy."""

FIELDS = (
    "input_ids",
    "labels",
    "position_ids",
    "document_ids",
    "cu_seqlens",
    "max_seqlen",
    "attention_mask",
    "loss_mask",
    "metadata",
)

DTYPES = {
    "labels": "int64",
    "position_ids": "int64",
    "document_ids": "int32",
    "cu_seqlens": "int32",
    "attention_mask": "bool",
    "loss_mask": "bool",
}
"""Types of arrays; tokens have that of the loader."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What a batch carries, and how labels are made.

    Args:
        names: Of ``input_ids``, ``labels``, ``position_ids``, ``document_ids``,
            ``cu_seqlens``, ``max_seqlen``, ``attention_mask``, ``loss_mask`` and
            ``metadata``, what the files tell of the documents.
        shifted: Labels stand where they are predicted, one place before their token;
            otherwise at their token, as Hugging Face models expect them.
        across_documents: The first token of a document is predicted from the last of
            the one before it in its row. Otherwise it carries no loss, as nothing of
            its own document leads to it.

    Raises:
        InvalidArgumentError: If a name is unknown.

    Example:
        >>> Fields(names=("input_ids", "labels"), shifted=True).are_made
        True
    """

    names: tuple[str, ...] = ("input_ids",)
    shifted: bool = False
    across_documents: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _names(self.names))
        check_flag(self.shifted, "shifted")
        check_flag(self.across_documents, "across_documents")

    @classmethod
    def parse(cls, fields: Fields | Iterable[str]) -> Fields:
        """Return fields from themselves or from their names.

        Raises:
            InvalidArgumentError: If a name is unknown or there is none.
        """
        if isinstance(fields, Fields):
            return fields
        return cls(names=_names(fields))

    @property
    def are_made(self) -> bool:
        """Whether there is more than the tokens."""
        return self.names != ("input_ids",)

    @property
    def made(self) -> tuple[str, ...]:
        """Those that the data plane makes of tokens: metadata lies in the files."""
        return tuple(name for name in self.names if name != "metadata")

    @property
    def settings(self) -> dict[str, Any]:
        """What the data plane is told of them."""
        return {
            "fields": self.made,
            "shifted": self.shifted,
            "across_documents": self.across_documents,
        }

    def arrays(
        self,
        memory: _core.Buffer,
        shape: tuple[int, int],
        dtype: str,
        given: Container[str] = (),
    ) -> dict[str, Any]:
        """Return the fields of a batch by name, as views of its memory.

        Args:
            memory: The batch, as the data plane made it with these settings.
            shape: Of the tokens, (batch_size, length).
            dtype: Of the tokens.
            given: Fields that are not made, as columns of the files are called so.
        """
        view = memoryview(memory)
        made: dict[str, Any] = {}
        for name in self.made:
            if name in given:
                continue
            if name == "max_seqlen":
                made[name] = memory.max_seqlen
                continue
            size = memory.num_borders if name == "cu_seqlens" else shape
            kind = DTYPES.get(name, dtype)
            made[name] = np.ndarray(size, kind, view, memory.offset(name))
        return made


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidArgumentError(
            f"fields={names!r} must be a list of {', '.join(FIELDS)}"
        )
    found = tuple(check_choice(name, FIELDS, "fields") for name in names)
    if not found or len(set(found)) < len(found):
        raise InvalidArgumentError(
            f"fields={list(found)} must name some of {', '.join(FIELDS)}, each once"
        )
    return found
