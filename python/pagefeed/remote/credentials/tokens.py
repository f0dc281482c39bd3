"""Asks the security token service (STS) for the keys of a role."""

from __future__ import annotations

import hashlib
import hmac
import html
import re
import time
from urllib.parse import urlencode, urlsplit

from pagefeed.errors import AccessDeniedError
from pagefeed.remote.credentials.asking import Refused, ask
from pagefeed.remote.credentials.keys import AccessKeys, Environment, broken, keys_of

__all__ = ["assumed_role", "signature", "web_identity_role"]

_LIMIT = 5.0
_VERSION = "2011-06-15"
_NAMES = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
_FORM = "application/x-www-form-urlencoded; charset=utf-8"


def web_identity_role(
    role: str, token_file: str, session: str, region: str, environment: Environment
) -> AccessKeys:
    """Return keys of a role for a token in a file, which its writer renews.

    Raises:
        AccessDeniedError: If the file cannot be read or the role is refused.
        UnavailableError: If the service does not answer.
    """
    try:
        with open(token_file, encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as problem:
        advice = "AWS_WEB_IDENTITY_TOKEN_FILE or the profile names it"
        kind = type(problem).__name__
        unreadable = f"{token_file} cannot be read ({kind})"
        raise broken("web identity", unreadable, advice) from None
    form = {"RoleArn": role, "RoleSessionName": session, "WebIdentityToken": token}
    return assumed_role(form, None, region, environment)


def assumed_role(
    form: dict[str, str], keys: AccessKeys | None, region: str, environment: Environment
) -> AccessKeys:
    """Return keys of a role, asked for with other keys or with a token in the form.

    Raises:
        AccessDeniedError: If the role is refused.
        UnavailableError: If the service does not answer.
    """
    action = "AssumeRoleWithWebIdentity" if keys is None else "AssumeRole"
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    usual = f"https://sts.{region}.{suffix}" if region else f"https://sts.{suffix}"
    url = f"{(environment.get('AWS_ENDPOINT_URL_STS') or usual).rstrip('/')}/"
    body = urlencode({"Action": action, "Version": _VERSION, **form}).encode()
    headers = {"Content-Type": _FORM}
    if keys is not None:
        headers |= signature(url, headers, body, keys, region or "us-east-1", "sts")
    source = f"{action} at {url}"
    try:
        answer = ask(
            url,
            source,
            method="POST",
            headers=headers,
            body=body,
            limit=_LIMIT,
            ca_bundle=environment.get("AWS_CA_BUNDLE"),
        )
    except Refused as refused:
        raise _refusal(refused, source, form["RoleArn"]) from None
    fields = {name: _field(answer, name) for name in _NAMES}
    return keys_of(fields, _NAMES, source)


def _refusal(refused: Refused, source: str, role: str) -> AccessDeniedError:
    code = _field(refused.text, "Code") or ""
    shown = f"{refused.status} {code}" if code.isalnum() else f"{refused.status}"
    advice = "see to the role's trust, and that the token or keys are valid"
    if "Signature" in code and "too old" in refused.text.lower():
        advice = "set the clock of this machine, which is wrong"
    return broken(source, f"{role} is refused ({shown})", advice)


def _field(text: str, name: str) -> str | None:
    match = re.search(f"<{name}>([^<]*)</{name}>", text)
    return html.unescape(match[1]) if match else None


def signature(
    url: str,
    headers: dict[str, str],
    body: bytes,
    keys: AccessKeys,
    region: str,
    service: str,
    *,
    method: str = "POST",
    now: float | None = None,
) -> dict[str, str]:
    """Return headers that sign a request, as Signature Version 4 defines it.

    Args:
        url: URL of the request; its parameters in the order of their names.
        headers: Headers that are signed as well.
        body: Body of the request.
        keys: Keys that sign.
        region: Region of the service.
        service: Its name.
        method: Method of the request.
        now: Seconds since 1970; the time now if None.
    """
    parts = urlsplit(url)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    added = {"X-Amz-Date": stamp}
    if keys.session_token:
        added["X-Amz-Security-Token"] = keys.session_token
    signed = {"host": parts.netloc} | {
        name.lower(): value for name, value in {**headers, **added}.items()
    }
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    hashed = hashlib.sha256(body).hexdigest()
    canonical = "\n".join(
        [method, parts.path or "/", parts.query, *lines, "", names, hashed]
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys.secret_access_key}".encode()
    for message in [*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"]:
        key = hmac.digest(key, message.encode(), "sha256")
    added["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={key.hex()}"
    )
    return added
