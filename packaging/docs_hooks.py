"""Pages of the documentation that are made of the package: a reference of every name.

MkDocs calls `on_files`; the pages are made in memory, from signatures and docstrings.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import pagefeed
from pagefeed.cli import VERBS, make_parser

LINE = 80
SECTIONS = (
    "Cause",
    "Remedy",
    "Args",
    "Returns",
    "Yields",
    "Raises",
    "Attributes",
    "Example",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for the public names and one for the command line."""
    pages = {
        "reference/classes.md": _names_page(),
        "reference/errors.md": _errors_page(),
        "reference/command-line.md": _verbs_page(),
    }
    for path in Path(config.docs_dir).glob("notebooks/*.ipynb"):
        pages[f"notebooks/{path.stem}.md"] = _notebook_page(path)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation: recipes by their titles, and the generated pages."""
    parts = {name: pages for part in config.nav or () for name, pages in part.items()}
    parts["Recipes"] += _titles(Path(config.docs_dir), "recipes")
    parts["Notebooks"] += [
        {
            _notebook_page(path)
            .partition("\n")[0]
            .lstrip("# "): f"notebooks/{path.stem}.md"
        }
        for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb"))
    ]
    parts["Reference"] += [
        {"Classes and functions": "reference/classes.md"},
        {"Errors": "reference/errors.md"},
        {"Command line": "reference/command-line.md"},
    ]
    return config


def _titles(docs: Path, folder: str) -> list[dict[str, str]]:
    """Return the pages of a folder by their titles, its index first."""
    pages = (docs / folder).glob("*.md")
    titles = {page.read_text().partition("\n")[0].lstrip("# "): page for page in pages}
    order = sorted(titles, key=lambda title: (titles[title].stem != "index", title))
    return [{title: f"{folder}/{titles[title].name}"} for title in order]


def _notebook_page(path: Path) -> str:
    """A notebook as Markdown: its texts, its code, and what that printed."""
    lines = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        is_command = source.startswith("!")
        lines += [
            "```bash" if is_command else "```python",
            source.lstrip("!"),
            "```",
            "",
        ]
        for output in cell["outputs"]:
            lines += ["```text", "".join(output["text"]).rstrip(), "```", ""]
    name = f"[{path.name}]({path.name})"
    return "\n".join([*lines, f"Run it yourself: {name}."])


def _names_page() -> str:
    lines = ["# Classes and functions", ""]
    for name in sorted(pagefeed.__all__, key=str.lower):
        thing = getattr(pagefeed, name)
        if callable(thing):
            lines += _entry(f"pagefeed.{name}", thing)
    return "\n".join(lines)


def _errors_page() -> str:
    """Every error below its code, by which it is found; warnings have none."""
    kinds = [getattr(pagefeed.errors, name) for name in pagefeed.errors.__all__]
    kinds.sort(key=lambda kind: getattr(kind, "code", f"PF-999 {kind.__name__}"))
    first = (
        "Find the code that ends a message here: what causes the error, and what to do."
    )
    lines = ["# Errors", "", first, "", *_doc_lines(pagefeed.errors), ""]
    for kind in kinds:
        if kind is pagefeed.errors.PagefeedError or not hasattr(kind, "code"):
            lines += _entry(kind.__name__, kind)
        else:
            lines += [f"## {kind.code} {kind.__name__}", "", *_doc_lines(kind), ""]
    return "\n".join(lines)


def _verbs_page() -> str:
    lines = ["# Command line", "", "Every report has `--json`.", ""]
    parser = make_parser()
    [verbs] = [action for action in parser._actions if getattr(action, "choices", None)]
    for verb in VERBS:
        text = verbs.choices[verb].format_help()  # type: ignore[index]
        lines += [f"## pagefeed {verb}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def _entry(name: str, thing: Any) -> list[str]:
    """A name with its signature and docstring, and those of its members."""
    lines = [f"## {name.rpartition('.')[2]}", "", *_signature(name, thing)]
    lines += [*_doc_lines(thing), ""]
    if isinstance(thing, type):
        lines += [*_attributes(thing), ""]
        for member, value in _members(thing):
            lines += [f"### {thing.__name__}.{member}", ""]
            if isinstance(value, FunctionType | classmethod | staticmethod):
                lines += _signature(member, getattr(thing, member))
            lines += [*_doc_lines(value), ""]
    return lines


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties, those of the package's own bases too, each once."""
    seen = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("pagefeed"):
            continue
        for name, value in vars(base).items():
            kinds = FunctionType | classmethod | staticmethod | property
            is_ours = isinstance(value, kinds) and value.__doc__ and name not in seen
            if is_ours and not name.startswith("_"):
                seen.add(name)
                yield name, value


@cache
def _classes() -> dict[str, ast.ClassDef]:
    """All classes of the package as they are written: public names are unique."""
    return {
        node.name: node
        for path in Path(pagefeed.__file__).parent.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def _attributes(kind: type) -> Iterator[str]:
    """What is written below each field of a dataclass, as items of a list."""
    if not is_dataclass(kind):
        return
    body = _classes()[kind.__name__].body
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            said = " ".join(str(ast.literal_eval(text.value)).split())
            said = said.replace("``", "`")
            kind_of = ast.unparse(field.annotation)
            yield f"- `{ast.unparse(field.target)}: {kind_of}`: {said}"


def _signature(name: str, thing: Any) -> list[str]:
    """The call, a parameter a line if it is long."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        return []
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return []
    # Annotations are strings, which no reader wants to see; defaults keep quotes.
    parameters = [
        each.replace(annotation=_Plain(each.annotation))
        if each.annotation is not each.empty
        else each
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation
    signature = signature.replace(
        parameters=parameters,
        return_annotation=returned if returned is signature.empty else _Plain(returned),
    )
    text = str(signature)
    if len(name + text) > LINE:
        parts = []
        for each in signature.parameters.values():
            if each.kind is each.KEYWORD_ONLY and "*" not in parts:
                parts.append("*")
            parts.append(str(each))
        text = "(\n    " + ",\n    ".join(parts) + ",\n)" + text[text.rindex(")") + 1 :]
    return ["```python", f"{name}{text}".removesuffix(" -> None"), "```", ""]


class _Plain:
    """An annotation that is shown as it is written, without modules."""

    def __init__(self, annotation: Any) -> None:
        text = annotation if isinstance(annotation, str) else str(annotation)
        self._text = re.sub(r"\b[a-z_]\w*\.(?=\w)", "", text)

    def __repr__(self) -> str:
        return self._text


def _doc_lines(thing: Any) -> list[str]:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    doc = inspect.getdoc(thing) or ""
    doc = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", doc).replace("``", "`")
    doc = re.sub(r"::$", ":", doc, flags=re.MULTILINE)
    lines, in_example, in_section = [], False, False
    for line in doc.splitlines():
        title = line.strip().removesuffix(":")
        if title in SECTIONS and line.endswith(":") and not line.startswith(" "):
            lines += ["```"] * in_example + ["", f"**{title}**", ""]
            in_example, in_section = title == "Example", title != "Example"
            lines += ["```pycon"] * in_example
        elif in_example:
            lines.append(re.sub(r"  # doctest:.*", "", line[4:]))
        elif in_section and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            named = colon and re.fullmatch(r"[\w*., ]+", name)
            lines.append(f"- `{name}`: {rest}" if named else f"- {line.strip()}")
        elif in_section:
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line)
    return lines + ["```"] * in_example
