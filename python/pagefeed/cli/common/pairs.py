"""Arguments of the form NAME=VALUE."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import cast

from pagefeed.errors import InvalidArgumentError
from pagefeed.storage import StorageOptions

__all__ = ["configure_storage", "pairs_of", "storage_options"]


def pairs_of(words: Iterable[str], form: str) -> list[tuple[str, str]]:
    """Divide words at the first equals sign.

    Raises:
        InvalidArgumentError: If one is not of the form.
    """
    pairs = [word.partition("=") for word in words]
    wrong = ["".join(pair) for pair in pairs if not (pair[0] and pair[1] and pair[2])]
    if wrong:
        raise InvalidArgumentError(f"{wrong[0]!r} is not of the form {form}")
    return [(name, value) for name, _, value in pairs]


def configure_storage(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of remote storage."""
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="such as endpoint_url=https://host; secrets are better in the environment",
    )


def storage_options(options: argparse.Namespace) -> StorageOptions | None:
    """Return the settings of remote storage that were given, None if none were."""
    form = "--storage-option NAME=VALUE"
    given = dict(pairs_of(options.storage_option, form))
    return cast("StorageOptions", given) if given else None
