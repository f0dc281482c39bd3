"""Warnings name the line of the user's program, however deep they are raised."""

import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pagefeed
from pagefeed.core._base import warn_user
from pagefeed.errors import PagefeedWarning

PACKAGE = Path(pagefeed.__file__).parent


SOURCE = """
from dataclasses import dataclass
from pagefeed.core._base import warn_user
from pagefeed.errors import PagefeedWarning

def call(depth):
    if depth:
        return Made(depth - 1)
    warn_user("a reason", PagefeedWarning)

@dataclass
class Made:
    depth: int
    def __post_init__(self):
        call(self.depth)
"""


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_warnings_name_the_line_that_called_the_package(depth, monkeypatch):
    module: Any = ModuleType("pagefeed.some")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(SOURCE, vars(module))
    with pytest.warns(PagefeedWarning, match="a reason") as told:
        module.call(depth)
    assert [Path(each.filename) for each in told] == [Path(__file__)]


def test_a_package_of_a_like_name_is_a_users():
    names = {"__name__": "pagefeed_tools", "warn_user": warn_user, "K": PagefeedWarning}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec(compile("warn_user('w', K)", "tools.py", "exec"), names)
    assert told[0].filename == "tools.py"


def test_the_package_warns_in_one_way():
    for path in PACKAGE.rglob("*.py"):
        calls = re.findall(r"warnings\.warn\(", path.read_text())
        assert not calls or path.name == "warn.py", path
