"""A layer imports only from itself and from the layers before it, without cycles."""

import ast
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "pagefeed"

FACE = "__init__"  # the public names, for users and the command line
LAYERS = (
    {
        "_core",
        "arguments",
        "arrays",
        "errors",
        "extras",
        "lazy",
        "parallel",
        "sizes",
        "steps",
        "stored",
    },
    {"dataset", "folders", "index", "paths", "spans", "tokens"}
    | {"criteria", "divide", "pieces", "predicate", "query", "scanning", "selection"}
    | {"length_counts"},
    {
        "sequences",
        "blocks",
        "documents",
        "joined",
        "lines",
        "packed",
        "packed_counts",
        "window_starts",
        "windows",
    },
    {"order", "mixture", "tokenizer"},
    {"loader", "state", "planner", "iteration", "provenance", "launch", "route", "run"}
    | {
        "batch_iterator",
        "damage",
        "explain",
        "engines",
        "formats",
        "orders",
        "supply",
        "mixed",
        "feeds",
        "fields",
        "rows",
    }
    | {"mixed_parts", "padding", "row_columns"},
    {
        "torch",
        "attention",
        "hf",
        "view",
        "forecast",
        "forecast_mixture",
        "reuse",
        "verify",
        "trace",
        "smoke",
        "doctor",
        "prepare",
    },
    {FACE, "cli", "__main__"},
)
LAYER_OF = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}

Imports = dict[str, set[str]]


def module_of(path: Path, package: Path) -> str:
    """The module, or the folder of modules, that a file belongs to."""
    return path.relative_to(package).with_suffix("").parts[0]


def imports_of(path: Path, package: Path, modules: set[str]) -> Iterator[str]:
    """Every module of the package that a file imports, for types alone included."""
    home = (package.name, *path.relative_to(package).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) + 1 - node.level] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            targets = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for root, *rest in targets:
            if root == package.name:
                yield rest[0] if rest and rest[0] in modules else FACE


def read_imports(package: Path) -> Imports:
    """Which modules of the package each of its modules imports."""
    paths = sorted(package.rglob("*.py")) + sorted(package.glob("*.pyi"))
    modules = {module_of(path, package) for path in paths}
    imports: Imports = {module: set() for module in modules}
    for path in paths:
        module = module_of(path, package)
        imports[module] |= set(imports_of(path, package, modules)) - {module}
    return imports


def violations(imports: Imports) -> list[str]:
    """What is wrong with the imports, one line each."""
    unknown = [
        f"{module}: in no layer; list it in LAYERS of tests/test_layers.py"
        for module in sorted(imports.keys() - LAYER_OF.keys())
    ]
    upward = [
        f"{module} (layer {LAYER_OF[module]}) imports {target} (layer {rank})"
        for module, targets in sorted(imports.items())
        for target in sorted(targets)
        if module in LAYER_OF and (rank := LAYER_OF.get(target, -1)) > LAYER_OF[module]
    ]
    return unknown + upward


def test_layers_hold():
    assert violations(read_imports(PACKAGE)) == []


def test_no_import_cycles():
    TopologicalSorter(read_imports(PACKAGE)).prepare()


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("order", "from pagefeed.loader import Loader", "order (layer 3) imports load"),
        ("order", "from .loader import Loader", "order (layer 3) imports load"),
        ("order", "import pagefeed.cli.demo", "order (layer 3) imports cli"),
        ("order", "def f():\n    from . import loader", "order (layer 3) imports load"),
        ("order", "if TYPE_CHECKING:\n    from pagefeed import Loader", "__init__"),
        ("order", "import pagefeed as pf", "order (layer 3) imports __init__"),
        ("novel", "import os", "novel: in no layer"),
    ],
)
def test_violations_are_found(tmp_path, module, source, found):
    package = tmp_path / "pagefeed"
    (package / "cli").mkdir(parents=True)
    for name in ("__init__", "errors", "loader", "cli/demo"):
        (package / f"{name}.py").write_text("from pagefeed.errors import PagefeedError")
    assert violations(read_imports(package)) == []
    (package / f"{module}.py").write_text(source)
    [line] = violations(read_imports(package))
    assert found in line


def test_core_crate_knows_nothing_of_python():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    needs = {
        crate["name"]: {need.split()[0] for need in crate.get("dependencies", ())}
        for crate in lock["package"]
    }
    seen: set[str] = set()
    queue = {"pagefeed-core"}
    while queue:
        seen |= queue
        queue = set().union(*(needs[crate] for crate in queue)) - seen
    assert "arrow-array" in seen
    assert [crate for crate in sorted(seen) if crate.startswith("pyo3")] == []
