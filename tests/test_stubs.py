"""The types that are promised for the Rust module are the ones it has."""

import subprocess
import sys

from shared_data import ROOT


def test_core_stub_matches_the_module():
    # Without a stub there is nothing to differ, and stubtest is content.
    assert (ROOT / "python" / "pagefeed" / "_core.pyi").is_file()
    command = [sys.executable, "-m", "mypy.stubtest", "pagefeed._core", "--concise"]
    options = ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        command + options, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
