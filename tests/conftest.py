"""What all tests share: the settings of hypothesis and a fresh interpreter."""

import subprocess
import sys
from collections.abc import Callable

import hypothesis
import pytest

# A deadline per example would make a loaded machine fail; pytest's timeout suffices.
hypothesis.settings.register_profile("pagefeed", deadline=None)
hypothesis.settings.load_profile("pagefeed")

RunPython = Callable[[str], str]


@pytest.fixture
def run_python() -> RunPython:
    """Run a program in a fresh interpreter and return what it printed."""

    def run(program: str) -> str:
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
