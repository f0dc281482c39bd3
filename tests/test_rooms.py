"""The core stands alone: it imports no room.

A room is named by the modules it has. Whatever is in none of them is the core. An
import is counted where a name is defined, whatever face it is taken from.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "pagefeed"

ROOMS = {
    "balance": ("order.balance", "order.balanced_order", "sequences.costs"),
    "cli": ("cli", "__main__"),
    "context_parallel": ("batches.context_parallel",),
    "documents": ("documents",),
    "datasets": ("dataset.parquet_dataset", "dataset.named_files"),
    "elastic": ("elastic",),
    "erasure": ("dataset.erasing", "dataset.lost_rows"),
    "flat": ("dataset.flat",),
    "growth": ("dataset.growth", "order.grown_order", "run.grown_run"),
    "images": ("images",),
    "infilling": (
        *("dataset.infill", "dataset.infilled_dataset", "dataset.infilled_index"),
        "dataset.infilled_rows",
    ),
    "integrations": ("integrations", "torch"),
    "launch": ("launch.agreement", "launch.frameworks", "launch.sums"),
    "metrics": ("metrics.alarm", "metrics.prometheus"),
    "mixing": ("mixing",),
    "mixture": ("mixture",),
    "prepare": ("prepare",),
    "remote": (
        *("storage.remote", "storage.hub", "storage.credentials", "storage.options"),
        *("storage.outputs", "storage.writing"),
        *("dataset.index_manifest", "dataset.index_writing", "dataset.shared_index"),
    ),
    "reports": ("reports",),
    "selection": ("dataset.select",),
    "tables": ("dataset.tables",),
    "text": ("dataset.text", "dataset.counted_index", "tokenizer"),
    "uncounted": ("uncounted",),
    "view": ("view",),
}
"""Modules of each room; the longest name that fits a module says its room."""

FACES = ("__init__", "_names", "rooms")
"""What names the rooms for users, and wires them in."""


def module_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


@cache
def imports_of(package: Path) -> dict[str, list[tuple[str, str, str]]]:
    """What each module imports: the module, the name there, and the name here."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        found[module_of(path, package)] = [
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
    fits = [
        (len(prefix), room)
        for room, prefixes in ROOMS.items()
        for prefix in prefixes
        if module == prefix or module.startswith(f"{prefix}.")
    ]
    return max(fits, default=(0, "core"))[1]


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


def edges(package: Path) -> Iterator[str]:
    """Yield what modules of the core import of rooms."""
    for module, imports in imports_of(package).items():
        is_face = (package / Path(*module.split(".")) / "__init__.py").exists()
        if module in FACES or is_face or room_of(module) != "core":
            continue
        for source, name, _ in imports:
            target = defined_in(package, source, name)
            if room_of(target) != "core":
                yield f"{module} -> {target}.{name}"


def test_the_core_imports_no_room():
    assert sorted(edges(PACKAGE)) == []


def test_rooms_exist():
    modules = imports_of(PACKAGE).keys()
    for room, prefixes in ROOMS.items():
        for prefix in prefixes:
            fits = [m for m in modules if m == prefix or m.startswith(f"{prefix}.")]
            assert fits, f"{room}: {prefix}"


@pytest.mark.parametrize(
    "source",
    [
        "from pagefeed.mixture import Mixture",
        "from pagefeed.mixture.mixture import Mixture",
        "def late():\n    from pagefeed.mixture import Mixture",
        "from pagefeed.run import Mixture",
    ],
)
def test_edges_are_found(tmp_path, source):
    files = {
        "__init__": "",
        "mixture/__init__": "from pagefeed.mixture.mixture import Mixture",
        "mixture/mixture": "class Mixture: ...",
        "run/__init__": "from pagefeed.mixture import Mixture",
        "run/route": source,
    }
    for name, text in files.items():
        path = tmp_path / "pagefeed" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = list(edges(tmp_path / "pagefeed"))
    assert found == ["run.route -> mixture.mixture.Mixture"]
