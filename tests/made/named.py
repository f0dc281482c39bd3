"""A run of a test, by the name that the command line knows it by."""

from typing import Any

run: Any = None
"""The loader or dataset that was named last."""


def name_run(made: Any) -> str:
    """Name a loader, a mixture or a dataset for a verb."""
    global run  # noqa: PLW0603 - found by its name, as in code of a user
    run = made
    return f"{__name__}:run"
