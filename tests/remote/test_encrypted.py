"""Encrypted connections: certificates of one's own are trusted where one says so."""

import ssl
import subprocess
from email.utils import formatdate
from typing import Any

import pytest

import pagefeed as pf
from pagefeed.errors import (
    InvalidArgumentError,
    MissingFileError,
    UnavailableError,
)
from pagefeed.remote import RemoteStorage, StorageOptions
from servers.web_servers import Handler, WebServer, running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this machine, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    paths = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-out", str(paths[0]), "-keyout", str(paths[1])]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    return paths


@pytest.fixture
def url(root, certificate):
    server = WebServer(root, Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server):
        port = server.server_address[1]
        yield f"https://localhost:{port}/corpus/tokens/part-0.parquet"


def test_a_certificate_is_trusted_if_it_is_named(url, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    secret: StorageOptions = {"authorization": "Bearer hidden"}
    data = pf.parquet(url, column="input_ids", storage_options=secret)
    assert len(data) == 300


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize("scheme", ["https", "s3", "gs", "az", "hf"])
def test_one_setting_names_certificates_for_every_storage(
    url, certificate, monkeypatch, scheme, is_given
):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(Handler, "extra", {"Last-Modified": formatdate(0, usegmt=True)})
    server, path = url.split("/corpus/tokens/")
    named = {"https": url, "hf": f"hf://datasets/a/b@{'0' * 40}/corpus/tokens/{path}"}
    options: Any = {"aws_region": "x", "skip_signature": True}
    options["azure_storage_account_name"] = "a"
    options |= {"endpoint_url": server, "hf_endpoint": server, "deadline": 5}
    if is_given:
        options["ca_bundle"] = str(certificate[0])
    else:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate[0]))
    storage = RemoteStorage({name: str(each).lower() for name, each in options.items()})
    file = named.get(scheme, f"{scheme}://corpus/tokens/{path}")
    if scheme == "hf":  # It speaks another protocol, which is what is asked for here.
        with pytest.raises(MissingFileError):
            storage.read(file, 0, 4)
    else:
        assert storage.read(file, 0, 4) == b"PAR1"


def test_a_file_without_certificates_is_refused(tmp_path):
    for content in (b"", b"none"):
        (tmp_path / "ca.pem").write_bytes(content)
        with pytest.raises(InvalidArgumentError, match="ca_bundle"):
            RemoteStorage({"ca_bundle": str(tmp_path / "ca.pem")})
    with pytest.raises(InvalidArgumentError, match="ca_bundle"):
        RemoteStorage({"ca_bundle": str(tmp_path / "missing.pem")})


def test_others_are_not(url, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(UnavailableError, match="certificate"):
        pf.parquet(url, column="input_ids", storage_options={"deadline": 0.5})
