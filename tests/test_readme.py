"""What the README shows works as shown."""

import re
import subprocess

import pytest

import pagefeed.cli
from made.shared_data import ROOT

README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return [text for found, text in FENCE.findall(README) if found == language]


VERBS = sorted(
    set(re.findall(r"^pagefeed (\w+)", "".join(blocks("bash")), re.MULTILINE))
)


def test_make_targets_exist():
    targets = set(re.findall(r"\bmake ([a-z]+)", README))
    assert "demo" in targets
    for target in targets:
        command = ["make", "--dry-run", "--always-make", target]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_exist(verb, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pagefeed", verb, "--help"])
    with pytest.raises(SystemExit) as exited:
        pagefeed.cli.main()
    assert not exited.value.code
    assert f"pagefeed {verb}" in capsys.readouterr().out
