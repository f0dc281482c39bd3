"""Where the data that is too large for the repository lies, for tests that read it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


SHARED = Path(os.environ.get("PAGEFEED_SHARED") or ROOT.parent / "shared")
"""The folder of large test data: beside the repository, if not named."""


def existing(path: Path, remedy: str) -> Path:
    """The path of test data, or a skip that says how to get it."""
    if not path.exists():
        import pytest  # Recipes are tried on wheels without it.

        pytest.skip(f"{path} is absent; {remedy}")
    return path


def shared(*parts: str) -> Path:
    """The path of shared data, or a skip that says where it was looked for."""
    remedy = "PAGEFEED_SHARED names the folder of test data"
    return existing(SHARED.joinpath(*parts), remedy)


def parquet_testing(*parts: str) -> Path:
    """The path of a file of the Parquet project, or a skip.

    `make conformance` fetches the files; the shared folder may hold them, too.
    """
    fetched = ROOT / "target" / "parquet-testing"
    if not fetched.exists():
        fetched = SHARED / "data" / "parquet-testing"
    return existing(fetched.joinpath(*parts), "`make conformance` fetches it")
