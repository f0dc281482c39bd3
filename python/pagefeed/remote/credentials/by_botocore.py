"""Keys that botocore knows how to get: of profiles, and by tokens of variables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

from pagefeed.errors import MissingDependencyError, UnavailableError
from pagefeed.remote.credentials.keys import AccessKeys, Environment, broken

_PROGRAM = os.path.join(os.path.dirname(__file__), "program.py")
_LIMIT = 60.0
"""Seconds for all that botocore asks: a program of a profile may ask a person."""


def botocore_keys(source: str, environment: Environment, *profile: str) -> AccessKeys:
    """Return keys that botocore finds, in a process of its own.

    Args:
        source: Name of the source, for messages.
        environment: The variables that botocore sees.
        profile: Name of a profile, if it is one.

    Raises:
        AccessDeniedError: If it finds none.
        MissingDependencyError: If it is not installed.
        UnavailableError: If a service does not answer now.
    """
    if find_spec("botocore") is None:
        raise MissingDependencyError(
            f"credentials by {source} need botocore: pip install 'pagefeed[s3]', or "
            "give keys by AWS_ACCESS_KEY_ID"
        )
    answer = _answer(source, [sys.executable, "-P", _PROGRAM, *profile], environment)
    match answer:
        case {"keys": [key, secret, token, expires]}:
            return AccessKeys(key, secret, token, expires)
        case {"silent": problem}:
            raise UnavailableError(f"credentials by {source}: {problem}")
        case {"refused": [problem, advice]}:
            raise broken(source, problem, advice)
    raise broken(source, "botocore gives no answer", "try it with `aws sts`")


def _answer(source: str, command: list[str], environment: Environment) -> object:
    modules = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(  # noqa: S603
        command,
        env={**environment, "PYTHONPATH": modules},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # It may hold secrets.
        start_new_session=True,  # Without a terminal, nobody is asked for a code.
    ) as running:
        try:
            written, _ = running.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            problem = f"no answer within {_LIMIT:.0f} s"
            raise UnavailableError(f"credentials by {source}: {problem}") from None
    try:
        return json.loads(written)
    except ValueError:
        return None
