"""Asks services for credentials: small answers, short limits, no redirects."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

__all__ = ["Refused", "as_json", "ask"]

_MOST_BYTES = 1 << 20
_ATTEMPTS = 3
_PAUSE = 0.2


class Refused(Exception):  # noqa: N818  # Its catchers make errors of it.
    """A service answered with an error: its status, and its own words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"it answers {status}")
        self.status, self.text = status, text


class _NoRedirects(HTTPRedirectHandler):
    """Redirects would take secrets elsewhere."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> Request | None:
        """Follow nothing."""


def ask(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limit: float,
    is_near: bool = False,
) -> str:
    """Return what a service answers.

    Args:
        url: Where it is.
        method: Of the request.
        headers: Of the request.
        body: Of the request.
        limit: Seconds of silence after which it counts as not there.
        is_near: Whether it is of this machine, which no proxy reaches.

    Raises:
        Refused: If it answers with an error. Those that may pass are tried again.
        OSError: If it does not answer.
    """
    opener = build_opener(_NoRedirects, *([ProxyHandler({})] if is_near else []))
    if not url.startswith(("http://", "https://")):
        raise OSError("it has no web address")
    sent = dict(headers or {})
    request = Request(url, data=body, headers=sent, method=method)  # noqa: S310
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _sent(opener, request, limit)
        except Refused as refused:
            may_pass = refused.status == 429 or refused.status >= 500
            if not may_pass or attempt == _ATTEMPTS:
                raise
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
    """Return a decoded answer; None if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None
