"""What all saved positions are checked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pagefeed.errors import InvalidArgumentError, StateMismatchError

__all__ = ["check_same_run", "reading_state"]


@contextmanager
def reading_state(
    state: Mapping[str, Any], versions: Mapping[str, int]
) -> Iterator[None]:
    """Check the versions of a state, and tell what is wrong in it as of a state.

    Raises:
        StateMismatchError: If a version is another, or the block finds a wrong value.
    """
    for name, ours in versions.items():
        if state.get(name) != ours:
            raise StateMismatchError(
                f"the state has {name} {state.get(name)!r}, this release of pagefeed "
                f"reads {ours}: continue the run with the release that began it"
            )
    try:
        yield
    except (InvalidArgumentError, TypeError, ValueError) as error:
        raise StateMismatchError(
            f"this is not what state_dict() returned: {error}"
        ) from error


def check_same_run(
    state: Any, loader: Any, names: tuple[str, ...], advice: str, *differing: str
) -> None:
    """Refuse a state of another run.

    Args:
        state: What was saved.
        loader: The same of the loader that is to go on.
        names: What must be equal in both.
        advice: What to give the loader.
        *differing: What is known to differ.

    Raises:
        StateMismatchError: Naming both values of everything that differs.
    """
    told = [
        *differing,
        *(
            f"{name}: the state has {theirs!r}, this loader {ours!r}"
            for name in names
            if (theirs := getattr(state, name)) != (ours := getattr(loader, name))
        ),
    ]
    if told:
        raise StateMismatchError(
            "\n  ".join(["the state belongs to another run:", *told])
            + f"\ngive the loader the same {advice}"
        )
