"""Documents: every row is a sequence, with any of its columns, or a batch has many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pagefeed.core._base import check_choice, check_columns, check_whole
from pagefeed.core.dataset import Spans
from pagefeed.core.sequences import PACKING, Cut, Delivers
from pagefeed.documents.ahead import DecodingFeed
from pagefeed.documents.budgets import (
    DocumentBatchIndex,
    document_in,
    num_documents,
    slots_in_batches,
)
from pagefeed.documents.document_feed import DocumentFeed
from pagefeed.documents.document_index import DocumentIndex
from pagefeed.errors import InvalidArgumentError


class _Fillings(dict[str, int]):
    """Padding values by column, not changed after they are made."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


@dataclass(frozen=True)
class Documents(Cut):
    """One row, one sequence: whole documents, with any columns.

    A batch holds one Arrow array per column, of text, numbers or nested values, for any
    library with the Arrow PyCapsule interface (``pyarrow.array(batch["text"])``). With
    ``max_length`` the dataset's token column becomes ``input_ids`` [batch_size,
    length], padded, and ``lengths`` [batch_size]. A null row is then an empty document,
    and a null token inside a row raises an error when the loader is made. Columns named
    in ``aligned=`` of the dataset are cut and padded like the tokens. All other columns
    come whole. A column with the name of a field replaces that field.

    In a mixture each dataset has its own token column. Other columns must have the same
    name in all datasets.

    Args:
        columns: Columns of a batch, including columns from folder names (``lang=en/``).
            By default the dataset's column and its metadata. A path such as
            ``"meta.url"`` gives the top-level column with this leaf only.
        max_length: Most tokens of a document; the rest of a longer one is left out.
        pad: ``"longest"`` pads documents to the longest of their batch,
            ``"max_length"`` always to ``max_length``. None does not pad: the documents
            of a batch are joined to ``input_ids`` [1, tokens], and the field
            ``cu_seqlens`` says where each begins. Or a dict from columns with lists of
            integers to their padding values. Each such column comes under its own name,
            int64 [batch_size, length], padded to its own longest list, or cut and
            padded to ``max_length``, with ``NAME_lengths`` [batch_size]. So pairs of
            chosen and rejected answers, each with labels, need no collator. The
            dataset's column is then treated like the others.

    Example:
        >>> Documents(pad={"chosen_ids": 0, "rejected_ids": 0}).padded_columns
        {'chosen_ids': 0, 'rejected_ids': 0}
        >>> Documents(columns=["text", "url"])
        Documents(columns=('text', 'url'), max_length=None, pad='longest')
    """

    columns: Iterable[str] | None = None
    max_length: int | None = None
    pad: Literal["longest", "max_length"] | Mapping[str, int] | None = "longest"

    def __post_init__(self) -> None:
        if self.columns is not None:
            names = check_columns(self.columns, "columns")
            if not names and self.max_length is None:
                raise InvalidArgumentError(
                    "columns=[] leaves nothing of a document: name some, or give a "
                    "max_length for its tokens"
                )
            if len(set(names)) < len(names):
                raise InvalidArgumentError(
                    f"columns={list(names)} names a column twice: name it once"
                )
            object.__setattr__(self, "columns", names)
        if self.max_length is not None:
            length = check_whole(self.max_length, "max_length", least=1)
            object.__setattr__(self, "max_length", length)
        if isinstance(self.pad, str):
            check_choice(self.pad, ("longest", "max_length"), "pad")
            return
        if self.pad is None and self.max_length is None:
            raise InvalidArgumentError(
                "pad=None joins the tokens of documents: give a max_length"
            )
        if self.pad is None:
            return
        if not isinstance(self.pad, Mapping):
            raise InvalidArgumentError(
                f"pad={self.pad!r} must be 'longest', 'max_length', None, or what "
                "fills up which column: pad={'chosen_ids': 0, 'labels': -100}"
            )
        names = check_columns(self.pad, "pad")
        filling = [check_whole(self.pad[name], f"pad[{name!r}]") for name in names]
        pairs = _Fillings(zip(names, filling, strict=True))
        object.__setattr__(self, "pad", pairs)

    @property
    def padded_columns(self) -> dict[str, int]:
        """Padding values by column, if they were given."""
        return dict(self.pad) if isinstance(self.pad, Mapping) else {}

    @property
    def makes_tokens(self) -> bool:
        """Whether the dataset's own column comes as ``input_ids``, cut and padded."""
        return self.max_length is not None and not isinstance(self.pad, Mapping)

    @property
    def identity(self) -> str:
        """Text that identifies the cut. Columns play no part in it."""
        return "Documents()"

    @property
    def delivers(self) -> Delivers:
        """Whether a row of a batch holds tokens, or the columns of a row."""
        return "documents" if self.makes_tokens else "rows"

    def index(self, spans: Spans) -> DocumentIndex:
        """Take the rows of ``spans`` for sequences."""
        spans.index.check_cut(self)
        return DocumentIndex(spans, self)

    @property
    def has_one_length(self) -> bool:  # type: ignore[override]
        """Whether all sequences are of one length, padding included."""
        return self.pad == "max_length"

    def feed(self, settings: Any, run: Any) -> Any:
        """Return the feed that makes batches of a run."""
        if settings.decode is not None:
            return DecodingFeed(settings, run, settings.decode)
        return DocumentFeed(settings, run)

    def with_budget(self, batch_tokens: int) -> tuple[Documents, int]:
        """Return a cut whose sequences are batches of at most ``batch_tokens``."""
        if not self.makes_tokens:  # Refused with what else they cannot do.
            return self, 1
        return DocumentBatches(**vars(self), batch_tokens=batch_tokens), 1


@dataclass(frozen=True)
class DocumentBatches(Documents):
    """Documents in batches with a budget of tokens, instead of a number of documents.

    Args:
        batch_tokens: Most tokens of a batch, padding included.

    Raises:
        InvalidArgumentError: If a document may not fit, or documents have no
            ``max_length``.

    Example:
        >>> DocumentBatches([], max_length=512, batch_tokens=4096).batch_tokens
        4096
    """

    takes_batches: ClassVar[bool] = True
    num_documents = staticmethod(num_documents)
    document_in = staticmethod(document_in)
    slots = staticmethod(slots_in_batches)

    batch_tokens: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length is None or not self.makes_tokens:
            raise InvalidArgumentError(
                f"batch_tokens={self.batch_tokens} counts tokens of documents that are "
                "cut: give Documents a max_length, and pad='longest' or None"
            )
        if self.max_length > self.batch_tokens:
            raise InvalidArgumentError(
                f"batch_tokens={self.batch_tokens} does not hold a document of "
                f"max_length={self.max_length} tokens: give {16 * self.max_length} or "
                "more, so that little of it is wasted"
            )

    def index(self, spans: Spans) -> DocumentBatchIndex:
        """Make batches of the rows of ``spans``."""
        spans.index.check_cut(self)
        return DocumentBatchIndex(spans, self)

    @property
    def identity(self) -> str:
        """Text that identifies the cut."""
        limits = f"max_length={self.max_length}, pad={self.pad!r}"
        cut = f"DocumentBatches(batch_tokens={self.batch_tokens}, {limits})"
        return f"{cut}, version {PACKING}"
