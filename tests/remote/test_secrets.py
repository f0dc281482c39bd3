"""Secrets are sent where they belong, and shown nowhere."""

import logging
import pickle
from typing import cast

import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.cli import main
from pagefeed.core._base import logger
from pagefeed.core.storage import located_exactly
from pagefeed.errors import (
    AccessDeniedError,
    IndexWarning,
    InvalidArgumentError,
    PagefeedError,
)
from pagefeed.remote import RemoteStorage, StorageOptions
from servers.object_store import ACCESS_KEY, SECRET_KEY
from servers.web_servers import Handler, WebServer, running

_OPEN: StorageOptions = {"allow_http": True}


def test_secrets_are_in_nothing_that_is_kept_or_shown(s3, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    data = pf.parquet(
        s3.base, column="input_ids", cache_dir=tmp_path, storage_options=s3.options
    )
    loader = numbered_loader(data)
    next(iter(loader))
    shown = [repr(data), repr(data.storage), repr(loader), repr(data.index)]
    shown += [str(loader.state_dict()), caplog.text, repr(data)]
    kept = [pickle.dumps(data), pickle.dumps(data.index), pickle.dumps(loader)]
    kept += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for text in shown:
        assert SECRET_KEY not in text
    for held in kept:
        assert SECRET_KEY.encode() not in held
        assert ACCESS_KEY.encode() not in held


@pytest.mark.parametrize(
    "name",
    [
        *("azure_storage_connection_string", "connection_string", "bearer_token"),
        *("google_bearer_token", "sas_token", "azure_storage_sas_key", "client_secret"),
        *("sse_customer_key_base64", "secret", "hf_token", "authorization", "token"),
        *("service_account_key", "fabric_session_token", "a_name_of_later"),
    ],
)
def test_what_may_be_secret_does_not_travel(name):
    data = RemoteStorage({name: "hidden", "region": "us-east-1"})
    travelled = pickle.dumps(data)
    assert b"hidden" not in travelled
    assert b"us-east-1" in travelled
    assert "hidden" not in repr(data)


@pytest.mark.parametrize("value", ["https://user:hidden@host:9", "http://hidden@host"])
@pytest.mark.parametrize("name", [*StorageOptions.__annotations__, "aws_endpoint"])
def test_no_option_is_an_address_with_a_password(name, value):
    with pytest.raises(InvalidArgumentError, match=name) as caught:
        located_exactly(["s3://bucket/a"], cast("StorageOptions", {name: value}))
    assert "hidden" not in str(caught.value)


def test_other_processes_have_secrets_of_the_environment(s3, monkeypatch):
    data = pf.parquet(s3.base, column="input_ids", storage_options=s3.options)
    assert len(data) == 600
    travelled = pickle.dumps(data)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "wrong")
    with pytest.raises(AccessDeniedError, match="secret_access_key do not travel"):
        pickle.loads(travelled).storage.read(s3.urls[0], 0, 4)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert pickle.loads(travelled).storage.read(s3.urls[0], 0, 4) == b"PAR1"


def test_credentials_are_not_sent_unencrypted_unless_allowed(s3, web):
    with pytest.raises(InvalidArgumentError, match="unencrypted"):
        pf.parquet(
            s3.base, column="a", storage_options=s3.options | {"allow_http": "no"}
        )
    secret: StorageOptions = {"authorization": "Bearer hidden"}
    with pytest.raises(InvalidArgumentError, match="unencrypted") as caught:
        pf.parquet(web.urls, column="a", storage_options=secret)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["https", "s3", "s3a", "hf"])
def test_credentials_in_a_url_are_refused_and_not_shown(scheme):
    with pytest.raises(InvalidArgumentError) as caught:
        pf.parquet(f"{scheme}://user:hidden@place/a.parquet", column="a")
    assert "hidden" not in f"{caught.value} {caught.value.file}"


@pytest.mark.usefixtures("web")
def test_another_server_gets_no_authorization(web_server, root):
    class Elsewhere(Handler):
        def answer(self):
            location = f"{web_server.url}{self.path}?signature=hidden"
            self.send(307, b"", {"Location": location})

    front = WebServer(root, Elsewhere)
    options: StorageOptions = {
        "authorization": "Bearer hidden",
        "allow_http": True,
    }
    with running(front):
        url = f"{front.url}/corpus/tokens/part-0.parquet"
        data = pf.parquet(url, column="input_ids", storage_options=options)
        assert len(data) == 300
        web_server.fault = lambda handler: handler.send(500) is None
        with pytest.raises(PagefeedError) as caught:
            pf.parquet(url, column="a", storage_options=options | {"deadline": 0.2})
    assert "hidden" not in str(caught.value)
    sent = [headers.get("authorization") for _, _, headers in front.asked]
    assert set(sent) == {"Bearer hidden"}
    assert not any("authorization" in headers for _, _, headers in web_server.asked)


@pytest.mark.usefixtures("web")
@pytest.mark.filterwarnings("ignore::pagefeed.errors.IndexWarning")
def test_the_signature_of_a_url_is_shown_nowhere(web_server, tmp_path, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    url = f"{web_server.url}/corpus/tokens/part-0.parquet?signature=hidden"
    data = pf.parquet(
        url, column="input_ids", cache_dir=tmp_path, storage_options=_OPEN
    )
    loader = numbered_loader(data)
    origin = loader.locate(0, 0)[0]
    page = data.index.locate(0)
    shown = [repr(origin), origin.file, repr(page), page.file, repr(data.index)]
    assert loader.steps_of(origin.file, origin.row)
    with pytest.raises(PagefeedError) as caught:
        len(pf.parquet(url, column="nope", storage_options=_OPEN).index)
    shown += [str(caught.value), repr(caught.value), str(caught.value.file)]
    option = ["--storage-option", "allow_http=true"]
    for verb in (
        ["trace", "--length", "8", "--batch-size", "2", "--step", "0"],
        ["head"],
    ):
        assert main([verb[0], url, "--column", "input_ids", *verb[1:], *option]) == 0
    output = ["--output", f"{tmp_path}/_pagefeed"]
    assert main(["index", url, "--column", "input_ids", *output, *option]) == 0
    logger.warning("%s, %r: %s", url, url, ValueError(url))
    assert web_server.url in caplog.text
    shown += [*capsys.readouterr(), caplog.text, str(IndexWarning(f"{url}: long"))]
    for text in shown:
        assert "hidden" not in text
    kept = [path for path in tmp_path.rglob("*") if b"hidden" in _bytes_of(path)]
    assert len(kept) > 1
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


def _bytes_of(path):
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize("name", ["../b", "%2e%2E/b", "..\\b", "..%5cb", "a\nb"])
def test_no_name_means_another_place_of_a_server(web_server, name):
    web_server.asked.clear()
    url = f"{web_server.url}/corpus/{name}/part-0.parquet"
    with pytest.raises(InvalidArgumentError, match="another place of its server"):
        len(pf.parquet(url, column="input_ids", storage_options=_OPEN).index)
    assert not web_server.asked
