"""One version: the workspace's."""

import importlib.metadata
import tomllib

from packaging.version import Version

import pagefeed
from made.shared_data import ROOT


def test_one_version():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    version = Version(workspace["package"]["version"])
    assert Version(importlib.metadata.version("pagefeed")) == version
    assert Version(pagefeed.__version__) == version
