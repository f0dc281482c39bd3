"""The public names are those that are meant, and each is documented."""

import inspect
from types import ModuleType
from typing import Any

import pytest

import pagefeed

PUBLIC = sorted(name for name in pagefeed.__all__ if not name.startswith("_"))
DOCUMENTED = [name for name in PUBLIC if callable(getattr(pagefeed, name))]


def has_doc(thing: Any) -> bool:
    """Whether a docstring was written, not made by `dataclass` or inherited."""
    doc = (getattr(thing, "__doc__", None) or "").strip()
    return bool(doc) and not doc.startswith(f"{getattr(thing, '__name__', '')}(")


def members(kind: type) -> dict[str, Any]:
    """The public methods and properties that a class defines itself."""
    return {
        name: member
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property))
    }


def test_public_names_are_all():
    found = {
        name
        for name in dir(pagefeed)
        if not name.startswith("_")
        and not isinstance(getattr(pagefeed, name), ModuleType)
    }
    assert found == set(PUBLIC)
    assert len(pagefeed.__all__) == len(set(pagefeed.__all__))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented(name):
    thing = getattr(pagefeed, name)
    assert has_doc(thing), f"pagefeed.{name} needs a docstring"
    if isinstance(thing, type):
        bare = [key for key, member in members(thing).items() if not has_doc(member)]
        assert bare == [], f"methods of pagefeed.{name} that need a docstring"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_named_as_imported(name):
    thing = getattr(pagefeed, name)
    assert f"{thing.__module__}.{thing.__qualname__}" == f"pagefeed.{name}"
