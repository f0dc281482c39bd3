"""Asks botocore for keys: a program, which answers in JSON on its output.

It is a process of its own because botocore asks on a terminal for codes, waits without
end for programs that profiles name, logs answers with secrets, and reads settings from
the environment alone. Here are no terminal and no log, an end, and the settings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError
from botocore.session import Session

_LIMITS = Config(
    connect_timeout=5,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
)


def _found(profile: str | None) -> Mapping[str, object]:
    """Return keys and the time of their expiry, or why there are none."""
    session = Session(profile=profile)
    session.set_default_client_config(_LIMITS)
    credentials = session.get_credentials()
    if credentials is None:
        return _refusal("it names no credentials", "see to ~/.aws/config")
    keys = credentials.get_frozen_credentials()
    # botocore has no public name for the time of expiry.
    until = getattr(credentials, "_expiry_time", None)
    expires = None if until is None else until.timestamp()
    return {"keys": [keys.access_key, keys.secret_key, keys.token or None, expires]}


def _refusal(problem: str, advice: str) -> Mapping[str, object]:
    return {"refused": [problem, advice]}


def _failure(error: Exception, profile: str | None) -> Mapping[str, object]:
    """Return what an error says: no answers of services, no outputs of programs."""
    kind = type(error).__name__
    match error:
        case ClientError():
            return _refused_request(error)
        case ConnectionError() | HTTPClientError():
            endpoint = error.kwargs.get("endpoint_url")
            return {"silent": f"no answer ({kind}, {endpoint})"}
        case ResponseParserError():
            return {"silent": f"no answer that can be read ({kind})"}
        case SSOError() | TokenRetrievalError():
            problem = f"nobody is signed on, or the sign-on ended ({kind})"
            advice = f"run `aws sso login --profile {profile}`"
        case CredentialRetrievalError() | MetadataRetrievalError():
            problem = f"{error.kwargs.get('provider', 'a service')} gives none"
            advice = "try its program or service by hand"
        case EOFError():
            problem = "its role asks for a code (mfa_serial)"
            advice = "take temporary keys (`aws sts assume-role`), or a role without it"
        case BotoCoreError():
            problem, advice = str(error).rstrip("."), "see to ~/.aws/config"
        case _:
            problem, advice = f"botocore fails ({kind})", "see to ~/.aws/config"
    return _refusal(problem, advice)


def _refused_request(error: ClientError) -> Mapping[str, object]:
    code = error.response["Error"].get("Code", "")
    status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
    shown = f"{error.operation_name} is refused ({status} {code})"
    if status == 429 or status >= 500 or "Throttl" in code:
        return {"silent": shown}
    if "too old" in error.response["Error"].get("Message", "").lower():
        return _refusal(shown, "set the clock of this machine, which is wrong")
    return _refusal(shown, "see to the role's trust, and that keys or token are valid")


def _main() -> None:
    profile = sys.argv[1] if sys.argv[1:] else None
    try:
        answer = _found(profile)
    except Exception as error:  # noqa: BLE001
        answer = _failure(error, profile)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()
