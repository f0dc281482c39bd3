"""The interface of all ways to cut rows into sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from pagefeed.core._base import check_choice, check_flag, check_token, check_whole
from pagefeed.core.dataset import Spans
from pagefeed.core.sequences.sequence_index import SequenceIndex
from pagefeed.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pagefeed.core.batches import Feed, LoaderSettings
    from pagefeed.core.run import Run

Join: TypeAlias = Literal["dataset", "file"]
"""Whether sequences continue from file to file, or end with each file."""
JOINS = ("dataset", "file")

Delivers: TypeAlias = Literal["tokens", "documents", "rows"]
"""Lines of tokens cut to one length, padded tokens of a row, or columns of a row."""


class Cut(ABC):
    """Settings of how rows become sequences: `Windows`, `Packed`, `Documents`."""

    packs: ClassVar[bool] = False
    """Whether a sequence holds whole documents, packed."""
    has_one_length: bool = True
    """Whether all sequences are of one length, padding included."""
    multiple_of: int = 1
    """A packed document takes a multiple of this many tokens."""
    max_length: int | None = None
    """Most tokens of a row, where the cut cuts rows off; None where it does not."""
    takes_batches: ClassVar[bool] = False
    """Whether a sequence is a whole batch of documents, one in each row."""

    @property
    def delivers(self) -> Delivers:
        """Whether a row of a batch holds tokens, or the columns of a row."""
        return "tokens"

    @property
    @abstractmethod
    def identity(self) -> str:
        """Text that identifies the cut in states and caches."""

    @abstractmethod
    def index(self, spans: Spans) -> SequenceIndex:
        """Return the sequences of the rows of ``spans``, by the index alone.

        Raises:
            InvalidArgumentError: If the cut needs documents, and the index does not
                know them.
            UnsupportedError: If the column has another type.
        """

    def feed(self, settings: LoaderSettings, run: Run) -> Feed | None:  # noqa: ARG002
        """Return the feed that makes batches of a run; None for batches of tokens."""
        return None

    @abstractmethod
    def with_budget(self, batch_tokens: int) -> tuple[Self, int]:
        """Return the cut for batches of ``batch_tokens``, and the sequences of a batch.

        Raises:
            InvalidArgumentError: If no sequence fits.
        """


@dataclass(frozen=True, repr=False)
class TokenCut(Cut):
    """Settings of every cut of tokens into sequences.

    Raises:
        InvalidArgumentError: If a setting cannot be right.
    """

    length: int
    eos: int | None = field(default=None, kw_only=True)
    bos: int | None = field(default=None, kw_only=True)
    learn_eos: bool | None = field(default=None, kw_only=True)
    join: Literal["dataset", "file"] = field(default="dataset", kw_only=True)

    def __post_init__(self) -> None:
        length = check_whole(self.length, "length", least=1, most=(1 << 31) - 1)
        object.__setattr__(self, "length", length)
        for name in ("bos", "eos"):
            token = check_token(getattr(self, name), name)
            object.__setattr__(self, name, token)
        if self.learn_eos is not None:
            check_flag(self.learn_eos, "learn_eos")
            if self.eos is None:
                raise InvalidArgumentError("learn_eos needs an eos: give eos=tok.eos")
        check_choice(self.join, JOINS, "join")

    def __repr__(self) -> str:
        """Return the settings without those left at their default."""
        # Unused settings stay out: states of earlier releases name the rest.
        by_kind = sorted(fields(self), key=lambda entry: bool(entry.kw_only))
        shown = [
            f"{entry.name}={getattr(self, entry.name)!r}"
            for entry in by_kind
            if not entry.kw_only or getattr(self, entry.name) != entry.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def identity(self) -> str:
        """Text that identifies the cut in states and caches.

        It has only the settings that are not at their default. So a new setting at its
        default invalidates no earlier state. Hence defaults never change.
        """
        chosen = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.default is MISSING or getattr(self, entry.name) != entry.default
        }
        shown = ", ".join(f"{name}={chosen[name]!r}" for name in sorted(chosen))
        return f"{type(self).__name__}({shown})"

    def with_budget(self, batch_tokens: int) -> tuple[Self, int]:
        """Return the cut for a budget of tokens, and the sequences of a batch."""
        if self.length > batch_tokens:
            raise InvalidArgumentError(
                f"batch_tokens={batch_tokens} does not hold a sequence of {self!r}: "
                f"give {self.length} or more"
            )
        return self, batch_tokens // self.length


def check_sequences(sequences: object) -> None:
    """Raise an error for an object that is not a cut.

    Raises:
        InvalidArgumentError: If it is not; the message names the cuts.
    """
    if isinstance(sequences, Cut):
        return
    is_number = isinstance(sequences, int) and not isinstance(sequences, bool)
    length = sequences if is_number else 2048
    raise InvalidArgumentError(
        f"sequences={sequences!r} must say how to cut: Windows({length}), "
        f"Packed({length}) or Documents()"
    )
