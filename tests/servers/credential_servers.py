"""Services that give credentials: tokens (STS), sign-on, containers, instances.

One thread answers as all of them, as their documentation describes the requests.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

from servers.object_store import ACCESS_KEY, SECRET_KEY
from servers.web_servers import Handler, WebServer, running

ROLE = "arn:aws:iam::123456789012:role/reader"
TOKEN = "tokenOfTheSession"
STS_FIELDS = """<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<{action}Result><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>{token}</SessionToken><Expiration>{expires}</Expiration>
</Credentials></{action}Result></{action}Response>"""
REFUSAL = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>
<Type>Sender</Type><Code>AccessDenied</Code><Message>secretOfTheService</Message>
</Error></ErrorResponse>"""


class CredentialServer(WebServer):
    """Gives credentials to who asks in the right way, and counts what was asked."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), CredentialHandler)
        self.answered: Counter[str] = Counter()
        self.forms: list[dict[str, str]] = []
        """What the token service was asked."""
        self.seconds_valid = 3600.0
        self.failure: Callable[[str], int | None] = lambda _service: None
        """Status of a failing service, by its name."""

    @property
    def expires(self) -> str:
        """When credentials given now expire."""
        end = time.gmtime(time.time() + self.seconds_valid)
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", end)


class CredentialHandler(Handler):
    """Tells services apart by their paths."""

    def do_PUT(self) -> None:  # noqa: N802
        self.do_GET()

    def do_POST(self) -> None:  # noqa: N802
        self.do_GET()

    def answer(self) -> None:
        server = cast("CredentialServer", self.server)
        parts = urlsplit(self.path)
        length = int(self.headers["Content-Length"] or 0)
        self.sent = self.rfile.read(length).decode()
        service = {
            "/latest/api/token": self.instance_token,
            "/latest/meta-data/iam/security-credentials/": self.instance_roles,
            "/latest/meta-data/iam/security-credentials/node": self.instance_keys,
            "/container": self.container,
            "/federation/credentials": self.sign_on,
            "/": self.tokens,
        }.get(parts.path)
        if service is None:
            self.send(404)
            return
        name = service.__name__
        server.answered[name] += 1
        status = server.failure(name)
        if status is None:
            service(server)
        else:
            self.send(status, REFUSAL)

    def instance_token(self, _: CredentialServer) -> None:
        is_asked = self.headers["X-aws-ec2-metadata-token-ttl-seconds"] is not None
        right = self.command == "PUT" and is_asked
        self.send(*((200, b"session") if right else (400, b"")))

    def instance_roles(self, _: CredentialServer) -> None:
        self.with_session(b"node")

    def instance_keys(self, server: CredentialServer) -> None:
        self.with_session(json.dumps(self.keys(server)).encode())

    def with_session(self, body: bytes) -> None:
        right = self.headers["X-aws-ec2-metadata-token"] == "session"
        self.send(*((200, body) if right else (401, b"")))

    def container(self, server: CredentialServer) -> None:
        if self.headers["Authorization"] != "containerToken":
            self.send(403)
            return
        self.send(200, json.dumps(self.keys(server)).encode())

    def sign_on(self, server: CredentialServer) -> None:
        query = {
            name: one for name, [one] in parse_qs(urlsplit(self.path).query).items()
        }
        right = query == {"role_name": "reader", "account_id": "1234"}
        if not right or self.headers["x-amz-sso_bearer_token"] != "signedOn":
            unknown = {"x-amzn-ErrorType": "UnauthorizedException"}
            self.send(401, b"{}", unknown)
            return
        keys = {
            "accessKeyId": ACCESS_KEY,
            "secretAccessKey": SECRET_KEY,
            "sessionToken": TOKEN,
            "expiration": int((time.time() + server.seconds_valid) * 1000),
        }
        self.send(200, json.dumps({"roleCredentials": keys}).encode())

    def tokens(self, server: CredentialServer) -> None:
        body = self.sent or urlsplit(self.path).query
        form = {name: one for name, [one] in parse_qs(body).items()}
        server.forms.append(form | {"signed": self.headers["Authorization"] or ""})
        fields = {"key": ACCESS_KEY, "secret": SECRET_KEY, "token": TOKEN}
        fields |= {"action": form["Action"], "expires": server.expires}
        self.send(200, STS_FIELDS.format(**fields).encode())

    def keys(self, server: CredentialServer) -> dict[str, str]:
        return {
            "AccessKeyId": ACCESS_KEY,
            "SecretAccessKey": SECRET_KEY,
            "Token": TOKEN,
            "Expiration": server.expires,
        }


@contextmanager
def credential_server() -> Iterator[CredentialServer]:
    """Serve until the end of the context."""
    server = CredentialServer()
    with running(server):
        yield server
