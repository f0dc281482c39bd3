"""Credentials are found where Amazon's tools find them, and renewed before they end."""

import hashlib
import json
import logging
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import (
    AccessDeniedError,
    MissingDependencyError,
    UnavailableError,
)
from pagefeed.remote import RemoteStorage, credentials
from pagefeed.remote.credentials import find_keys
from servers.credential_servers import ROLE, TOKEN, credential_server
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
    return folder


@pytest.fixture
def proxy(monkeypatch, s3):
    """A proxy that nobody listens at: what is near must not go there."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "localhost")
    endpoint = s3.options["endpoint_url"].replace("127.0.0.1", "localhost")
    monkeypatch.setitem(s3.options, "endpoint_url", endpoint)


def written(aws, config="", credentials=""):
    (aws / "config").write_text(config)
    (aws / "credentials").write_text(credentials)


def without_keys(s3, **others) -> Any:
    kept = ("endpoint_url", "region", "allow_http")
    return {name: s3.options[name] for name in kept} | others


def read(s3, **others):
    storage = RemoteStorage(without_keys(s3, **others))
    assert storage.read(s3.urls[0], 0, 4) == b"PAR1"


def is_right(keys):
    return keys[:2] == (ACCESS_KEY, SECRET_KEY)


def test_a_profile_reads_a_bucket(aws, s3, monkeypatch):
    endpoint = s3.options["endpoint_url"]
    config = f"[profile lab]\nregion = us-east-1\nendpoint_url = {endpoint}\n"
    written(aws, config, f"[lab]\n{STATIC}")
    monkeypatch.setenv("AWS_PROFILE", "lab")
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


def test_the_address_of_a_profile_may_be_that_of_its_services(aws, s3, monkeypatch):
    """Which comes before the profile's own; empty variables say nothing."""
    nowhere, endpoint = "http://127.0.0.1:1", s3.options["endpoint_url"]
    services = f"[services lab]\nec2 =\n  endpoint_url = {nowhere}\n"
    services += f"s3 =\n  endpoint_url = {endpoint}\n"
    lab = f"[default]\nservices = lab\nendpoint_url = {nowhere}\nregion = us-east-1\n"
    written(aws, lab + services, f"[default]\n{STATIC}")
    empty = ["REGION", "DEFAULT_REGION", "ENDPOINT_URL", "ENDPOINT_URL_S3", "PROFILE"]
    empty += ["SESSION_TOKEN", "CA_BUNDLE", "SKIP_SIGNATURE", "CHECKSUM_ALGORITHM"]
    for variable in empty:
        monkeypatch.setenv(f"AWS_{variable}", "")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert RemoteStorage({}).read(s3.urls[0], 0, 4) == b"PAR1"
    written(aws, "", f"[default]\n{STATIC}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert RemoteStorage({}).read(s3.urls[0], 0, 4) == b"PAR1"


def test_files_of_profiles(aws, monkeypatch):
    written(aws, f"[default]\n{STATIC}")
    assert is_right(find_keys({}))
    # Keys of the credentials file win whole, without a token of the other.
    mixed = "[profile a b]\naws_access_key_id = x\naws_session_token = old\n"
    written(aws, mixed.replace("a b", '"a b"'), f"[a b]\n{STATIC}")
    assert find_keys({"profile": "a b"}) == (ACCESS_KEY, SECRET_KEY, None, None)
    # Variables come before the usual profile, and a profile by name before them.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "variable")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    assert find_keys({})[0] == "variable"
    assert is_right(find_keys({"profile": "a b"}))
    assert find_keys({"aws_access_key_id": "b", "secret_access_key": "c"})[:2] == (
        *("b", "c"),
    )


def test_a_profile_without_botocore_says_what_to_install(aws, s3, monkeypatch):
    monkeypatch.setattr(credentials, "find_spec", lambda _: None)
    written(aws, "[default]\nregion = us-east-1\n")
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    read(s3)  # By the instance's service.
    with pytest.raises(MissingDependencyError, match=r"'default' .*'pagefeed\[s3\]'"):
        read(s3, profile="default")
    read(s3, access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY)


def test_a_process_gives_keys(aws, monkeypatch):
    answer = {"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY}
    answer["Expiration"] = "2031-01-02T03:04:05Z"
    program = aws / "give.py"
    program.write_text(f"print('''{json.dumps(answer)}''')")
    process = f"[profile p]\ncredential_process = {sys.executable} '{program}'\n"
    written(aws, process)
    keys = find_keys({"profile": "p"})
    assert is_right(keys)
    assert keys[3] == datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    for wrong in ("print('hidden'); exit('hidden')", "print('hidden')", "nonsense"):
        program.write_text(wrong)
        with pytest.raises(AccessDeniedError, match="by profile 'p'") as caught:
            find_keys({"profile": "p"})
        assert "hidden" not in str(caught.value)
    begun = aws / "begun"
    program.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(begun)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(9999)"
    )
    monkeypatch.setattr(credentials, "_LIMIT", 5.0)
    with pytest.raises(UnavailableError, match="no answer within 5 s"):
        find_keys({"profile": "p"})
    state = Path(f"/proc/{begun.read_text()}/stat")
    until = time.monotonic() + 10
    while state.exists() and ") Z " not in state.read_text():
        assert time.monotonic() < until, "the program still runs"


def test_a_sign_on_gives_keys(aws):
    role = "sso_account_id = 1234\nsso_role_name = reader\n"
    session = "sso_start_url = https://lab.example/start\nsso_region = eu-west-1\n"
    config = f"[profile s]\nsso_session = lab\n{role}[sso-session lab]\n{session}"
    written(aws, f"{config}[profile old]\n{role}{session}")
    with pytest.raises(AccessDeniedError, match="aws sso login"):
        find_keys({"profile": "s"})
    cache = aws / "sso" / "cache"
    cache.mkdir(parents=True)

    def sign_on(name, hours, token="signedOn"):
        until = datetime.now(UTC) + timedelta(hours=hours)
        kept = {"accessToken": token, "expiresAt": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
        (cache / f"{hashlib.sha1(name).hexdigest()}.json").write_text(json.dumps(kept))

    sign_on(b"lab", 1)
    sign_on(b"https://lab.example/start", 1)
    for name in ("s", "old"):
        keys = find_keys({"profile": name})
        assert is_right(keys)
        assert keys[3] == pytest.approx(time.time() + 3600, abs=60)
    sign_on(b"lab", -1)
    sign_on(b"https://lab.example/start", 1, "nobody")
    for name in ("s", "old"):
        with pytest.raises(AccessDeniedError, match=f"{name!r}.*sso login"):
            find_keys({"profile": name})


def test_roles_are_assumed(aws, server):
    role = f"role_arn = {ROLE}\nrole_session_name = night\n"
    config = f"[profile r]\n{role}source_profile = base\nexternal_id = xy\n"
    config += f"[profile twice]\n{role}source_profile = r\n"
    config += f"[profile own]\n{role}source_profile = own\n{STATIC}"
    written(aws, config, f"[base]\n{STATIC}")
    for name, count in (("r", 1), ("twice", 2), ("own", 1)):
        server.forms.clear()
        elsewhere = {"endpoint_url": "http://127.0.0.1:1"}  # Of buckets alone.
        keys = find_keys({"profile": name, "region": "eu-west-1"} | elsewhere)
        assert is_right(keys)
        assert keys[3] == pytest.approx(time.time() + 3600, abs=60)
        assert len(server.forms) == count
        form = server.forms[-1]
        assert (form["Action"], form["RoleArn"]) == ("AssumeRole", ROLE)
        assert form["RoleSessionName"] == "night"
        assert f"Credential={ACCESS_KEY}/" in form["signed"]
        assert "/eu-west-1/sts/aws4_request" in form["signed"]
    server.failure = lambda _: 403
    with pytest.raises(AccessDeniedError, match="403 AccessDenied") as caught:
        find_keys({"profile": "r"})
    assert "secretOfTheService" not in str(caught.value)
    server.failure = lambda _: 503
    with pytest.raises(UnavailableError, match="503"):
        find_keys({"profile": "r", "endpoint_url_sts": server.url})
    with pytest.raises(UnavailableError, match="no answer"):
        find_keys({"profile": "r", "endpoint_url_sts": "http://127.0.0.1:1"})


def test_profiles_of_roles_that_cannot_work_say_why(aws):
    role = f"role_arn = {ROLE}\n"
    config = f"[profile circle]\n{role}source_profile = circle\n"
    config += f"[profile code]\n{role}source_profile = base\nmfa_serial = y\n"
    config += f"[profile none]\n{role}credential_source = Elsewhere\n"
    config += f"[profile bare]\n{role}credential_source = Environment\n"
    written(aws, config, f"[base]\n{STATIC}")
    for name, words in (
        *(("circle", "circle"), ("code", "mfa_serial"), ("none", "Elsewhere")),
        *(("bare", "Environment"), ("nobody", "'nobody'")),
    ):
        with pytest.raises(AccessDeniedError, match=words):
            find_keys({"profile": name})


def test_web_identity(aws, s3, server, monkeypatch):
    token = aws / "token"
    token.write_text("first")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    read(s3)
    token.write_text("second")
    read(s3)
    assert [form["WebIdentityToken"] for form in server.forms] == ["first", "second"]
    assert server.forms[0]["Action"] == "AssumeRoleWithWebIdentity"
    assert not server.forms[0]["signed"]
    server.failure = lambda _: 403
    with pytest.raises(AccessDeniedError, match="403 AccessDenied") as caught:
        read(s3)
    assert "secretOfTheService" not in str(caught.value)
    assert "second" not in str(caught.value)
    server.failure = lambda _: 503
    with pytest.raises(UnavailableError, match="503"):
        read(s3, deadline=1)
    token.unlink()
    with pytest.raises(AccessDeniedError, match=f"token file '{token}'"):
        read(s3)


@pytest.mark.usefixtures("aws", "proxy")
def test_containers(s3, server, monkeypatch, tmp_path):
    name = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    monkeypatch.setenv(name, f"{server.url}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "containerToken")
    assert find_keys({})[:3] == (ACCESS_KEY, SECRET_KEY, TOKEN)
    (tmp_path / "token").write_text("containerToken")
    monkeypatch.delenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", f"{tmp_path}/token")
    read(s3)
    (tmp_path / "token").write_text("of another")
    with pytest.raises(AccessDeniedError, match="container's service: it answers 403"):
        read(s3)
    monkeypatch.setenv(name, "http://127.0.0.1:1/container")
    with pytest.raises(UnavailableError, match="container's service"):
        read(s3, deadline=1)


@pytest.mark.usefixtures("aws", "proxy")
def test_instances(s3, server, monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    read(s3)
    left = [1]

    def busy(service):
        left[0] -= 1
        return 503 if left[0] >= 0 and service == "instance_token" else None

    server.failure = busy
    read(s3)
    for status in (403, 404):  # Turned off, or without a role.
        server.failure = lambda _, status=status: status
        with pytest.raises(AccessDeniedError, match=f"answers {status}.*skip_signa"):
            read(s3)
    server.failure = lambda _: 503
    with pytest.raises(UnavailableError, match="503"):
        read(s3, deadline=1)


@pytest.mark.usefixtures("aws", "proxy")
def test_what_was_looked_at_is_told_soon(s3, server, monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")

    def silent(_handler):
        time.sleep(60)
        return False

    server.fault = silent  # A limit of one second; more for a busy machine.
    begin = time.monotonic()
    with pytest.raises(AccessDeniedError, match="skip_signature") as caught:
        read(s3)
    assert time.monotonic() - begin < 20
    looked_at = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
    for where in (*looked_at, "AWS_CONTAINER_CREDENTIALS", server.url):
        assert where in str(caught.value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AccessDeniedError, match="AWS_EC2_METADATA_DISABLED"):
        read(s3)


@pytest.mark.usefixtures("aws")
def test_broken_files_are_named_without_their_lines(aws):
    (aws / "credentials").write_text("hidden line\n")
    with pytest.raises(AccessDeniedError, match=r"\.aws/credentials") as caught:
        find_keys({})
    assert "hidden" not in str(caught.value)


@pytest.mark.usefixtures("aws")
def test_keys_are_renewed_before_they_end(s3, server, monkeypatch):
    """Keys that end in a while are asked for once; those that end soon, again."""
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    data = pf.parquet(s3.base, column="input_ids", storage_options=without_keys(s3))
    for _ in range(5):
        data.storage.read(s3.urls[0], 0, 4)
    assert server.answered["instance_keys"] == 1
    server.seconds_valid = 100.0
    data = pf.parquet(s3.base, column="input_ids", storage_options=without_keys(s3))
    time.sleep(0.2)
    data.storage.read(s3.urls[0], 0, 4)
    assert server.answered["instance_keys"] > 2
    server.failure = lambda _: 503  # What is left of the old ones is used.
    time.sleep(0.2)
    data.storage.read(s3.urls[0], 0, 4)


def test_one_asks_for_all_threads_and_logs_nothing(aws, s3, server, caplog):
    caplog.set_level(logging.DEBUG)
    role = f"[profile r]\nrole_arn = {ROLE}\nsource_profile = base\n"
    written(aws, role, f"[base]\n{STATIC}")
    storage = RemoteStorage(without_keys(s3, profile="r"))
    with ThreadPoolExecutor(8) as threads:
        reads = threads.map(lambda _: storage.read(s3.urls[0], 0, 4), range(16))
        assert {*reads} == {b"PAR1"}
    assert len(server.forms) == 1
    assert SECRET_KEY not in caplog.text + repr(storage)
    assert TOKEN not in caplog.text
