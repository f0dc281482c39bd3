"""Cache folders and shared indexes with any entry changed: refused, or made again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(1200)
def test_changed_caches_and_indexes_are_refused_or_made_again(tmp_path):
    """Those of every kind, damaged or sealed anew; more every night."""
    options = ["--only", "saved|sealed|shared", "--files", "800", "--seed", "pagefeed"]
    done = subprocess.run(
        [sys.executable, "tests/fuzz", *options, "--keep", f"{tmp_path}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "tests"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, (done.stdout + done.stderr)[-4000:]
