"""What all tests share: the settings of hypothesis and a fresh interpreter."""

import os
import subprocess
import sys
from collections.abc import Callable

import hypothesis
import pytest

# A deadline per example would make a loaded machine fail; pytest's timeout suffices.
# CI judges a change by the same examples every time; elsewhere each run tries new ones.
hypothesis.settings.register_profile(
    "pagefeed",
    deadline=None,
    derandomize="PAGEFEED_SAME_EXAMPLES" in os.environ,
    max_examples=int(os.environ.get("PAGEFEED_EXAMPLES", "100")),
)
hypothesis.settings.load_profile("pagefeed")

# No test asks the services of the machine it runs on, or reads its user's profiles.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
for name in list(os.environ):
    if name.startswith(("AWS_CONTAINER_", "AWS_WEB_IDENTITY_", "AWS_ROLE_")):
        del os.environ[name]

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
