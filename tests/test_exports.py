"""The public names are those that are meant, and each is documented."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from pagefeed.contract import SequenceIndex
from pagefeed.core._base import lazy

PUBLIC = sorted(pagefeed.__all__)
MODULES = {name for name in PUBLIC if isinstance(getattr(pagefeed, name), ModuleType)}
FACES = (
    *(pagefeed.dataset, pagefeed.run, pagefeed.mixing, pagefeed.reports),
    pagefeed.prepare,
)
"""Results, and what few people call, lie in these."""

API = (Path(__file__).parent.parent / "docs/reference/api.md").read_text()


def listed(face: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of a face that the reference lists."""
    for name in face.__all__:
        path = f"{face.__name__}.{name}"
        if (
            callable(getattr(face, name))
            and f"`{path.removeprefix('pagefeed.')}`" in API
        ):
            yield path, getattr(face, name)


DOCUMENTED = dict(pair for face in (pagefeed, *FACES) for pair in listed(face))
KINDS = [name for name, thing in DOCUMENTED.items() if isinstance(thing, type)]
NOT_EXPORTED = {
    "ArrowArray",  # Of use by the Arrow capsule alone.
    # What cuts, selects and plans: for those who look inside. So is any SequenceIndex.
    *(
        "SequenceLayout",
        "Ordered",
        "Dataset",
        "RunView",
        "TextView",
        "Selection",
        "Spans",
        "SpanParts",
        "LoaderState",
        "Cursor",
    ),
    *("AlignedColumn", "AlignedColumnNames", "AlignedSource"),
}


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
    assert found == {name for name in PUBLIC if f"pagefeed.{name}" in DOCUMENTED}
    assert set(PUBLIC) - found == MODULES
    assert len(pagefeed.__all__) == len(set(pagefeed.__all__))


def test_import_loads_what_is_used(run_python):
    """On a thousand nodes each module is a file of a shared disk."""
    names = "[name for name in sys.modules if name.startswith('pagefeed')]"
    lazily = run_python(f"import sys, pagefeed\nprint(len({names}))")
    assert int(lazily) <= 5
    known = "{name for name in dir(pagefeed) if not name.startswith('_')}"
    lines = "import pagefeed, pagefeed.core.loader, pagefeed.rooms"
    offered = eval(run_python(f"{lines}\nprint({known})"))
    assert offered == {*PUBLIC}


TAKE_A_BATCH = """
import sys
import pagefeed as pf
data = pf.parquet({path!r}, column="input_ids")
loader = pf.Loader(data, sequences=pf.Packed(64), batch_size=4, fields=("labels",))
next(iter(loader))
print(len([name for name in sys.modules if name.startswith("pagefeed")]))
"""


def test_a_loader_loads_the_core_and_what_it_uses(tmp_path, run_python):
    rows = [[number % 50] * 40 for number in range(200)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    assert int(run_python(TAKE_A_BATCH.format(path=str(tmp_path)))) < 101


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'Loadr'"):
        pagefeed.Loadr  # type: ignore[attr-defined]  # noqa: B018 - looked up


def test_documented():
    things = dict(DOCUMENTED)
    for name in KINDS:
        own = members(DOCUMENTED[name]).items()
        things |= {f"{name}.{key}": member for key, member in own}
    assert [name for name, thing in things.items() if not has_doc(thing)] == []


def names_for_types(module: str) -> dict[str, Any]:
    """Return what a module imports for type checkers alone."""
    tree = ast.parse(Path(sys.modules[module].__file__ or "").read_text())
    return {
        alias.name: getattr(importlib.import_module(node.module or ""), alias.name)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def returned(thing: Any) -> Iterator[type]:
    """The classes of the package that a function, or a property, returns."""
    if isinstance(thing, property):
        thing = thing.fget
    elif isinstance(thing, classmethod | staticmethod):
        thing = thing.__func__
    elif isinstance(thing, lazy):
        thing = thing._make
    thing = inspect.unwrap(thing)
    names = names_for_types(thing.__globals__["__name__"])
    waiting = [get_type_hints(thing, localns=names).get("return")]
    while waiting:
        kind = waiting.pop()
        waiting.extend(get_args(kind))
        if isinstance(kind, type) and kind.__module__.startswith("pagefeed"):
            yield kind


def test_what_is_returned_is_exported():
    things = [thing for thing in DOCUMENTED.values() if not isinstance(thing, type)]
    for name in KINDS:
        own = vars(DOCUMENTED[name]).items()
        things += members(DOCUMENTED[name]).values()
        things += [each for key, each in own if isinstance(each, lazy)]
        things += [each for key, each in own if key in ("__getitem__", "__iter__")]
    kinds = {kind for each in things for kind in returned(each)}
    hidden = kinds - set(DOCUMENTED.values())
    names = {kind.__name__ for kind in hidden if SequenceIndex not in kind.__mro__}
    assert names - NOT_EXPORTED == set()


def test_listed_in_the_docs():
    assert [name for name in PUBLIC if not re.search(rf"`(pf\.)?{name}`", API)] == []


def test_modules_that_are_not_imported_are_named():
    for name, said in (("evaluating", "'evaluating'$"), ("_base", "'_base'$")):
        with pytest.raises(AttributeError, match=said):
            getattr(pagefeed, name)
    code = "import pagefeed\npagefeed.torch.as_dataset"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stderr.endswith("'torch': import pagefeed.torch first\n")
