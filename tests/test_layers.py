"""A folder is a layer: it imports those before it, by their faces, without cycles."""

import ast
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "pagefeed"

CORE = (
    *("wiring", "_base", "storage", "dataset", "sequences", "order", "run", "ranks"),
    *("batches", "any_loader", "loader"),
)
BELOW = (
    *(
        "_core",
        "errors",
        "parsing",
        "_removed",
        "core",
        *(f"core.{name}" for name in CORE),
    ),
    *("rooms", "contract"),
)
"""Each may import those before it. A new folder of the core gets its place here."""
ABOVE = ("__init__", "__main__")
"""They may import all. What is neither here nor there is a room, between both."""

NAME_TYPES = {
    ("core", "wiring"),
    ("core", "loader"),
    ("core", "dataset", "dataset"),
    ("core", "dataset", "page_index"),
    ("core", "dataset", "spans"),
    ("core", "sequences", "cut"),
    ("core", "sequences", "sequence_index"),
    ("core", "batches", "settings"),
    ("core", "batches", "run_view"),
    ("core", "run", "run"),
}
"""Modules that name types of later layers: of functions and settings of rooms."""

MAY_TOUCH_FILES = (
    *("core.storage", "caches", "launch.cgroups"),
    *("remote", "integrations.ray", "cli", "reports.evidence", "reports.nodes"),
)
"""What asks the file system: for data storage alone, the others for their own files,
and for what it tells of this machine and process."""

FILE_MODULES = ("glob", "shutil", "io", "pyarrow.fs", "pyarrow.parquet")
FILE_CALLS = (
    *("stat", "lstat", "listdir", "scandir", "walk", "glob", "rglob", "iglob"),
    *("exists", "isfile", "isdir", "is_file", "is_dir", "getsize", "getmtime"),
    *("read_bytes", "read_text", "abspath", "realpath", "LocalFileSystem"),
)

Module = tuple[str, ...]
"""Where a module lies below the package; a folder's face is the folder."""
Imports = dict[Module, set[Module]]


def module_of(path: Path, package: Path) -> Module:
    parts = path.relative_to(package).with_suffix("").parts
    return parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts


def for_types(node: ast.stmt) -> TypeGuard[ast.If]:
    """Whether a block holds imports for type checkers alone."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(path: Path, package: Path, modules: set[Module]) -> Iterator[Module]:
    """Every module of the package that a file imports, for types alone included.

    A function may import a module of its own folder, which imports the function's.
    """
    home = (package.name, *path.relative_to(package).parent.parts)
    tree = ast.parse(path.read_text())
    left_out = set[ast.AST]()
    if module_of(path, package) in NAME_TYPES:
        left_out.update(*(block.body for block in tree.body if for_types(block)))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            folder = ".".join(home)
            left_out.update(
                node
                for node in ast.walk(function)
                if isinstance(node, ast.ImportFrom)
                and (node.module or "").rpartition(".")[0] == folder
            )
    for node in {*ast.walk(tree)} - left_out:
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
                found = tuple(rest)
                while found and found not in modules:
                    found = found[:-1]  # A name in a module, not a module.
                yield found or ("__init__",)


def read_imports(package: Path) -> Imports:
    """Which modules of the package each of its modules imports."""
    paths = sorted([*package.rglob("*.py"), *package.rglob("*.pyi")])
    modules = {module_of(path, package) for path in paths}
    return {
        module_of(path, package): set(imports_of(path, package, modules))
        for path in paths
    }


def layer_of(module: Module) -> str:
    """A folder or module of the package, or of its core."""
    return ".".join(module[:2]) if module[0] == "core" else module[0]


def place_of(layer: str) -> int:
    """Return the number of a layer; rooms share one."""
    order = (*BELOW, "a room", *ABOVE)
    return order.index(layer if layer in order else "a room")


def violations(imports: Imports) -> list[str]:
    """What is wrong with the imports, one line each."""
    tops = {layer_of(module) for module in imports}
    found = [
        f"{top}: in no layer; list it in CORE of tests/test_layers.py"
        for top in sorted(tops - {*BELOW})
        if top.startswith("core.")
    ]
    for module, targets in sorted(imports.items()):
        for target in sorted(targets):
            name, other = ".".join(module), ".".join(target)
            there, here = layer_of(target), layer_of(module)
            if place_of(there) > place_of(here):
                found.append(f"{name} imports {other}, which comes after it")
            # What lies in a folder is seen from inside; others see the face.
            elif target[:-1] not in (("core",), module[: len(target) - 1]):
                face = ".".join(target[:-1])
                found.append(f"{name} imports {other}: import it from {face}")
    return found


def circle(imports: Imports) -> list[str]:
    """Layers that import each other in a circle; empty if there are none."""
    layers: dict[str, set[str]] = {}
    for module, targets in imports.items():
        here = layer_of(module)
        layers.setdefault(here, set()).update({*map(layer_of, targets)} - {here})
    try:
        TopologicalSorter(layers).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_layers_hold():
    assert violations(read_imports(PACKAGE)) == []


def test_layers_exist():
    assert {*BELOW, *ABOVE} <= {layer_of(module) for module in read_imports(PACKAGE)}


def test_no_import_cycles():
    TopologicalSorter(read_imports(PACKAGE)).prepare()
    assert circle(read_imports(PACKAGE)) == []


def test_circles_of_rooms_are_found(tmp_path):
    package = tmp_path / "pagefeed"
    sources = {
        "text/__init__": "",
        "text/rows": "from pagefeed.view import V",
        "view": "",
        "images/__init__": "from pagefeed.images import sizes",
        "images/sizes": "import pagefeed.text",
    }
    for name, source in sources.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert circle(read_imports(package)) == []
    (package / "view.py").write_text("def f():\n    import pagefeed.images")
    assert {*circle(read_imports(package))} == {"text", "view", "images"}


def file_uses(source: str) -> list[str]:
    """Where a module asks the file system, one line each."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in FILE_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in FILE_MODULES:
            names = [node.module]
        elif isinstance(node, ast.Name) and node.id == "open":
            names = ["open"]
        elif isinstance(node, ast.Attribute) and node.attr in FILE_CALLS:
            names = [node.attr] * (ast.unparse(node.value) != "ast")
        elif isinstance(node, ast.Attribute) and node.attr == "open":
            # Of the standard library's own; an index of the data plane opens, too.
            names = ["open"] * (ast.unparse(node.value) in ("os", "io", "Path"))
        found += [f"line {node.lineno}: {name}" for name in names]  # type: ignore[attr-defined]
    return found


def test_files_of_data_are_touched_by_storage_alone():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(module_of(path, PACKAGE))
        if not name.startswith(MAY_TOUCH_FILES):
            found[name] = file_uses(path.read_text())
    assert {name: uses for name, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.stat(file)",
        "with open(file) as opened: pass",
        "from glob import iglob",
        "import glob",
        "Path(file).read_bytes()",
        "os.open(file, 0)",
        "import os\nos.path.abspath(file)",
        "arrow('pyarrow.fs').LocalFileSystem()",
    ],
)
def test_uses_of_files_are_found(source):
    assert len(file_uses(source)) == 1


FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})


def test_every_folder_says_what_is_in_it():
    for folder in FOLDERS:
        tree = ast.parse((folder / "__init__.py").read_text())
        assert ast.get_docstring(tree), folder


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("core/run/c", "from pagefeed.view import V", "c imports view, which"),
        ("core/run/c", "from ...view import V", "c imports view, which"),
        ("core/run/c", "import pagefeed.cli.demo", "c imports cli.demo, which"),
        ("errors", "def f():\n    from . import view", "errors imports view, which"),
        ("balance", "if TYPE_CHECKING:\n    from pagefeed import View", "__init__"),
        ("balance", "import pagefeed as pf", "balance imports __init__, which comes"),
        ("core/novel", "import os", "core.novel: in no layer"),
        ("view", "from pagefeed.core.run.b import f", "view imports core.run.b: imp"),
        ("view", "from pagefeed.text.rows import f", "view imports text.rows: imp"),
        ("core/loader", "from pagefeed.core.run import b", "import it from core.run"),
        ("core/order", "from pagefeed.core.run.b import f", "imports core.run.b, wh"),
    ],
)
def test_violations_are_found(tmp_path, module, source, found):
    package = tmp_path / "pagefeed"
    for name in ("__init__", "errors", "view", "cli/demo", "text/rows", "core/run/b"):
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from pagefeed.errors import PagefeedError")
    face = package / "text" / "__init__.py"
    face.write_text("from pagefeed.text import rows")
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
