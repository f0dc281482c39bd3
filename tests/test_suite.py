"""What the suite itself holds: what may be skipped in CI, and what a test may cost."""

import os
import re
import subprocess
import sys

from made.shared_data import ROOT

TESTS = """
import conftest, pytest

conftest.EXTRAS.add("not_there")
conftest.MOST_SECONDS = 0.05

def test_listed(): pytest.skip("make test-trainers ARGS=ray")
def test_unlisted(): pytest.skip("not today")
def test_extra(): import not_there.inside
def test_other(): import nowhere
def test_spins(): sum(range(20_000_000))
@pytest.mark.dear
def test_may_spin(): sum(range(20_000_000))
"""


def failed_tests(folder, **environment):
    """Run these tests in an environment: which fail, and all that pytest prints."""
    (folder / "test_some.py").write_text(TESTS)
    variables = {name: os.environ[name] for name in os.environ.keys() - {"CI"}}
    command = [sys.executable, "-m", "pytest", "--config-file"]
    config = str(ROOT / "pyproject.toml")
    done = subprocess.run(
        [*command, config, "--rootdir", folder, "-p", "conftest", folder],
        env=variables | environment | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(?:FAILED|ERROR) .*::(\w+)", done.stdout, re.MULTILINE)
    return sorted(found), done.stdout


def test_ci_knows_what_is_skipped_and_what_is_dear(tmp_path):
    found, text = failed_tests(tmp_path)
    assert found == ["test_other"], text
    assert "not_there is not installed" in text
    found, text = failed_tests(tmp_path, CI="true")
    assert found == ["test_extra", "test_other", "test_spins", "test_unlisted"], text
