"""Credentials that the machine of a process gives it: its container, its instance."""

from __future__ import annotations

from urllib.parse import urlsplit

from pagefeed.errors import UnavailableError
from pagefeed.remote.credentials.asking import Refused, SilentError, as_json, ask
from pagefeed.remote.credentials.keys import (
    Absent,
    AccessKeys,
    Environment,
    broken,
    keys_of,
)

__all__ = ["container_keys", "instance_keys"]

_LIMIT = 1.0
"""Timeout in seconds: these services answer from close by, or do not exist."""
_ECS = "http://169.254.170.2"
_CONTAINER_HOSTS = (
    *("169.254.170.2", "169.254.170.23", "fd00:ec2::23"),
    *("localhost", "127.0.0.1", "::1"),
)
"""Hosts to which a plain http address may lead; a token must go to no other."""
_INSTANCE = "http://169.254.169.254"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_NAMES = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")


def container_keys(environment: Environment) -> AccessKeys:
    """Return the keys of a container of ECS or a pod of EKS.

    Raises:
        Absent: If no variable names the service.
        AccessDeniedError: If it gives none.
        UnavailableError: If it does not answer.
    """
    relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    full = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if relative:
        full = f"{_ECS}/{relative.lstrip('/')}"
    if not full:
        raise Absent("no service of the container (AWS_CONTAINER_CREDENTIALS_*_URI)")
    source = "the container's service"
    url = urlsplit(full)
    if url.scheme != "https" and url.hostname not in _CONTAINER_HOSTS:
        refusal = f"AWS_CONTAINER_CREDENTIALS_FULL_URI leads to {url.hostname} by http"
        raise broken(source, refusal, "only https may leave this machine")
    try:
        token = _container_token(environment)
    except (OSError, ValueError) as problem:
        raise UnavailableError(f"credentials by {source}: {problem}") from None
    headers = {"Authorization": token} if token else {}
    try:
        answer = ask(full, source, headers=headers, limit=_LIMIT, is_near=True)
    except Refused as refused:
        raise broken(source, str(refused), "see to its settings") from None
    return keys_of(as_json(answer), _NAMES, source)


def _container_token(environment: Environment) -> str | None:
    path = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if not path:
        return environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def instance_keys(environment: Environment) -> AccessKeys:
    """Return the keys of the role of an instance (IMDSv2).

    Raises:
        Absent: If there is no such service, it is turned off, or there is no role.
        UnavailableError: If it is overloaded.
    """
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise Absent("the instance's service is off (AWS_EC2_METADATA_DISABLED)")
    named = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    endpoint = (named or environment.get("AWS_METADATA_ENDPOINT") or _INSTANCE).rstrip(
        "/"
    )
    source = f"the instance's service at {endpoint}"
    try:
        asked = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
        url = f"{endpoint}/latest/api/token"
        token = ask(
            url, source, method="PUT", headers=asked, limit=_LIMIT, is_near=True
        )
        headers = {"X-aws-ec2-metadata-token": token.strip()}
        url = endpoint + _ROLES
        roles = ask(url, source, headers=headers, limit=_LIMIT, is_near=True)
        [role, *_] = [*roles.split(), ""]
        if not role:
            raise Absent(f"{source} knows no role")
        url += role
        answer = ask(url, source, headers=headers, limit=_LIMIT, is_near=True)
    except Refused as refused:
        # 403 where it is turned off, 404 where no role is.
        raise Absent(f"{source} gives none: {refused}") from None
    except SilentError:
        raise Absent(f"{source} does not answer") from None
    return keys_of(as_json(answer), _NAMES, source)
