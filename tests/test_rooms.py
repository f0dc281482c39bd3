"""The core stands alone: it imports no room, and a room no other one but by name.

The core is the folder of that name, with the errors and the contract. Everything else
is a room: a folder or module of the package. An import is counted where a name is
defined, whatever face it is taken from.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from pagefeed.core import wiring
from pagefeed.core.run import StatePart
from pagefeed.core.wiring import Asked
from pagefeed.rooms import STATE_PARTS, state_part

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "pagefeed"

CORE = ("core", "errors", "parsing", "contract", "_core")
FACES = ("__init__", "__main__", "_removed", "rooms", "dataset", "run")
"""What names the rooms for users, and wires them in."""

USES = {
    "arrow_files": {"aligned", "flat", "made", "parquet_files", "selection"},
    "cli": {
        "arrow_files",
        "documents",
        "flat",
        "mixture",
        "parquet_files",
        "prepare",
        "progress",
        "remote",
        "reports",
        "tokenizer",
    },
    "balance": {"caches"},
    "documents": {"aligned", "caches"},
    "erasure": {"caches", "selection"},
    "flat": {"aligned", "caches", "parquet_files", "remote"},
    "infilling": {"caches"},
    "growth": {"mixture", "parquet_files"},
    "images": {"caches", "documents", "parquet_files", "remote", "tokenizer"},
    "integrations": {
        "documents",
        "launch",
        "mixing",
        "mixture",
        "prompts",
        "remote",
        "reports",
    },
    "metrics": {"checks", "launch"},
    "mixing": {"mixture"},
    "mixture": {"balance"},
    "own_rows": {"aligned", "caches", "made", "parquet_files"},
    "parquet_files": {
        "caches",
        "aligned",
        "erasure",
        "infilling",
        "remote",
        "selection",
        "text",
        "tokenizer",
    },
    "prepare": {
        "arrow_files",
        "caches",
        "documents",
        "flat",
        "parquet_files",
        "remote",
        "selection",
        "tokenizer",
    },
    "prompts": {"documents", "launch", "mixture"},
    "remote": {"caches"},
    "reports": {
        "balance",
        "documents",
        "flat",
        "metrics",
        "mixture",
        "parquet_files",
        "remote",
        "tokenizer",
    },
    "selection": {"caches", "remote"},
    "tables": {"parquet_files", "remote", "selection"},
    "text": {"caches", "tokenizer"},
    "tokenizer": {"remote"},
    "torch": {"integrations"},
    "uncounted": {"checks", "tokenizer"},
}
"""Rooms that a room stands on, besides the core."""


def module_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


@cache
def imports_of(package: Path) -> dict[str, list[tuple[str, str, str]]]:
    """What each module imports: the module, the name there, and the name here."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        tree, module = ast.parse(path.read_text()), module_of(path, package)
        if room_of(module) == "core":  # It names types of rooms, for type checkers.
            tree.body = [
                node
                for node in tree.body
                if not isinstance(node, ast.If)
                or ast.unparse(node.test) != "TYPE_CHECKING"
            ]
        nodes = ast.walk(tree)
        found[module] = [
            (node.module.removeprefix("pagefeed").lstrip(".") or "__init__", *names)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").partition(".")[0] == "pagefeed"
            and node.module is not None
            for names in [(each.name, each.asname or each.name) for each in node.names]
        ]
    return found


def room_of(module: str) -> str:
    """Return the room of a module, or "core"."""
    top = module.partition(".")[0]
    return "core" if top in CORE else top


def defined_in(package: Path, module: str, name: str) -> str:
    """Return the module that defines what another one gives under a name."""
    known = imports_of(package)
    inner = name if module == "__init__" else f"{module}.{name}"
    if inner in known:
        return inner
    for source, there, here in known.get(module, ()):
        if here == name and source != module:
            return defined_in(package, source, there)
    return module


def edges(package: Path) -> Iterator[tuple[str, str]]:
    """Yield what modules import of other rooms: the module, and the name there."""
    for module, imports in imports_of(package).items():
        if module in FACES:
            continue
        for source, name, _ in imports:
            target = defined_in(package, source, name)
            if room_of(target) not in ("core", room_of(module), *FACES):
                yield module, f"{target}.{name}"


def test_the_core_imports_no_room():
    found = [edge for edge in edges(PACKAGE) if room_of(edge[0]) == "core"]
    assert found == []


def test_rooms_stand_on_the_core_and_few_others():
    """What a room uses of another one is named; the list only shrinks."""
    found = defaultdict(set)
    for module, target in edges(PACKAGE):
        found[room_of(module)].add(room_of(target))
    assert found == USES


ASKED = {name: each for name, each in vars(wiring).items() if type(each) is Asked}


@pytest.mark.parametrize("name", ASKED)
def test_a_room_provides_what_the_core_asks(name):
    place = ASKED[name].place
    assert place is not None, f"rooms.py provides no {name}"
    module, _, function = place.partition(":")
    assert callable(attrgetter(function)(import_module(module)))


def test_the_core_alone_asks():
    asking = {
        module
        for module, imports in imports_of(PACKAGE).items()
        for source, name, _ in imports
        if "core.wiring" in (source, f"{source}.{name}")
    }
    assert {room_of(module) for module in asking - {"rooms"}} <= {
        "core",
        "mixture",
        "view",
    }
    assert len(ASKED) <= 22


@pytest.mark.parametrize("name", STATE_PARTS)
def test_rooms_provide_parts_of_states(name):
    assert isinstance(state_part(name), StatePart)
    assert state_part(f"{name}s") is None


@pytest.mark.parametrize(
    "source",
    [
        "from pagefeed.mixture import Mixture",
        "from pagefeed.mixture.mixture import Mixture",
        "def late():\n    from pagefeed.mixture import Mixture",
        "from pagefeed.core.run import Mixture",
    ],
)
def test_edges_are_found(tmp_path, source):
    files = {
        "__init__": "",
        "mixture/__init__": "from pagefeed.mixture.mixture import Mixture",
        "mixture/mixture": "class Mixture: ...",
        "core/run/__init__": "",
        "core/run/route": source,
    }
    if "core.run" in source:
        files["core/run/__init__"] = "from pagefeed.mixture import Mixture"
    for name, text in files.items():
        path = tmp_path / "pagefeed" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = dict(edges(tmp_path / "pagefeed"))
    assert found["core.run.route"] == "mixture.mixture.Mixture"
