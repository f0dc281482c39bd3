"""Profiles of ``~/.aws/config`` and ``~/.aws/credentials``."""

from __future__ import annotations

import os
from configparser import Error as ConfigError
from configparser import RawConfigParser

from pagefeed.errors import AccessDeniedError
from pagefeed.remote.credentials.keys import Environment

__all__ = ["Profiles", "profile_name", "profile_settings"]

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class Profiles(dict[str, dict[str, str]]):
    """The settings of profiles by name, as both files have them.

    Args:
        environment: Names the files, if they do not lie in ``~/.aws``.

    Raises:
        AccessDeniedError: If a file cannot be read or is not of their format.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__()

        def profile_path(variable: str, usual: str) -> str:
            return os.path.expanduser(environment.get(variable) or f"~/.aws/{usual}")

        self.files = (
            profile_path("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            profile_path("AWS_CONFIG_FILE", "config"),
        )
        """Files with profiles."""
        secrets, config = map(_sections, self.files)
        self._sections = config
        for section, values in config.items():
            kind, _, name = section.partition(" ")
            if kind == "profile" or section == "default":
                self[name.strip().strip('"') or "default"] = dict(values)
        for name, values in secrets.items():
            merged = self.setdefault(name, {})
            if "aws_access_key_id" in values:  # Keys of two files never mix.
                for key in _KEYS:
                    merged.pop(key, None)
            merged.update(values)

    def session(self, name: str) -> dict[str, str]:
        """Return the settings of an SSO session; an empty dict if there is none."""
        return self._sections.get(f"sso-session {name}", {})


def profile_name(environment: Environment) -> str:
    """Return which profile is meant."""
    named = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    return named or "default"


def profile_settings(environment: Environment) -> dict[str, str]:
    """Return ``region`` and ``endpoint_url`` of the selected profile.

    A file that cannot be read raises no error here, since other storage needs no
    profile. The error comes when credentials are asked for.
    """
    try:
        profile = Profiles(environment)[profile_name(environment)]
    except (AccessDeniedError, KeyError):
        return {}
    return {
        name: profile[name] for name in ("region", "endpoint_url") if name in profile
    }


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
