"""Asks services for credentials: small answers, short limits, no redirects."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

__all__ = ["Refused", "SilentError", "as_json", "ask"]

from pagefeed.errors import UnavailableError

_MOST_BYTES = 1 << 20
_ATTEMPTS = 3
_PAUSE = 0.2


class Refused(Exception):  # noqa: N818  # Its catchers make errors of it.
    """A service refused a request; has its status and its message."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"it answers {status}")
        self.status, self.text = status, text


class SilentError(UnavailableError):
    """A service does not answer."""


class _NoRedirects(HTTPRedirectHandler):
    """Redirects would take secrets elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""


def ask(
    url: str,
    source: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limit: float,
    is_near: bool = False,
    ca_bundle: str | None = None,
) -> str:
    """Return the answer of a service.

    Args:
        url: Address of the service.
        source: Name of the service, for messages.
        method: Method of the request.
        headers: Headers of the request.
        body: Body of the request.
        limit: Seconds of silence after which the service counts as absent.
        is_near: Whether the service belongs to this machine, and so no proxy is used.
        ca_bundle: File of certificates to trust beside those of the system.

    Raises:
        Refused: If it refuses.
        SilentError: If it does not answer.
        UnavailableError: If the service fails, also when it is asked again.
    """
    failed = f"credentials by {source}"
    trusted = ssl.create_default_context()
    if ca_bundle:
        try:
            trusted.load_verify_locations(ca_bundle)
        except OSError as problem:
            raise UnavailableError(f"{failed}: AWS_CA_BUNDLE: {problem}") from None
    own = [HTTPSHandler(context=trusted), *([ProxyHandler({})] if is_near else [])]
    opener = build_opener(_NoRedirects, *own)
    if not url.startswith(("http://", "https://")):
        raise SilentError(f"{failed}: it has no web address")
    sent = dict(headers or {})
    request = Request(url, data=body, headers=sent, method=method)  # noqa: S310
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _sent(opener, request, limit)
        except Refused as refused:
            if refused.status != 429 and refused.status < 500:
                raise
            if attempt == _ATTEMPTS:
                raise UnavailableError(f"{failed}: {refused}") from None
        except (OSError, ValueError) as problem:
            raise SilentError(f"{failed}: {problem}") from None
        time.sleep(_PAUSE)
    raise AssertionError


def _sent(opener: OpenerDirector, request: Request, limit: float) -> str:
    try:
        with opener.open(request, timeout=limit) as answer:
            return str(answer.read(_MOST_BYTES).decode("utf-8", "replace"))
    except HTTPError as problem:
        with problem:
            text = problem.read(_MOST_BYTES).decode("utf-8", "replace")
        raise Refused(problem.code, text) from None
    except HTTPException as problem:
        raise OSError(f"no answer of HTTP: {type(problem).__name__}") from problem


def as_json(text: str) -> Any:
    """Return a decoded answer; None if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
