"""The sources of credentials in their order, as Amazon's own tools ask them."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping

from pagefeed.errors import AccessDeniedError
from pagefeed.remote.credentials.asking import as_json
from pagefeed.remote.credentials.keys import (
    Absent,
    AccessKeys,
    Environment,
    broken,
    keys_of,
)
from pagefeed.remote.credentials.machine import container_keys, instance_keys
from pagefeed.remote.credentials.profiles import Profiles, profile_name
from pagefeed.remote.credentials.sign_on import signed_on_keys
from pagefeed.remote.credentials.tokens import assumed_role, web_identity_role

__all__ = ["environment", "find_keys"]

_KEY_NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_OTHER_SOURCES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
_PROCESS_LIMIT = 60.0
_PROCESS_NAMES = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
_MOST_ROLES = 5


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables, with options replacing those of the same name.

    Variables with keys are left out where an option names keys or another source.

    Example:
        >>> environment({"profile": "lab"})["AWS_PROFILE"]
        'lab'
    """
    names = {name: f"AWS_{name.removeprefix('aws_').upper()}" for name in options}
    given = {variable: options[name] for name, variable in names.items()}
    around = dict(os.environ)
    if not given.keys().isdisjoint((*_KEY_NAMES, *_OTHER_SOURCES)):
        for name in _KEY_NAMES:
            around.pop(name, None)
    return around | given


def find_keys(options: Mapping[str, str]) -> AccessKeys:
    """Return the credentials of the first source that is set up.

    In order: options and variables; a profile of ``~/.aws``; web identity; the
    container's service; the instance's.

    Raises:
        AccessDeniedError: If no source is set up, or the first that is gives none.
        UnavailableError: If its service does not answer now.
    """
    env = environment(options)
    sources: tuple[Callable[[Environment], AccessKeys], ...] = (
        *(_named_keys, _profile_keys, _web_identity_keys),
        *(container_keys, instance_keys),
    )
    looked_at = []
    for source in sources:
        try:
            return source(env)
        except Absent as absent:
            looked_at.append(str(absent))
    raise AccessDeniedError(
        f"no credentials were found: {'; '.join(looked_at)}. Set up one of these, or "
        'for a public bucket give storage_options={"skip_signature": True} '
        "(AWS_SKIP_SIGNATURE=true)"
    )


def _named_keys(env: Environment) -> AccessKeys:
    key, secret, token = map(env.get, _KEY_NAMES)
    if not key and not secret:
        raise Absent("no keys in options or variables (AWS_ACCESS_KEY_ID)")
    if not key or not secret:
        missing = _KEY_NAMES[0] if secret else _KEY_NAMES[1]
        advice = "give both in one place: keys in options leave out those of variables"
        raise broken("options and variables", f"{missing} is missing", advice)
    return AccessKeys(key, secret, token or None)


def _profile_keys(env: Environment) -> AccessKeys:
    profiles, name = Profiles(env), profile_name(env)
    if name not in profiles:
        where = " and ".join(profiles.files)
        if env.get("AWS_PROFILE") or env.get("AWS_DEFAULT_PROFILE"):
            advice = "name one that they have (AWS_PROFILE)"
            raise broken(f"profile {name!r}", f"{where} have none such", advice)
        raise Absent(f"no profile {name!r} in {where}")
    return _keys_of_profile(profiles, name, env, ())


def _keys_of_profile(
    profiles: Profiles, name: str, env: Environment, seen: tuple[str, ...]
) -> AccessKeys:
    profile, source = profiles[name], f"profile {name!r}"
    keys = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")
    # A profile that names itself as the source of its role means its own keys.
    if "role_arn" in profile and not (name in seen and all(keys)):
        if name in seen or len(seen) >= _MOST_ROLES:
            raise broken(
                source, "its source_profile leads back to itself", "correct the profile"
            )
        return _keys_of_role(profiles, name, env, (*seen, name))
    if all(keys):
        return AccessKeys(str(keys[0]), str(keys[1]), profile.get("aws_session_token"))
    if "sso_session" in profile or "sso_start_url" in profile:
        session = profiles.session(profile.get("sso_session", ""))
        return signed_on_keys(profile, name, session, env)
    if "credential_process" in profile:
        return _process_keys(profile["credential_process"], source)
    if not any(keys):
        raise Absent(f"{source} names no credentials")
    raise broken(source, "it has one of key and secret", "give both")


def _keys_of_role(
    profiles: Profiles, name: str, env: Environment, seen: tuple[str, ...]
) -> AccessKeys:
    profile, source = profiles[name], f"profile {name!r}"
    region = _region(env) or profile.get("region", "")
    session = profile.get("role_session_name") or _session_name()
    role = profile["role_arn"]
    if "web_identity_token_file" in profile:
        file = os.path.expanduser(profile["web_identity_token_file"])
        return web_identity_role(role, file, session, region, env)
    if "mfa_serial" in profile:
        advice = "take temporary keys (`aws sts assume-role`), or a role without it"
        raise broken(source, "its role asks for a code (mfa_serial)", advice)
    base = profile.get("source_profile")
    if base is not None and base not in profiles:
        raise broken(
            source, f"there is no source_profile {base!r}", "correct the profile"
        )
    if base is not None:
        keys = _keys_of_profile(profiles, base, env, seen)
    else:
        keys = _keys_of_source(profile.get("credential_source", ""), env, source)
    form = {"RoleArn": role, "RoleSessionName": session}
    if "external_id" in profile:
        form["ExternalId"] = profile["external_id"]
    if "duration_seconds" in profile:
        form["DurationSeconds"] = profile["duration_seconds"]
    return assumed_role(form, keys, region, env)


def _keys_of_source(kind: str, env: Environment, source: str) -> AccessKeys:
    sources: dict[str, Callable[[Environment], AccessKeys]] = {
        "Environment": _named_keys,
        "EcsContainer": container_keys,
        "Ec2InstanceMetadata": instance_keys,
    }
    if kind not in sources:
        problem = (
            "its role_arn has neither source_profile nor a known credential_source"
        )
        raise broken(source, problem, f"give one; sources are {', '.join(sources)}")
    try:
        return sources[kind](env)
    except Absent as absent:
        raise broken(
            source, str(absent), f"credential_source {kind} is not set up"
        ) from None


def _process_keys(command: str, source: str) -> AccessKeys:
    source = f"credential_process of {source}"
    try:
        done = subprocess.run(  # noqa: S603  # The profile names it.
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # It may hold secrets.
            timeout=_PROCESS_LIMIT,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        kind = type(problem).__name__
        raise broken(source, f"it cannot be run ({kind})", "try it by hand") from None
    if done.returncode != 0:
        raise broken(source, f"it ended with {done.returncode}", "try it by hand")
    return keys_of(
        as_json(done.stdout.decode("utf-8", "replace")), _PROCESS_NAMES, source
    )


def _web_identity_keys(env: Environment) -> AccessKeys:
    file, role = env.get("AWS_WEB_IDENTITY_TOKEN_FILE"), env.get("AWS_ROLE_ARN")
    if not file or not role:
        raise Absent("no web identity (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN)")
    session = env.get("AWS_ROLE_SESSION_NAME") or _session_name()
    return web_identity_role(role, file, session, _region(env), env)


def _region(env: Environment) -> str:
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""


def _session_name() -> str:
    return f"pagefeed-{int(time.time())}"
