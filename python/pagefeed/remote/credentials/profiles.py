"""The selected profile of ``~/.aws/config`` and ``~/.aws/credentials``.

What stands in these files as it is needs no extra: keys, region and endpoint. A profile
that says how to get keys is for botocore.
"""

from __future__ import annotations

import os
from configparser import Error as ConfigError
from configparser import RawConfigParser

from pagefeed.errors import AccessDeniedError
from pagefeed.remote.credentials.keys import Environment, broken

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_WAYS = ("role_arn", "credential_process", "login_session")


def profile_name(environment: Environment) -> str:
    """Return which profile is meant."""
    return _named(environment) or "default"


def read_profile(environment: Environment) -> dict[str, str]:
    """Return the settings of the selected profile; none if no profile is selected.

    Raises:
        AccessDeniedError: If a file cannot be read or is not of their format, or has
            no profile of this name.
    """
    name, found = profile_name(environment), dict[str, str]()
    files, is_there = [], False
    for variable, usual in (
        ("AWS_CONFIG_FILE", "~/.aws/config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ):
        path = os.path.expanduser(environment.get(variable) or usual)
        for section, values in _sections(path).items():
            if name in {section, section.removeprefix("profile ").strip(' "')}:
                is_there = True
                if _KEYS[0] in values:  # Keys of two files never mix.
                    found = {k: v for k, v in found.items() if k not in _KEYS}
                found |= values
        files.append(path)
    if not is_there and _named(environment):
        missing = f"{' and '.join(files)} have none such"
        raise broken(f"profile {name!r}", missing, "name one that they have")
    return found


def needs_botocore(profile: dict[str, str]) -> bool:
    """Return whether a profile says how to get keys, or has not all of them."""
    has_one = (_KEYS[0] in profile) != (_KEYS[1] in profile)
    has_way = any(name in _WAYS or name.startswith("sso_") for name in profile)
    return has_one or has_way


def profile_settings(environment: Environment) -> dict[str, str]:
    """Return ``region`` and ``endpoint_url`` of the selected profile.

    A file that cannot be read raises no error here, since other storage needs no
    profile. The error comes when credentials are asked for.
    """
    try:
        profile = read_profile(environment)
    except AccessDeniedError:
        return {}
    return {
        name: profile[name] for name in ("region", "endpoint_url") if name in profile
    }


def _named(environment: Environment) -> str | None:
    named = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    return named or None


def _sections(path: str) -> dict[str, dict[str, str]]:
    parser = RawConfigParser(strict=False, default_section="\0", allow_no_value=True)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, ConfigError) as problem:
        # A parser's message shows lines, which may hold secrets.
        raise AccessDeniedError(
            f"{path} cannot be read as profiles of AWS ({type(problem).__name__}): "
            "correct it, or name another one in AWS_CONFIG_FILE, "
            "AWS_SHARED_CREDENTIALS_FILE"
        ) from None
    return {
        section: {name: value for name, value in parser[section].items() if value}
        for section in parser.sections()
    }
