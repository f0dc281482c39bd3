"""Encrypted connections: certificates of one's own are trusted where one says so."""

import ssl
import subprocess

import pytest

import pagefeed as pf
from pagefeed.errors import UnavailableError
from pagefeed.storage import StorageOptions
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


def test_others_are_not(url, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(UnavailableError, match="certificate"):
        pf.parquet(url, column="input_ids", storage_options={"deadline": 0.5})
