"""Releases of frameworks that the adapters were tested with."""

from __future__ import annotations

import re
from importlib import metadata

from pagefeed.core._base import warn_user
from pagefeed.errors import PagefeedWarning

__all__ = ["TESTED", "warn_of_newer"]

TESTED = {
    "accelerate": "1.15.0",
    "ai2-olmo-core": "2.6.0",
    "deepspeed": "0.19.8",
    "jax": "0.10.2",
    "lightning": "2.6.6",
    "megatron-core": "0.16.1",
    "ray": "2.60.0",
    "torchtitan": "0.3.0",
    "transformers": "5.24.0",
    "verl": "0.9.1",
}
"""The newest tested release of each framework."""


def warn_of_newer(framework: str) -> None:
    """Warn if the installed release is newer by its first or second number.

    Adapters call it when they are imported, so that a process warns once.
    """
    try:
        found = metadata.version(framework)
    except metadata.PackageNotFoundError:  # A checkout in the path.
        return
    tested = TESTED[framework]
    if _numbers(found) > _numbers(tested):
        warn_user(
            f"{framework} {found} is newer than {tested}, the newest that this release "
            "of pagefeed was tested with; if it behaves oddly, try the tested one",
            PagefeedWarning,
        )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]
