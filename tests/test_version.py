"""One version, the workspace's, and one of Rust."""

import importlib.metadata
import re
import tomllib

from packaging.version import Version

import pagefeed
from made.shared_data import ROOT


def test_one_version():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    version = Version(workspace["package"]["version"])
    assert Version(importlib.metadata.version("pagefeed")) == version
    assert Version(pagefeed.__version__) == version


def test_one_version_of_rust():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["rust-version"]
    pinned = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]
    assert pinned["channel"].rpartition(".")[0] == version
    for name in ("README.md", "CONTRIBUTING.md", "docs/index.md"):
        found = re.findall(r"Rust toolchain \((\d\.\d+)", (ROOT / name).read_text())
        assert found == [version], name
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        assert not re.search(r"rustup |toolchain:", path.read_text()), path
