"""The types that are promised for the Rust module are the ones it has."""

import subprocess
import sys

from made.shared_data import ROOT

# Python 3.11 gives types of other languages no such attribute, 3.12 does.
ALLOWED = "pagefeed._core.Buffer.__buffer__\n"


def test_core_stub_matches_the_module(tmp_path):
    # Without a stub there is nothing to differ, and stubtest is content.
    assert (ROOT / "python" / "pagefeed" / "_core.pyi").is_file()
    command = [sys.executable, "-m", "mypy.stubtest", "pagefeed._core", "--concise"]
    allowlist = tmp_path / "allowlist"
    allowlist.write_text(ALLOWED)
    options = ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    options += ["--allowlist", str(allowlist), "--ignore-unused-allowlist"]
    done = subprocess.run(
        command + options, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
