"""Names, verbs and flags that are gone say what to use instead."""

import importlib
import sys
import types

import pytest

from pagefeed._removed import REMOVED
from pagefeed.cli import main
from pagefeed.dataset import StreamDataset
from pagefeed.errors import InvalidArgumentError


def is_typed(name: str) -> bool:
    return " " in name


@pytest.mark.parametrize("name", [name for name in REMOVED if not is_typed(name)])
def test_a_name_is_refused_by_what_to_use(name, monkeypatch):
    path, _, last = f"pagefeed.{name}".rpartition(".")
    if path.startswith("pagefeed.integrations."):
        # Its framework need not be installed; other tests import the adapter anew.
        framework = path.rpartition(".")[2]
        monkeypatch.setitem(sys.modules, framework, types.ModuleType(framework))
        monkeypatch.setitem(sys.modules, path, None)
        del sys.modules[path]
    stream = path == "pagefeed.StreamDataset"
    found: object = (
        object.__new__(StreamDataset) if stream else importlib.import_module(path)
    )
    with pytest.raises(InvalidArgumentError) as refused:
        getattr(found, last)
    assert REMOVED[name] in str(refused.value)


@pytest.mark.parametrize("words", [name for name in REMOVED if is_typed(name)])
def test_a_verb_or_a_flag_is_refused_by_what_to_use(words, capsys):
    with pytest.raises(SystemExit) as refused:
        main(words.removeprefix("pagefeed ").split())
    assert refused.value.code == 2
    assert REMOVED[words] in capsys.readouterr().err


def test_an_unknown_name_is_no_attribute():
    import pagefeed.reports

    assert not hasattr(pagefeed.reports, "nothing")
