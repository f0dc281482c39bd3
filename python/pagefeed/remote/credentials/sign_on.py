"""Credentials of a single sign-on (SSO), whose tokens ``aws sso login`` leaves."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import datetime
from urllib.parse import urlencode

from pagefeed.remote.credentials.asking import Refused, as_json, ask
from pagefeed.remote.credentials.keys import AccessKeys, Environment, broken, keys_of

__all__ = ["signed_on_keys"]

_LIMIT = 5.0
_NAMES = ("accessKeyId", "secretAccessKey", "sessionToken", "expiration")


def signed_on_keys(
    profile: dict[str, str], name: str, session: dict[str, str], env: Environment
) -> AccessKeys:
    """Return the keys of a role that a sign-on gives.

    Args:
        profile: Its settings.
        name: Its name.
        session: Settings of its ``sso-session``, if it has one.
        env: The environment.

    Raises:
        AccessDeniedError: If settings are missing, or nobody is signed on.
        UnavailableError: If the service does not answer.
    """
    settings = {**session, **profile}
    source = f"single sign-on of profile {name!r}"
    wanted = ("sso_start_url", "sso_region", "sso_account_id", "sso_role_name")
    missing = [setting for setting in wanted if setting not in settings]
    if missing:
        raise broken(source, f"{', '.join(missing)} is missing", "see ~/.aws/config")
    # The cache is named by the session, in profiles of the old form by the start URL.
    cached = settings.get("sso_session", settings["sso_start_url"])
    token = _token(cached, source, f"run `aws sso login --profile {name}`")
    usual = f"https://portal.sso.{settings['sso_region']}.amazonaws.com"
    endpoint = (env.get("AWS_ENDPOINT_URL_SSO") or usual).rstrip("/")
    asked = {
        "role_name": settings["sso_role_name"],
        "account_id": settings["sso_account_id"],
    }
    url = f"{endpoint}/federation/credentials?{urlencode(asked)}"
    try:
        headers = {"x-amz-sso_bearer_token": token}
        trusted = env.get("AWS_CA_BUNDLE")
        answer = ask(url, source, headers=headers, limit=_LIMIT, ca_bundle=trusted)
    except Refused as refused:
        advice = f"run `aws sso login --profile {name}`"
        raise broken(source, str(refused), advice) from None
    decoded = as_json(answer)
    role = decoded.get("roleCredentials") if isinstance(decoded, dict) else None
    return keys_of(role, _NAMES, source)


def _token(cached: str, source: str, advice: str) -> str:
    """Return the token of a sign-on that is still valid."""
    name = hashlib.sha1(cached.encode(), usedforsecurity=False).hexdigest()
    path = os.path.expanduser(f"~/.aws/sso/cache/{name}.json")
    try:
        with open(path, encoding="utf-8") as file:
            cache = as_json(file.read())
    except (OSError, UnicodeDecodeError):
        raise broken(source, "nobody is signed on", advice) from None
    try:
        until = datetime.fromisoformat(cache["expiresAt"].replace("UTC", "Z"))
        token = str(cache["accessToken"])
        is_valid = until.timestamp() > time.time()
    except (AttributeError, KeyError, TypeError, ValueError):
        raise broken(source, f"{path} holds no token", advice) from None
    if not is_valid:
        raise broken(source, f"the sign-on ended at {until:%Y-%m-%d %H:%M %Z}", advice)
    return token
