"""The sources of credentials in their order, as Amazon's own tools ask them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from pagefeed.errors import AccessDeniedError
from pagefeed.remote.credentials.by_botocore import botocore_keys
from pagefeed.remote.credentials.keys import AccessKeys, Environment, KeyService, broken
from pagefeed.remote.credentials.profiles import (
    needs_botocore,
    profile_name,
    read_profile,
)

_KEY_NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_OTHER_SOURCES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Options of buckets alone; as variables they are of Amazon's other services too."""
_CONTAINER = "AWS_CONTAINER_CREDENTIALS_"
_CONTAINER_HOSTS = (
    *("169.254.170.2", "169.254.170.23", "fd00:ec2::23"),
    *("localhost", "127.0.0.1", "::1"),
)
"""Hosts to which a plain http address may lead; a token must go to no other."""


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables, with options replacing those of the same name.

    Variables with keys are left out where an option names keys or another source.

    Example:
        >>> environment({"profile": "lab"})["AWS_PROFILE"]
        'lab'
    """
    names = {name: f"AWS_{name.removeprefix('aws_').upper()}" for name in options}
    given = {
        variable: options[name]
        for name, variable in names.items()
        if variable not in _ENDPOINTS
    }
    around = dict(os.environ)
    if not given.keys().isdisjoint((*_KEY_NAMES, *_OTHER_SOURCES)):
        for name in _KEY_NAMES:
            around.pop(name, None)
    return around | given


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
    key, secret, token = map(env.get, _KEY_NAMES)
    if key and secret:
        return AccessKeys(key, secret, token or None)
    if key or secret:
        missing = _KEY_NAMES[0] if secret else _KEY_NAMES[1]
        advice = "give both in one place: keys in options leave out those of variables"
        raise broken("options and variables", f"{missing} is missing", advice)
    name, profile = profile_name(env), read_profile(env)
    if needs_botocore(profile):
        region = _region(env) or profile.get("region") or "us-east-1"
        env["AWS_DEFAULT_REGION"] = region  # botocore knows no other variable.
        return botocore_keys(f"profile {name!r}", env, name)
    if "aws_access_key_id" in profile:
        key, secret = profile["aws_access_key_id"], profile["aws_secret_access_key"]
        return AccessKeys(key, secret, profile.get("aws_session_token"))
    return _web_identity(env) or _container(env) or _instance(env, name)


def _web_identity(env: Environment) -> KeyService | None:
    file, role = env.get("AWS_WEB_IDENTITY_TOKEN_FILE"), env.get("AWS_ROLE_ARN")
    if not file or not role:
        return None
    region = _region(env)
    settings = {"web_identity_token_file": file, "role_arn": role, "region": region}
    settings["role_session_name"] = env.get("AWS_ROLE_SESSION_NAME") or ""
    settings["endpoint_url_sts"] = env.get("AWS_ENDPOINT_URL_STS") or (
        f"https://sts.{region}.amazonaws.com.cn" if region.startswith("cn-") else ""
    )
    given = [(name, value) for name, value in settings.items() if value]
    return KeyService(f"web identity for {role}", given, is_near=False)


def _container(env: Environment) -> AccessKeys | KeyService | None:
    source = "the container's service"
    if relative := env.get(f"{_CONTAINER}RELATIVE_URI"):
        path = f"/{relative.lstrip('/')}"
        settings = [("container_credentials_relative_uri", path)]
        return KeyService(source, settings, is_near=True)
    full = env.get(f"{_CONTAINER}FULL_URI")
    if not full:
        return None
    url = urlsplit(full)
    if url.scheme != "https" and url.hostname not in _CONTAINER_HOSTS:
        refusal = f"{_CONTAINER}FULL_URI leads to {url.hostname} by http"
        raise broken(source, refusal, "only https may leave this machine")
    token = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if not token:  # object_store asks no service by the token of a variable.
        return botocore_keys(source, env)
    settings = [("container_credentials_full_uri", full)]
    settings.append(("container_authorization_token_file", token))
    return KeyService(source, settings, is_near=True)


def _instance(env: Environment, profile: str) -> KeyService:
    looked_at = (
        "no keys in options or variables (AWS_ACCESS_KEY_ID); none in profile "
        f"{profile!r} of ~/.aws (AWS_PROFILE); no web identity "
        "(AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN); no service of the container "
        f"({_CONTAINER}*_URI)"
    )
    if env.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise AccessDeniedError(
            f"no credentials were found: {looked_at}; the instance's service is off "
            "(AWS_EC2_METADATA_DISABLED). Set up one of these, or for a public bucket "
            'give storage_options={"skip_signature": True} (AWS_SKIP_SIGNATURE=true)'
        )
    named = env.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    endpoint = named or env.get("AWS_METADATA_ENDPOINT") or "http://169.254.169.254"
    endpoint = endpoint.rstrip("/")
    source = f"the instance's service at {endpoint}"
    settings = [("metadata_endpoint", endpoint)]
    return KeyService(source, settings, is_near=True, looked_at=looked_at)


def _region(env: Environment) -> str:
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
