"""What can be said of code that no test runs: it parses, and its names exist."""

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pagefeed
from made.pages import FENCE
from made.shared_data import ROOT
from pagefeed.cli import make_parser

__all__ = ["faults_of_bash", "faults_of_python", "unrun_blocks"]


def unrun_blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield language and text of the blocks of Python and shell that are not run."""
    for match in FENCE.finditer(page):
        if match["skip"] or match["language"] in ("py", "sh"):
            is_python = match["language"].startswith("py")
            yield ("python" if is_python else "bash"), match["text"]


def faults_of_python(text: str) -> Iterator[str]:
    """Yield the names and arguments that pagefeed does not have."""
    names: dict[str, Any] = {"pf": pagefeed, "pagefeed": pagefeed}
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "pagefeed"
        ):
            yield from _imported(node, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _path(node) is not None:
            owner, known = _path(node.value), True
            if owner is not None:
                known = _resolved(owner, names) is None or (
                    _resolved([*owner, node.attr], names) is not None
                )
            if not known:
                yield f"{ast.unparse(node)} does not exist"
        elif isinstance(node, ast.Call):
            called = _resolved(_path(node.func) or [], names)
            taken = _arguments(called)
            given = [word.arg for word in node.keywords if word.arg]
            yield from (
                f"{ast.unparse(node.func)} takes no {name}="
                for name in given
                if taken is not None and name not in taken
            )


def faults_of_bash(text: str) -> Iterator[str]:
    """Yield the commands that pagefeed does not take, and programs that are missing."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["pagefeed"]:
            try:
                make_parser().parse_args(words[1:])
            except SystemExit:
                yield line
        for word in words:
            if re.fullmatch(r"(?:examples|benchmarks)/[\w/]+\.py", word):
                yield from [] if Path(ROOT, word).exists() else [word]


def _imported(node: ast.ImportFrom, names: dict[str, Any]) -> Iterator[str]:
    try:
        module = importlib.import_module(node.module or "")
    except ImportError:  # Of a framework that is not installed.
        return
    for alias in node.names:
        thing = getattr(module, alias.name, None)
        if thing is None:
            yield f"{node.module} has no {alias.name}"
        names[alias.asname or alias.name] = thing


def _path(node: ast.expr) -> list[str] | None:
    """Return the names of an expression such as ``pf.mixing.Learner``."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (path := _path(node.value)) is not None:
        return [*path, node.attr]
    return None


def _resolved(path: list[str], names: dict[str, Any]) -> Any:
    thing = names.get(path[0]) if path else None
    for name in path[1:]:
        thing = getattr(thing, name, None)
    return thing


def _arguments(called: Any) -> set[str] | None:
    """Return the names of what a callable takes; None if it takes any, or is none."""
    if called is None or not callable(called):
        return None
    parameters = signature(called).parameters.values()
    if any(parameter.kind == Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}
