"""A module of a crate is a layer: it uses those before it, without circles."""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from code_lines import TEST_MODULE

CRATES = Path(__file__).resolve().parent.parent / "crates"

LAYERS = {
    "pagefeed-core": (
        *("sync", "error", "limits", "arena", "buffers", "prefetch", "simd"),
        *("parallel", "search", "pickle", "order", "thrift", "codec", "encodings"),
        *(
            "storage",
            "descriptors",
            "file_reads",
            "store",
            "lists",
            "schema",
            "header",
            "footer",
        ),
        *("write", "text", "infill", "tokens", "fields", "gather", "packing"),
        *("page", "levels", "decode", "metadata", "index", "engine", "pages"),
    ),
    "pagefeed-remote": (
        *("counters", "runtime", "options", "address", "transport", "pace", "requests"),
        *("cache", "backends", "live", "listing", "reading", "remote"),
    ),
    "pagefeed-simulated": (
        *("random", "policy", "scheduler", "time", "mutex", "condvar", "thread"),
    ),
    "pagefeed-tokenizer": ("json_lines", "patterns", "exact", "fast", "tokenizer"),
    "pagefeed-python": (
        *(
            "error",
            "run",
            "numbers",
            "types",
            "view",
            "asked",
            "storage",
            "made",
            "arrow",
        ),
        *("fields", "buffer", "aligned", "infill", "naming", "order", "packing"),
        *("plan", "pad", "index", "expansion", "ranges", "flat", "values", "metadata"),
        *("columns", "documents", "engine", "rows", "tokenizer"),
        "list_file",
    ),
}
"""Modules of each crate, folders or files. Each may use those before it."""

Module = tuple[str, ...]
"""Where a module lies below its crate; that of ``lib.rs`` is empty."""

NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|\bpub\([^)]*\)', re.DOTALL
)
"""Comments, strings, and how widely a name is seen."""
USE = re.compile(r"\b(pub )?\s*use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])\w+(?:\s*::\s*\w+)+")


def leaves(tree: str) -> Iterator[tuple[Module, str]]:
    """Every path of a ``use``, its braces opened, and the name that it brings."""
    head, brace, inside = tree.strip().partition("{")
    if not brace:
        spelled, _, alias = head.partition(" as ")
        parts = tuple(re.findall(r"\w+|\*", spelled))
        yield parts, alias.strip() or parts[-1]
        return
    prefix = tuple(re.findall(r"\w+", head))
    depth, branch = 0, ""
    for character in inside.rstrip().removesuffix("}") + ",":
        depth += (character == "{") - (character == "}")
        if character != "," or depth:
            branch += character
            continue
        for path, name in leaves(branch) if branch.strip() else ():
            if path == ("self",):
                yield prefix, prefix[-1] if name == "self" else name
            else:
                yield (*prefix, *path), name
        branch = ""


class Crate:
    """The modules of a crate without its tests, and the paths that each spells."""

    def __init__(self, source: Path):
        self.texts: dict[Module, str] = {}
        for file in sorted(source.rglob("*.rs")):
            parts = file.relative_to(source).with_suffix("").parts
            if "tests" not in parts:
                module = parts[:-1] if parts[-1] in ("mod", "lib") else parts
                text = NOISE.sub(
                    lambda found: "pub " if found[0].startswith("pub") else "",
                    TEST_MODULE.sub("\n", file.read_text()),
                )
                self.texts[module] = text
        self.names: dict[Module, dict[str, Module]] = {}
        """What a module calls by one name: paths from the root of the crate."""
        self.faces: dict[Module, dict[str, Module]] = {}
        """Names that a module gives of those inside it."""
        for module, text in self.texts.items():
            names: dict[str, Module] = self.names.setdefault(module, {})
            face: dict[str, Module] = self.faces.setdefault(module, {})
            for public, tree in USE.findall(text):
                for spelled, name in leaves(tree):
                    path = self.absolute(module, spelled)
                    if path is not None:
                        is_face = public and path[: len(module)] == module
                        (face if is_face else names)[name] = path

    def absolute(self, module: Module, path: Module) -> Module | None:
        """A path from the root of the crate; None of one that leads out of it."""
        first, *rest = path
        if first == "crate":
            return tuple(rest)
        if first == "self":
            return (*module, *rest)
        if first == "super":
            home = module[:-1]
            while rest[:1] == ["super"]:
                home, rest = home[:-1], rest[1:]
            return (*home, *rest)
        return (*module, *path) if (*module, first) in self.texts else None

    def owner(self, path: Module) -> Module:
        """The module that holds what a path names, behind all faces."""
        here: Module = ()
        rest = list(path)
        while rest:
            name = rest.pop(0)
            if (*here, name) in self.texts:
                here = (*here, name)
            elif name in self.faces.get(here, {}):
                here, rest = (), [*self.faces[here][name], *rest]
            else:
                break
        return here

    def uses(self) -> dict[Module, set[Module]]:
        """The other modules that each one uses."""
        found = {}
        for module, text in self.texts.items():
            paths = list(self.names[module].values())
            for spelled in PATH.findall(USE.sub("", text)):
                first, *rest = re.findall(r"\w+", spelled)
                base = self.names[module].get(first)
                path = self.absolute(module, (first, *rest))
                if base is not None:
                    paths.append((*base, *rest))
                elif path is not None:
                    paths.append(path)
            found[module] = {self.owner(path) for path in paths} - {module}
        return found


def violations(source: Path, layers: tuple[str, ...]) -> list[str]:
    """What is wrong with the modules of a crate, one line each."""
    places = {name: place for place, name in enumerate(layers)}
    uses = Crate(source).uses()
    tops = {module[0] for module in uses if module}
    found = [
        f"{top}: in no layer; list it in LAYERS" for top in sorted(tops - set(layers))
    ]
    found += [f"{name}: is no module" for name in layers if name not in tops]
    for module, others in sorted(uses.items()):
        for other in sorted(others):
            if (
                module
                and places.get(module[0], -1)
                < places.get((other or ("",))[0], len(layers))
                and module[:1] != other[:1]
            ):
                path = "::".join(other) or "the crate's own file"
                found.append(f"{'::'.join(module)} uses {path}, which comes after it")
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        circle = " <- ".join("::".join(module) or "lib" for module in error.args[1])
        found.append(f"a circle of files: {circle}")
    return found


@pytest.mark.parametrize("crate", LAYERS)
def test_layers_hold(crate):
    assert violations(CRATES / crate / "src", LAYERS[crate]) == []


def test_every_crate_has_layers():
    assert {path.parent.name for path in CRATES.glob("*/src")} == set(LAYERS)


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("low", "use crate::high;", "low uses high, which comes after it"),
        ("low", "use super::high::{self, inner::{A as B, C}};", "low uses high::inner"),
        ("low", "use crate::{error::E,\n    high};", "low uses high, which"),
        ("low", "fn f() -> crate::high::inner::A { todo!() }", "low uses high::inner"),
        ("low", "pub(crate) use crate::high::F;", "low uses high::inner"),
        ("error", "use crate::low;\nfn f() { low::g() }", "error uses low, which"),
        ("high/inner", "use super::other;", "a circle of files: high::"),
        ("high/inner", "fn f() { super::other::g(); }", "a circle of files: high::"),
        ("high/third", "fn f() { crate::low::g(); }", None),
        ("new", "fn f() {}", "new: in no layer"),
        ("low", "// use crate::high;", None),
        ("low", 'const A: &str = "crate::high::B";', None),
        ("low", "#[cfg(test)]\nmod tests {\n    use crate::high;\n}\n", None),
        ("low/tests", "use crate::high;", None),
    ],
)
def test_violations_are_found(tmp_path, file, text, found):
    sources = {
        "lib": "mod error; mod low; mod high; pub use error::E;",
        "error": "pub struct E;",
        "low": "use crate::error::E;",
        "high/mod": "mod inner; mod other;\npub use inner::F;\nuse crate::{E, low::G};",
        "high/inner": "use std::fmt;",
        "high/other": "use super::F;",
    }
    for name, source in (sources | {file: text}).items():
        path = tmp_path / f"{name}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    lines = violations(tmp_path, ("error", "low", "high"))
    assert bool(lines) == (found is not None)
    assert found is None or any(found in line for line in lines)
