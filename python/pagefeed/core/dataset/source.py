"""What a loader delivers: one dataset, several that are mixed, or texts uncounted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

__all__ = ["Source", "SourceKind"]

SourceKind: TypeAlias = Literal["tokens", "flat", "text", "uncounted", "mixture"]
"""Columns of tokens, token files, counted texts, texts not counted, several of them."""


class Source(ABC):
    """What a loader delivers."""

    can_seek: ClassVar[bool] = True
    """Whether any row can be read without those before it."""
    has_length: ClassVar[bool] = True
    """Whether the number of rows and tokens is known before they are read."""
    has_end: bool = True
    """Whether an epoch ends."""
    fill: tuple[str, ...] = ()
    """Aligned columns that a dataset may lack: its tokens then have padding."""

    @property
    @abstractmethod
    def kind(self) -> SourceKind:
        """What it is: the table of options says what each kind can do."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, Any]:
        """The datasets that are read, by name; "" is that of one dataset."""

    def make_run(self, settings: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Return the run of these settings; None for that of one dataset."""
        return None

    def feed(
        self,
        settings: Any,  # noqa: ARG002
        run: Any,  # noqa: ARG002
        make: Callable[[Any, Any], Any],  # noqa: ARG002
    ) -> Any:
        """Return what makes batches of a run that has more than its cut gives.

        Args:
            settings: Of the loader.
            run: What it delivers; this is one of its datasets.
            make: Returns what makes batches by the cut alone, of settings and a run.

        Returns:
            A feed; None for that of the cut.
        """
        return None

    def open_session(self, settings: Any) -> Any:  # noqa: ARG002
        """Return what delivers it; None for the session of counted sequences."""
        return None
