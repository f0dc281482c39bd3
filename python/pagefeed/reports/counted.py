"""Check of what reports are given: a loader whose sequences have numbers."""

from __future__ import annotations

from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError

__all__ = ["check_counted"]


def check_counted(loader: object, who: str) -> None:
    """Raise unless ``loader`` is a :class:`pagefeed.Loader`.

    Args:
        loader: What the report was given.
        who: Name of the report.

    Raises:
        InvalidArgumentError: Saying what to give.
    """
    if not isinstance(loader, Loader):
        raise InvalidArgumentError(
            f"{who} takes what pagefeed.Loader(...) returned, whose sequences have "
            f"numbers, found {loader!r:.60}; of texts, count the tokens once, "
            "Loader(dataset.tokenize(tokenizer), ...)"
        )
