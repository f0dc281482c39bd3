"""Files of several writers, each written once and kept until its script changes."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from made.shared_data import ROOT

SCRIPTS = Path(__file__).resolve().parent.parent / "writers"

# Script and, for versions other than the tests' own, what to install for it.
WRITERS = {
    "pyarrow-11": ("write_pyarrow.py", ["pyarrow==11.0.0", "numpy<2"]),
    "pyarrow-13": ("write_pyarrow.py", ["pyarrow==13.0.0", "numpy<2"]),
    "pyarrow-22": ("write_pyarrow.py", ["pyarrow==22.0.0", "numpy<3"]),
    "pyarrow": ("write_pyarrow.py", []),
    "polars": ("write_polars.py", []),
    "duckdb": ("write_duckdb.py", []),
    "fastparquet": ("write_fastparquet.py", []),
}


def _command(requirements: list[str]) -> list[str]:
    """Python with these requirements and no others; without any, this Python."""
    if not requirements:
        return [sys.executable]
    # The oldest has no wheels for a newer Python.
    python = sys.executable if sys.version_info < (3, 12) else "3.11"
    isolated = ["--no-project", "--isolated", "--quiet", "--python", python]
    with_all = [part for one in requirements for part in ("--with", one)]
    uv = shutil.which("uv", path=f"{ROOT / 'target/tools/bin'}:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed: `make test-all` does it")
    return [uv, "run", *isolated, *with_all, "python"]


def _environment() -> dict[str, str]:
    """uv takes neither pip's index nor the system's certificates by itself."""
    index = os.environ.get("PIP_INDEX_URL")
    ours = {"UV_SYSTEM_CERTS": "1"} | ({"UV_DEFAULT_INDEX": index} if index else {})
    return ours | os.environ


def _digest(script: str, requirements: list[str]) -> str:
    parts = [(SCRIPTS / name).read_bytes() for name in ("columns.py", script)]
    parts += [one.encode() for one in requirements]
    libraries = ("pyarrow", "polars", "duckdb", "fastparquet")
    parts += [version(name).encode() for name in libraries]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@pytest.fixture(scope="session")
def written(pytestconfig: pytest.Config) -> Callable[[str], list[Path]]:
    """The files of a writer, by its name in WRITERS."""
    cache = pytestconfig.cache
    assert cache is not None

    def write(name: str) -> list[Path]:
        script, requirements = WRITERS[name]
        folder = cache.mkdir("written") / f"{name}-{_digest(script, requirements)}"
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.{os.getpid()}")
            command = [*_command(requirements), str(SCRIPTS / script), str(part)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=_environment()
            )
            if not part.exists():  # the script's first act
                pytest.skip(f"{name} cannot be installed here: {done.stderr}")
            assert done.returncode == 0, done.stderr
            with contextlib.suppress(OSError):  # Another worker was there first.
                part.rename(folder)
        return sorted(folder.glob("*.parquet"))

    return write
