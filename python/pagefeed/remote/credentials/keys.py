"""Keys, or the service that gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pagefeed.errors import AccessDeniedError

Environment = Mapping[str, str]
"""Variables of the environment, and options in the form of variables."""


class AccessKeys(NamedTuple):
    """Credentials that sign requests."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires: float | None = None
    """Seconds since 1970; None if they are valid until they are replaced."""

    def __repr__(self) -> str:
        return "AccessKeys(...)"


class KeyService(NamedTuple):
    """A service that object_store asks for keys, and asks again before they expire."""

    source: str
    """Name of the service, for messages."""
    settings: list[tuple[str, str]]
    """Settings of object_store that lead to it."""
    is_near: bool
    """Whether it belongs to this machine: no proxy is used, and it answers at once."""
    looked_at: str | None = None
    """Sources that are not set up, if this one may not be there either."""


def broken(source: str, problem: str, advice: str) -> AccessDeniedError:
    """Return the error of a source that is set up and gives no credentials."""
    return AccessDeniedError(f"credentials by {source}: {problem}: {advice}")
