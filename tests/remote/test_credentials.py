"""Credentials are found where Amazon's tools find them, and renewed before they end."""

import hashlib
import json
import pickle
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import AccessDeniedError, UnavailableError
from pagefeed.remote.credentials import AccessKeys, find_keys
from pagefeed.remote.credentials.tokens import signature
from servers.credential_servers import ROLE, credential_server
from servers.object_store import ACCESS_KEY, SECRET_KEY

STATIC = f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"


@pytest.fixture
def server():
    with credential_server() as server:
        yield server


@pytest.fixture
def aws(monkeypatch, tmp_path, server):
    """A home without credentials, whose services are the tests' own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".aws"
    folder.mkdir()
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
    # A proxy that nobody listens at: what is near must not go there.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    return folder


def written(aws, config="", credentials=""):
    (aws / "config").write_text(config)
    (aws / "credentials").write_text(credentials)


def with_proxy(monkeypatch):
    """Other services than the near ones are reached as the environment says."""
    monkeypatch.delenv("http_proxy")


def without_keys(s3) -> Any:
    return {name: s3.options[name] for name in ("endpoint_url", "region", "allow_http")}


def is_right(keys):
    return keys[:2] == (ACCESS_KEY, SECRET_KEY)


def test_a_profile_reads_a_bucket(aws, s3, monkeypatch):
    endpoint = s3.options["endpoint_url"]
    config = f"[profile lab]\nregion = us-east-1\nendpoint_url = {endpoint}\n"
    written(aws, config, f"[lab]\n{STATIC}")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    with_proxy(monkeypatch)
    half: Any = {"allow_http": True, "access_key_id": ACCESS_KEY}
    data = pf.parquet(s3.base, column="input_ids", storage_options={"allow_http": True})
    assert len(data) == 600
    assert len(list(numbered_loader(data))) > 10
    for held in (pickle.dumps(data), repr(data.storage).encode()):
        assert SECRET_KEY.encode() not in held
    assert pickle.loads(pickle.dumps(data)).storage.read(s3.urls[0], 0, 4) == b"PAR1"
    with pytest.raises(AccessDeniedError, match="AWS_SECRET_ACCESS_KEY is missing"):
        pf.parquet(s3.base, column="input_ids", storage_options=half)
    monkeypatch.delenv("AWS_PROFILE")
    lab: Any = {"allow_http": True, "profile": "lab"}
    assert len(pf.parquet(s3.base, column="input_ids", storage_options=lab)) == 600


def test_files_of_profiles(aws, monkeypatch):
    written(aws, f"[default]\n{STATIC}")
    assert is_right(find_keys({}))
    written(aws, "[default]\nregion = x\n", f"[default]\n{STATIC}")
    assert is_right(find_keys({}))
    # AccessKeys of the credentials file win whole, without a token of the other.
    mixed = "[profile a]\naws_access_key_id = x\naws_session_token = old\n"
    written(aws, mixed, f"[a]\n{STATIC}")
    assert find_keys({"profile": "a"}) == (ACCESS_KEY, SECRET_KEY, None, None)
    # Variables come before the usual profile, and a profile by name before them.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "variable")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    assert find_keys({}).access_key_id == "variable"
    assert is_right(find_keys({"profile": "a"}))
    assert find_keys({"aws_access_key_id": "b", "secret_access_key": "c"})[:2] == (
        *("b", "c"),
    )


def test_a_process_gives_keys(aws):
    answer = {"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY}
    answer["Expiration"] = "2031-01-02T03:04:05Z"
    program = aws / "give.py"
    program.write_text(f"print('''{json.dumps(answer)}''')")
    process = f"[profile p]\ncredential_process = {sys.executable} '{program}'\n"
    written(aws, process)
    keys = find_keys({"profile": "p"})
    assert is_right(keys)
    assert keys.expires == datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    program.write_text("print('hidden'); exit(3)")
    with pytest.raises(AccessDeniedError, match="ended with 3") as caught:
        find_keys({"profile": "p"})
    assert "hidden" not in str(caught.value)
    program.write_text("print('hidden')")
    with pytest.raises(AccessDeniedError, match="has no credentials"):
        find_keys({"profile": "p"})


def test_a_sign_on_gives_keys(aws, monkeypatch):
    with_proxy(monkeypatch)
    role = "sso_account_id = 1234\nsso_role_name = reader\n"
    session = "sso_start_url = https://lab.example/start\nsso_region = eu-west-1\n"
    config = f"[profile s]\nsso_session = lab\n{role}[sso-session lab]\n{session}"
    written(aws, f"{config}[profile old]\n{role}{session}")
    with pytest.raises(AccessDeniedError, match="aws sso login --profile s"):
        find_keys({"profile": "s"})
    cache = aws / "sso" / "cache"
    cache.mkdir(parents=True)

    def sign_on(name, hours):
        until = datetime.now(UTC) + timedelta(hours=hours)
        kept = {"accessToken": "signedOn", "expiresAt": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
        (cache / f"{hashlib.sha1(name).hexdigest()}.json").write_text(json.dumps(kept))

    sign_on(b"lab", 1)
    sign_on(b"https://lab.example/start", 1)
    for name in ("s", "old"):
        keys = find_keys({"profile": name})
        assert is_right(keys)
        assert keys.expires == pytest.approx(time.time() + 3600, abs=60)
    sign_on(b"lab", -1)
    with pytest.raises(AccessDeniedError, match="the sign-on ended at"):
        find_keys({"profile": "s"})


def test_roles_are_assumed(aws, server, monkeypatch):
    with_proxy(monkeypatch)
    role = f"role_arn = {ROLE}\nrole_session_name = night\n"
    config = f"[profile r]\n{role}source_profile = base\nexternal_id = x\n"
    config += f"[profile twice]\n{role}source_profile = r\n"
    config += f"[profile circle]\n{role}source_profile = circle\n"
    config += f"[profile own]\n{role}source_profile = own\n{STATIC}"
    config += f"[profile code]\n{role}source_profile = base\nmfa_serial = y\n"
    config += f"[profile none]\n{role}credential_source = Elsewhere\n"
    written(aws, config, f"[base]\n{STATIC}")
    for name, count in (("r", 1), ("twice", 2), ("own", 1)):
        server.forms.clear()
        assert is_right(find_keys({"profile": name, "region": "eu-west-1"}))
        assert len(server.forms) == count
        form = server.forms[-1]
        assert (form["Action"], form["RoleArn"]) == ("AssumeRole", ROLE)
        assert form["RoleSessionName"] == "night"
        assert f"Credential={ACCESS_KEY}/" in form["signed"]
        assert "/eu-west-1/sts/aws4_request" in form["signed"]
    assert [form.get("ExternalId") for form in server.forms] == [None]
    for name, words in (
        *(("circle", "circle"), ("code", "mfa_serial"), ("none", "EcsContainer")),
    ):
        with pytest.raises(AccessDeniedError, match=words):
            find_keys({"profile": name})


def test_requests_are_signed_as_the_standard_shows():
    keys = AccessKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
    when = datetime(2015, 8, 30, 12, 36, tzinfo=UTC).timestamp()
    made = signature(
        url, headers, b"", keys, "us-east-1", "iam", method="GET", now=when
    )
    assert made["Authorization"].endswith(
        "SignedHeaders=content-type;host;x-amz-date, Signature="
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def test_web_identity(aws, server, monkeypatch):
    with_proxy(monkeypatch)
    token = aws / "token"
    token.write_text("first\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    assert is_right(find_keys({}))
    token.write_text("second")
    find_keys({})
    assert [form["WebIdentityToken"] for form in server.forms] == ["first", "second"]
    assert server.forms[0]["Action"] == "AssumeRoleWithWebIdentity"
    assert not server.forms[0]["signed"]
    server.failure = lambda _: 403
    with pytest.raises(AccessDeniedError, match="403 AccessDenied") as caught:
        find_keys({})
    assert "secretOfTheService" not in str(caught.value)
    server.failure = lambda _: 503
    with pytest.raises(UnavailableError, match="503"):
        find_keys({})
    token.unlink()
    with pytest.raises(AccessDeniedError, match="token cannot be read"):
        find_keys({})


@pytest.mark.usefixtures("aws")
def test_containers(server, monkeypatch, tmp_path):
    name = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    monkeypatch.setenv(name, f"{server.url}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "containerToken")
    assert is_right(find_keys({}))
    (tmp_path / "token").write_text("containerToken")
    monkeypatch.delenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", f"{tmp_path}/token")
    assert is_right(find_keys({}))
    monkeypatch.setenv(name, "http://elsewhere.example/container")
    with pytest.raises(AccessDeniedError, match="only https may leave this machine"):
        find_keys({})
    monkeypatch.setenv(name, "http://127.0.0.1:1/container")
    with pytest.raises(UnavailableError, match="container's service"):
        find_keys({})


def test_instances(aws, server, monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    assert is_right(find_keys({}))
    left = [1]

    def busy(service):
        left[0] -= 1
        return 503 if left[0] >= 0 and service == "instance_token" else None

    server.failure = busy
    assert is_right(find_keys({}))
    for status in (403, 404):  # Turned off, or without a role.
        server.failure = lambda _, status=status: status
        with pytest.raises(AccessDeniedError, match=f"gives none: it answers {status}"):
            find_keys({})
    server.failure = lambda _: 503
    with pytest.raises(UnavailableError, match="503"):
        find_keys({})
    written(aws, f"[profile n]\nrole_arn = {ROLE}\ncredential_source = Environment\n")
    with pytest.raises(AccessDeniedError, match="credential_source Environment"):
        find_keys({"profile": "n"})


@pytest.mark.usefixtures("aws")
def test_what_was_looked_at_is_told_soon(s3, server, monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with_proxy(monkeypatch)

    def silent(_handler):
        time.sleep(60)
        return False

    server.fault = silent  # A limit of one second; more for a busy machine.
    options = without_keys(s3)
    begin = time.monotonic()
    with pytest.raises(AccessDeniedError, match="skip_signature") as caught:
        pf.parquet(s3.base, column="input_ids", storage_options=options)
    assert time.monotonic() - begin < 20
    for looked_at in (
        *("AWS_ACCESS_KEY_ID", "'default'", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        *("AWS_CONTAINER_CREDENTIALS", server.url),
    ):
        assert looked_at in str(caught.value)


@pytest.mark.usefixtures("aws")
def test_broken_files_are_named_without_their_lines(aws):
    (aws / "credentials").write_text("hidden line\n")
    with pytest.raises(AccessDeniedError, match=r"\.aws/credentials") as caught:
        find_keys({})
    assert "hidden" not in str(caught.value)
    written(aws, "[default]\nregion = x\n")
    with pytest.raises(AccessDeniedError, match="'nobody'"):
        find_keys({"profile": "nobody"})


def test_keys_are_renewed_before_they_end(aws, s3, server, monkeypatch):
    """AccessKeys that end in a while are asked for once; those that end soon, again."""
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with_proxy(monkeypatch)
    assert aws.is_dir()
    options = without_keys(s3)
    data = pf.parquet(s3.base, column="input_ids", storage_options=options)
    for _ in range(5):
        data.storage.read(s3.urls[0], 0, 4)
    assert server.answered["instance_keys"] == 1
