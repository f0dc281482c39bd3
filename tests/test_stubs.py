"""The types that are promised for the Rust module are the ones it has."""

import subprocess
import sys

from made.shared_data import ROOT

STUBS = ROOT / "python" / "pagefeed" / "_core"
SUBJECTS = [path.stem for path in STUBS.glob("*.pyi") if path.stem != "__init__"]
ALLOWED = "\n".join(
    [
        # Python 3.11 gives types of other languages no such attribute, 3.12 does.
        "pagefeed._core.Buffer.__buffer__",
        # Settings are dicts at run time, and stubs by subject one module.
        "pagefeed._core.(Engine|Batches|Beside)Config",
        # So are plans: any object with these columns.
        "pagefeed._core.(Plan|Segment|Bundle)Table",
        "pagefeed._core.__all__",
        *(f"pagefeed._core.{subject}" for subject in SUBJECTS),
    ]
)


def test_core_stub_matches_the_module(tmp_path):
    # Without a stub there is nothing to differ, and stubtest is content.
    assert SUBJECTS
    command = [sys.executable, "-m", "mypy.stubtest", "pagefeed._core", "--concise"]
    allowlist = tmp_path / "allowlist"
    allowlist.write_text(ALLOWED)
    options = ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    options += ["--allowlist", str(allowlist), "--ignore-unused-allowlist"]
    done = subprocess.run(
        command + options, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
