"""Credentials of Amazon's S3.

Keys of options and variables are taken as they are. Profiles are read by botocore, and
services of web identity, containers and instances are asked by object_store.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pagefeed.errors import AccessDeniedError, MissingDependencyError, UnavailableError

__all__ = ["AccessKeys", "KeyService", "environment", "find_keys", "profile_settings"]

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_OTHER_SOURCES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Options of buckets alone; as variables they are of Amazon's other services too."""
_SERVICES = (
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"),
    *("AWS_ENDPOINT_URL_STS", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    *("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_METADATA_ENDPOINT"),
)
"""Variables that lead object_store to a service."""
_TOKEN = "AWS_CONTAINER_AUTHORIZATION_TOKEN"  # noqa: S105 - the name of a variable
_FILES = (("CONFIG", "config"), ("SHARED_CREDENTIALS", "credentials"))
_REGION = "us-east-1"
_LIMIT = 60.0
"""Seconds for all that botocore asks."""
_PUBLIC = (
    'For a public bucket, give storage_options={"skip_signature": True} '
    "(AWS_SKIP_SIGNATURE=true)"
)


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


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables, with options replacing those of the same name.

    Variables with keys are left out where an option names keys or another source.

    Example:
        >>> environment({"profile": "lab"})["AWS_PROFILE"]
        'lab'
    """
    names = {name: f"AWS_{name.removeprefix('aws_').upper()}" for name in options}
    given = {names[name]: options[name] for name in options}
    around = {n: value for n, value in os.environ.items() if value}
    if not given.keys().isdisjoint((*_KEYS, *_OTHER_SOURCES)):
        around = {name: around[name] for name in around if name not in _KEYS}
    return around | {n: value for n, value in given.items() if n not in _ENDPOINTS}


def find_keys(options: Mapping[str, str]) -> AccessKeys | KeyService:
    """Return the credentials of the first source that is set up, or what gives them.

    In order: options and variables; a profile of ``~/.aws``; web identity; the
    container's service; the instance's.

    Raises:
        AccessDeniedError: If no source is set up, or the first that is gives none.
        MissingDependencyError: If it needs botocore, which is not installed.
        UnavailableError: If a service of the profile does not answer now.
    """
    env = environment(options)
    key, secret, token = map(env.get, _KEYS)
    if key and secret:
        return AccessKeys(key, secret, token or None)
    if key or secret:
        raise AccessDeniedError(
            f"credentials by options and variables: {_KEYS[0 if secret else 1]} is "
            "missing: give both in one place: keys in options leave out those of "
            "variables"
        )
    named = _profile(env)
    if named or env.get(_TOKEN) or any(map(os.path.isfile, _files(env))):
        source = f"profile {named or 'default'!r}"
        if find_spec("botocore") is not None:
            return _botocore_keys(env, source)
        if named or env.get(_TOKEN):
            raise MissingDependencyError(
                f"credentials by {source} or by a token of the container need botocore:"
                " pip install 'pagefeed[s3]', or give keys by AWS_ACCESS_KEY_ID"
            )
    return _service(env)


def profile_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``region`` and ``endpoint_url`` of the selected profile.

    An address for S3 among its ``services`` comes before that for all services. A file
    that cannot be read raises no error here, since other storage needs no profile. The
    error comes when credentials are asked for.
    """
    files = [file for file in _files(environment) if os.path.isfile(file)]
    if not files or find_spec("botocore") is None:
        return {}
    from botocore.configloader import multi_file_load_config
    from botocore.exceptions import BotoCoreError

    try:
        config = multi_file_load_config(*files)
    except BotoCoreError:
        return {}
    profile = config["profiles"].get(_profile(environment) or "default", {})
    services = config.get("services", {}).get(profile.get("services"), {})
    of_s3 = services.get("s3")
    found = profile | (of_s3 if isinstance(of_s3, dict) else {})
    return {n: found[n] for n in ("region", "endpoint_url") if n in found}


def _profile(env: Mapping[str, str]) -> str | None:
    return env.get("AWS_PROFILE") or env.get("AWS_DEFAULT_PROFILE")


def _files(env: Mapping[str, str]) -> list[str]:
    return [
        os.path.expanduser(env.get(f"AWS_{name}_FILE") or f"~/.aws/{usual}")
        for name, usual in _FILES
    ]


def _botocore_keys(env: Mapping[str, str], source: str) -> AccessKeys:
    """Return keys that botocore finds, in a separate process.

    botocore reads settings from the environment alone, asks on a terminal for codes,
    and waits without end for programs that profiles name.
    """
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    settings = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "AWS_DEFAULT_REGION": region or profile_settings(env).get("region", _REGION),
    }
    program = str(Path(__file__).with_name("botocore_keys.py"))
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", program],
        env={**env, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # It may hold secrets.
        start_new_session=True,  # Without a terminal, botocore asks for no code.
    ) as process:
        try:
            answer, _ = process.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # With what a profile names.
            problem = f"no answer within {_LIMIT:.0f} s"
            raise UnavailableError(f"credentials by {source}: {problem}") from None
    kind, found = json.loads(answer or '["refused", "botocore gives no answer"]')
    if kind == "keys":
        return AccessKeys(*found)
    if kind == "silent":
        raise UnavailableError(f"credentials by {source}: {found}")
    raise AccessDeniedError(
        f"credentials by {source}: {found}: try `aws sts get-caller-identity` with "
        "this profile. A single sign-on begins with `aws sso login`, and a role that "
        f"asks for a code (mfa_serial) needs temporary keys. {_PUBLIC}"
    )


def _service(env: Mapping[str, str]) -> KeyService:
    """Return the service of web identity, of the container or of the instance."""
    settings = [(name.lower(), env[name]) for name in _SERVICES if env.get(name)]
    names = "".join(name for name, _ in settings)
    if "aws_web_identity_token_file" in names and "aws_role_arn" in names:
        role = env["AWS_ROLE_ARN"]
        return KeyService(f"web identity for {role}", settings, is_near=False)
    if "aws_container_credentials_" in names:
        return KeyService("the container's service", settings, is_near=True)
    looked_at = (
        "no keys in options or variables (AWS_ACCESS_KEY_ID); none in a profile of "
        "~/.aws (AWS_PROFILE), which botocore reads (pagefeed[s3]); no web identity "
        "(AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN); no service of the container "
        "(AWS_CONTAINER_CREDENTIALS_*_URI)"
    )
    if env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise AccessDeniedError(
            f"no credentials were found: {looked_at}; the instance's service is off "
            f"(AWS_EC2_METADATA_DISABLED). Set up one of these. {_PUBLIC}"
        )
    named = env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    endpoint = named or env.get("AWS_METADATA_ENDPOINT") or "http://169.254.169.254"
    source = f"the instance's service at {endpoint.rstrip('/')}"
    settings = [("metadata_endpoint", endpoint.rstrip("/"))]
    return KeyService(source, settings, is_near=True, looked_at=looked_at)
