"""Settings of remote storage: arguments first, then the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from pagefeed.caches import check_owned
from pagefeed.core._base import parse_bytes
from pagefeed.core.storage import local_path
from pagefeed.errors import InvalidArgumentError
from pagefeed.remote.credentials import environment, find_keys, profile_settings


class StorageOptions(TypedDict, total=False):
    """Settings of remote storage: those of pagefeed, and common ones of providers.

    The environment gives what is left out, see ``docs/explanation/remote.md``.
    Providers know further names. Pass them through a type checker with a ``cast``.
    """

    deadline: float | str
    """Seconds without a further byte until a read that fails is an error."""
    max_wait: float | str
    """Seconds to wait, in all, where a server asks to wait longer than that."""
    timeout: float | str
    """Seconds of silence after which a request is sent again."""
    max_in_flight: int | str
    """Most requests at a time."""
    storage_cache: int | str
    """Size of the disk cache, such as ``"200GB"``."""
    storage_cache_dir: str
    """Folder of the disk cache."""
    allow_http: bool | str
    """Send credentials over ``http://`` too."""
    ca_bundle: str
    """File with certificates to trust in addition to the system's."""
    endpoint_url: str
    """Address of the storage, instead of the provider's."""
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str
    profile: str
    """Profile in ``~/.aws``, instead of ``AWS_PROFILE``."""
    key: str
    """Another name for ``access_key_id``."""
    secret: str
    """Another name for ``secret_access_key``."""
    skip_signature: bool | str
    """Send requests without credentials."""
    anon: bool | str
    """Another name for ``skip_signature``."""
    account_name: str
    account_key: str
    sas_token: str
    service_account: str
    authorization: str
    """Value of that header for web servers."""
    hf_token: str
    token: str
    """Another name for ``hf_token``; together with ``key``, for ``session_token``."""
    hf_endpoint: str


_MOST_IN_FLIGHT = 4096  # No server answers more: each takes a thread of the loader.
_LEAST_CACHE = 16 << 10  # A smaller cache holds no page.
_LONGEST = 1e9
_ALIASES = {
    "anon": "skip_signature",
    "key": "access_key_id",
    "secret": "secret_access_key",
}
"""Names that Python's file systems use for the same settings."""
_GENERAL = (
    *("allow_http", "authorization", "deadline", "hf_endpoint", "hf_token"),
    *("max_in_flight", "max_wait", "storage_cache", "storage_cache_dir", "timeout"),
    "ca_bundle",
)
"""Settings that are not of one provider of buckets."""
_PROVIDERS = ("aws_", "google_", "azure_")


def options_as_texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Return options as texts, under the names that pagefeed uses.

    Raises:
        InvalidArgumentError: If they are not a dict, or a value is neither text, nor a
            number, nor a flag.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidArgumentError(
            "storage_options must be a dict such as {'region': 'eu-west-1'}, "
            f"found {type(options).__name__}"
        )
    texts = {}
    names = {str(name).lower() for name in options}
    has_key = not names.isdisjoint(("key", "access_key_id", "aws_access_key_id"))
    aliases = _ALIASES | {"token": "session_token" if has_key else "hf_token"}
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise InvalidArgumentError(
                f"storage_options[{name!r}] must be text, a number, True or False, "
                f"found {type(value).__name__}"
            )
        own_name = aliases.get(name.lower(), name.lower())
        if _WITH_USER.match(str(value)):
            raise InvalidArgumentError(
                f"storage_options[{name!r}] is an address with a user or a password, "
                "which would be in pickles: leave them out, and give credentials by "
                "their own options"
            )
        texts[own_name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def is_public(name: str) -> bool:
    """Return whether an option is not secret, so that it may be pickled.

    Example:
        >>> is_public("aws_region"), is_public("azure_storage_connection_string")
        (True, False)
    """
    return _PREFIX.sub("", name.lower()) in _PUBLIC


def known_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of another library that pagefeed knows, in lower case.

    Example:
        >>> known_options({"AWS_REGION": "a", "timeout_of_pools": "3s"})
        {'aws_region': 'a'}
    """
    known = StorageOptions.__annotations__
    lower = {name.lower(): options[name] for name in options}
    return {name: lower[name] for name in lower if _PREFIX.sub("", name) in known}


_PREFIX = re.compile("^(aws|google|azure_storage|azure)_")
_PUBLIC = {
    *("allow_http", "ca_bundle", "deadline", "hf_endpoint", "max_in_flight"),
    *("max_wait", "storage_cache", "storage_cache_dir", "timeout"),
    *("base_url", "default_region", "endpoint", "endpoint_url", "endpoint_url_s3"),
    *("endpoint_url_sts", "imdsv1_fallback", "profile", "region", "request_payer"),
    *("skip_signature", "unsigned_payload", "use_emulator", "use_fabric_endpoint"),
    *("use_azure_cli", "virtual_hosted_style_request", "s3_express", "checksum"),
    *("checksum_algorithm", "conditional_put", "copy_if_not_exists"),
    *("disable_bulk_delete", "disable_tagging", "server_side_encryption"),
}
"""Settings that may travel to other processes; unknown names may be secrets."""
_WITH_USER = re.compile(r"\s*\w+://[^/?#]*@")


def library_options(options: Mapping[str, object] | None) -> dict[str, str]:
    """Return the settings that other libraries know too: where buckets are, and keys.

    Example:
        >>> library_options({"key": "a", "allow_http": True, "deadline": 9})
        {'access_key_id': 'a', 'allow_http': 'true'}
    """
    own = {*_GENERAL} - {"allow_http"}
    texts = options_as_texts(options)
    return {name: value for name, value in texts.items() if name not in own}


def core_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that the data plane takes.

    Names of a provider's settings are checked when a bucket of it is used.

    Raises:
        InvalidArgumentError: If a value cannot be right.
    """
    deadline = _seconds(options, "deadline", 60.0)
    allows = [options.get(name) for name in ("allow_http", "aws_allow_http")]
    allow_http = next((_flag(value) for value in allows if value is not None), None)
    if allow_http is None:
        allow_http = _TRUTH.get(os.environ.get("AWS_ALLOW_HTTP", "").lower(), False)
    endpoint = options.get("hf_endpoint") or os.environ.get("HF_ENDPOINT")
    amazon, google, azure = (_of_provider(options, provider) for provider in _PROVIDERS)
    bundle = options.get("ca_bundle") or os.environ.get("AWS_CA_BUNDLE")
    return {
        "deadline": timedelta(seconds=deadline),
        "timeout": timedelta(seconds=min(_seconds(options, "timeout", 15.0), deadline)),
        "max_wait": timedelta(seconds=_seconds(options, "max_wait", 600.0)),
        "max_in_flight": _in_flight(options),
        "cache": _cache(options),
        "allow_http": allow_http,
        "ca_bundle": local_path(bundle, "ca_bundle") if bundle else None,
        "authorization": options.get("authorization"),
        "hub_endpoint": (endpoint or "https://huggingface.co").rstrip("/"),
        "hub_token": _hub_token(options),
        "providers": [_with_profile(amazon), list(google.items()), list(azure.items())],
        "keys": partial(find_keys, amazon | ({"ca_bundle": bundle} if bundle else {})),
    }


def _with_profile(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return settings for Amazon's buckets; a profile fills those that are missing."""
    env = environment(options)
    settings = profile_settings(env)
    for name, variables in _VARIABLES.items():
        if any(map(env.get, variables)):  # One that is empty says nothing.
            settings.pop(name, None)
    given = {name: options[name] for name in options if name not in _PROFILE}
    return list((settings | given).items())


_PROFILE = ("profile", "aws_profile")
_VARIABLES = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "endpoint_url": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
}
"""Environment variables that take precedence over a profile."""


def _of_provider(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    others = tuple({*_PROVIDERS, "hf_"} - {prefix})
    address = _ADDRESSES.get(prefix)
    named = {"endpoint_url", f"{prefix}endpoint_url"} if address else set()
    return {
        address if address and name in named else name: value
        for name, value in sorted(options.items(), reverse=True)
        if name not in _GENERAL and not name.startswith(others)
    }


_ADDRESSES = {"google_": "google_base_url", "azure_": "azure_storage_endpoint"}
"""Names that object_store gives to ``endpoint_url`` for other providers."""


_TRUTH = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def _flag(value: str) -> bool:
    try:
        return _TRUTH[value.lower()]
    except KeyError:
        raise _wrong("allow_http", value, "true or false") from None


def _seconds(options: Mapping[str, str], name: str, usual: float) -> float:
    value = options.get(name, usual)
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= _LONGEST:
        raise _wrong(name, value, "seconds, above 0")
    return seconds


def _in_flight(options: Mapping[str, str]) -> int:
    value = options.get("max_in_flight", "128")
    if not value.isdecimal() or int(value) == 0:
        raise _wrong("max_in_flight", value, "a whole number above 0")
    if int(value) > _MOST_IN_FLIGHT:
        raise _wrong("max_in_flight", value, f"at most {_MOST_IN_FLIGHT}: give fewer")
    return int(value)


def _cache(options: Mapping[str, str]) -> tuple[str, int] | None:
    if "storage_cache" not in options:
        return None
    size = parse_bytes(options["storage_cache"], name="storage_cache")
    if size < _LEAST_CACHE:
        raise InvalidArgumentError(
            f"storage_cache={size} is {size} bytes, which holds no page: give some "
            'gigabytes, such as "200GB"'
        )
    folder = options.get("storage_cache_dir") or os.environ.get("PAGEFEED_CACHE_DIR")
    if not folder:
        raise InvalidArgumentError(
            "storage_cache needs a folder on a local disk: give storage_cache_dir, or "
            "set PAGEFEED_CACHE_DIR"
        )
    path = local_path(folder, "storage_cache_dir")
    check_owned(*(Path(path) / inside for inside in ("", "pages-1")))
    return path, size


def _hub_token(options: Mapping[str, str]) -> str | None:
    """Return the hub's token: given, of the environment, or left by a login."""
    token = options.get("hf_token", os.environ.get("HF_TOKEN") or None)
    if token is None:
        home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
        try:
            with open(os.path.expanduser(f"{home}/token"), encoding="utf-8") as file:
                token = file.read()
        except (OSError, UnicodeDecodeError):
            return None
    return token.strip() or None


def _wrong(name: str, value: object, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"storage_options[{name!r}]={value!r} must be {expected}"
    )
