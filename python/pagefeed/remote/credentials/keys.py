"""Keys from a source of credentials, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pagefeed.errors import AccessDeniedError

__all__ = ["Absent", "AccessKeys", "Environment", "broken", "keys_of"]

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


class Absent(Exception):  # noqa: N818  # It is no error: the next source is asked.
    """A source is not set up; the message says where it looked."""


def broken(source: str, problem: str, advice: str) -> AccessDeniedError:
    """Return the error of a source that is set up and gives no credentials."""
    return AccessDeniedError(f"credentials by {source}: {problem}: {advice}")


def keys_of(answer: Any, names: tuple[str, str, str, str], source: str) -> AccessKeys:
    """Return the credentials in an answer.

    Args:
        answer: Decoded.
        names: Its names of key, secret, token and time of expiry.
        source: What answered, for messages.

    Raises:
        AccessDeniedError: If the answer holds no credentials, or no valid time of
            expiry.
    """
    fields = answer if isinstance(answer, dict) else {}
    key, secret, token, expires = map(fields.get, names)
    if not (isinstance(key, str) and isinstance(secret, str) and key and secret):
        raise broken(source, "its answer has no credentials", "check its settings")
    return AccessKeys(key, secret, token or None, _seconds(expires, source))


def _seconds(expires: str | float | None, source: str) -> float | None:
    if expires is None:
        return None
    if isinstance(expires, int | float):
        return expires / 1000.0
    try:
        when = datetime.fromisoformat(expires)
    except ValueError:
        raise broken(
            source, "its time of expiry is not a time", "check its settings"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
