"""Pages of the reference, made of the package: names, errors and the command line."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any

import pagefeed
from pagefeed.cli import VERBS, make_parser

__all__ = [
    "doc_lines",
    "errors_page",
    "linked_table",
    "names_pages",
    "public_names",
    "subjects",
    "verbs_page",
    "with_links",
]

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
TABLE = Path(__file__).parent.parent / "docs/reference/api.md"
MODULES = ("dataset", "mixing", "prepare", "reports", "run")
"""Public modules whose names have pages, too."""
OBJECTS = {"loader": "Loader", "dataset": "dataset.ParquetDataset"}
"""What guides call an object, and its class."""
LISTS = ("Args", "Raises", "Attributes")
"""Sections of items, each a name and what is said of it; others are prose."""


@cache
def public_names() -> dict[str, Any]:
    """Return what can be called of the package and its modules, by the name.

    Names of modules begin with theirs, such as ``dataset.ParquetDataset``; the table of
    all names has those that users call.
    """
    table = TABLE.read_text()
    things = {name: getattr(pagefeed, name) for name in pagefeed.__all__}
    for name in MODULES:
        module = import_module(f"pagefeed.{name}")
        for member in module.__all__:
            if f"`{name}.{member}`" in table:
                things[f"{name}.{member}"] = getattr(module, member)
    called = {name: thing for name, thing in things.items() if callable(thing)}
    # Some file systems do not tell `curriculum` from `Curriculum`: a guide has it.
    for name in [name for name in called if name.islower() and name.title() in called]:
        del called[name]
    return dict(sorted(called.items(), key=lambda item: item[0].lower()))


@cache
def names_pages() -> dict[str, str]:
    """Return a page for each public name, by the name."""
    return {
        name: "\n".join(_entry(f"pagefeed.{name}", thing))
        for name, thing in public_names().items()
    }


def subjects(table: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names by subject, in the order of the table of all names."""
    left, found, subject = set(names), dict[str, list[str]](), ""
    for line in table.splitlines():
        if heading := re.fullmatch(r"\| (\w[^|`]*) \| \|", line):
            subject = heading[1].capitalize()
        elif subject and line.startswith("| "):
            for name in re.findall(r"`([\w.]+)`", line):
                if name in left:
                    found.setdefault(subject, []).append(name)
                    left.remove(name)
    return found


def linked_table(table: str) -> str:
    """Return the table of all names, in which every name links to its page."""
    known = "|".join(map(re.escape, sorted(names_pages(), key=len, reverse=True)))
    return re.sub(rf"(?<!\[)`({known})`(?!\])", r"[`\1`](names/\1.md)", table)


def with_links(page: str, names: Iterable[str], folder: str) -> str:
    """Return a page on which names link to their pages, each where it comes first.

    Code spans link: `pf.Loader`, `Loader(...)` and `loader.seek(...)`. Plain words such
    as `tokens` do so only behind `pf.` or before a parenthesis. Headings, links and
    blocks of code stay as they are.
    """
    known, seen = set(names), set[str]()

    def link(match: re.Match[str]) -> str:
        span = match[1]
        full = re.match(r"((?:pf|pagefeed)\.)?([\w.]+)(\()?", span)
        if full is None:
            return match[0]
        name, anchor = full[2], ""
        owner, _, member = name.partition(".")
        if owner in OBJECTS and member.isidentifier() and full[3]:
            name, anchor = OBJECTS[owner], f"#{member}"
            if not hasattr(public_names()[name], member):
                return match[0]
        is_plain = name.islower() and not (full[1] or full[3] or "." in name)
        if name not in known or is_plain or name + anchor in seen:
            return match[0]
        seen.add(name + anchor)
        return f"[`{span}`]({folder}/{name}.md{anchor})"

    kept = r"```.*?^```|^#.*?$|\[[^\]]*\]\([^)]*\)|<[^>]*>"
    return re.sub(
        rf"{kept}|`([^`\n]+)`",
        lambda match: link(match) if match[1] else match[0],
        page,
        flags=re.DOTALL | re.MULTILINE,
    )


def errors_page() -> str:
    """Every error below its code, by which it is found; warnings have none."""
    kinds = [getattr(pagefeed.errors, name) for name in pagefeed.errors.__all__]
    kinds.sort(key=lambda kind: getattr(kind, "code", f"PF-999 {kind.__name__}"))
    first = (
        "Find the code that ends a message here: what causes the error, and what to do."
    )
    lines = ["# Errors", "", first, "", *doc_lines(pagefeed.errors), ""]
    for kind in kinds:
        if kind is pagefeed.errors.PagefeedError or not hasattr(kind, "code"):
            lines += ["#" + line for line in _entry(kind.__name__, kind)[:1]]
            lines += _entry(kind.__name__, kind)[1:]
        else:
            lines += [f"## {kind.code} {kind.__name__}", "", *doc_lines(kind), ""]
    return "\n".join(lines)


def verbs_page() -> str:
    """Return what each verb says of itself."""
    lines = ["# Command line", "", "Every report has `--json`.", ""]
    parser = make_parser()
    [verbs] = [action for action in parser._actions if getattr(action, "choices", None)]
    for verb in VERBS:
        text = verbs.choices[verb].format_help()  # type: ignore[index]
        lines += [f"## pagefeed {verb}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def _entry(name: str, thing: Any) -> list[str]:
    """A name with its signature and docstring, and those of its members."""
    lines = [f"# {name.removeprefix('pagefeed.')}", "", *_signature(name, thing)]
    lines += [*doc_lines(thing), ""]
    if isinstance(thing, type):
        lines += [*_attributes(thing), ""]
        for member, value in _members(thing):
            lines += [f"## {member}", ""]
            if isinstance(value, FunctionType | classmethod | staticmethod):
                lines += _signature(member, getattr(thing, member))
            lines += [*doc_lines(value), ""]
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
        if each.name != "self"
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


def doc_lines(thing: Any) -> list[str]:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    doc = inspect.getdoc(thing) or ""
    doc = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", doc).replace("``", "`")
    doc = re.sub(r"::$", ":", doc, flags=re.MULTILINE)
    lines, in_example, in_list, in_section = [], False, False, False
    for line in doc.splitlines():
        title = line.strip().removesuffix(":")
        if title in SECTIONS and line.endswith(":") and not line.startswith(" "):
            lines += ["```"] * in_example + ["", f"**{title}**", ""]
            in_example, in_section = title == "Example", title != "Example"
            in_list = title in LISTS
            lines += ["```pycon"] * in_example
        elif in_example:
            lines.append(re.sub(r"  # doctest:.*", "", line[4:]))
        elif in_list and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            named = colon and re.fullmatch(r"[\w*., ]+", name)
            lines.append(f"- `{name}`: {rest}" if named else f"- {line.strip()}")
        elif in_section:
            lines.append(f"  {line.strip()}" if in_list else line.strip())
        else:
            lines.append(line)
    return lines + ["```"] * in_example
