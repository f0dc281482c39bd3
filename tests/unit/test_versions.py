"""A framework newer than the tested one gives one warning, and is not refused."""

import re
import warnings

import pytest

from made.shared_data import ROOT
from pagefeed.errors import PagefeedWarning
from pagefeed.integrations.versions import TESTED, warn_of_newer

LOCKS = ROOT / "tests" / "trainers" / "locks"
PAGE = (ROOT / "docs" / "reference" / "versions.md").read_text()


def test_releases_are_those_of_the_locks_and_of_the_page():
    locked = "".join(path.read_text() for path in LOCKS.glob("*.txt"))
    for framework, version in TESTED.items():
        assert re.search(rf"^{framework}=={version}$", locked, re.MULTILINE), framework
        assert f"| {framework} | {version} |" in PAGE


@pytest.mark.parametrize(
    ("found", "is_newer"),
    [("5.0.0", False), ("TESTED", False), ("5.999.0", True), ("6.0.0rc1", True)],
)
def test_newer_releases_are_warned_of(monkeypatch, found, is_newer):
    version = found.replace("TESTED", TESTED["transformers"])
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_newer("transformers")
    said = [str(warning.message) for warning in caught]
    assert [f"transformers {version} is newer than" in text for text in said] == [
        True
    ] * is_newer
    assert all(issubclass(warning.category, PagefeedWarning) for warning in caught)


def test_a_framework_without_a_version_is_taken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TESTED["no such framework"] = "1.0"
        try:
            warn_of_newer("no such framework")
        finally:
            del TESTED["no such framework"]
