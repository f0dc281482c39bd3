"""An S3-compatible server: the program ``s3s-fs``, started on a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from made.shared_data import ROOT

ACCESS_KEY = "testsAccessKeyId"
SECRET_KEY = "testsSecretAccessKey"


def program() -> Path:
    """The program; skips the test where it is not installed."""
    found = shutil.which("s3s-fs", path=f"{ROOT / 'target/tools/bin'}:{os.defpath}")
    if found is None:
        import pytest  # Recipes are tried on wheels without it.

        pytest.skip("no S3-compatible server: `make tools` builds s3s-fs")
    return Path(found)


@contextmanager
def s3_server(root: Path) -> Iterator[dict[str, str]]:
    """Serve the folders of ``root`` as buckets.

    Yields:
        The ``storage_options`` that lead there.
    """
    port = free_port()
    keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    command = [str(program()), *address, *keys, str(root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield options_of(port)
    finally:
        process.kill()
        process.wait()


def note_tags(root: Path) -> None:
    """Leave the objects' tags beside the buckets, as an upload does.

    Of objects that were put into its folder the server hashes all bytes for every
    request of some, which is far slower than to read these.
    """
    for path in root.glob("*/**/*"):
        if path.is_file():
            bucket, _, key = path.relative_to(root).as_posix().partition("/")
            name = f".bucket-{_encoded(bucket)}.object-{_encoded(key)}.internal.json"
            (root / name).write_text(json.dumps({"e_tag": _md5(path)}))


def _encoded(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def options_of(port: int) -> Any:
    """Settings for a server on a port of this machine."""
    return {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "allow_http": "true",
    }


def free_port() -> int:
    """A port that nobody listens on now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens."""
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the server does not listen")
