"""The prose of source code: docstrings, comments and strings with words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

CODE = re.compile(r"`[^`]*`")
COMMENT = re.compile(r"\s*//[/!]? ?(.*)")
ASIDE = re.compile(r"(?<![:\"\w/])// (.*)")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
HEADLINE = re.compile(r"(?:\A|^(?![ \t]*//[/!]).*\n)[ \t]*//[/!] ?(.*)", re.MULTILINE)
"""The first line of each comment of documentation in Rust."""
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(])|\n\s*\n|\n(?=\s*[-*|] )")


def sentences_of_source(path: Path) -> Iterator[str]:
    """Sentences of docstrings, comments and strings, with inline code as backquotes."""
    parts = _of_python if path.suffix in {".py", ".pyi"} else _of_rust
    for text in parts(path.read_text()):
        for sentence in END.split(CODE.sub("`", text)):
            yield " ".join(sentence.split())


def headlines_of_source(path: Path) -> Iterator[str]:
    """First lines of the docstrings of a file, those of attributes included."""
    if path.suffix == ".rs":
        yield from HEADLINE.findall(path.read_text())
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value).partition("\n")[0]


def _of_python(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and " " in str(node.value):
            yield str(node.value)
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield " ".join(lines)
                lines = []
            lines.append(token.string[1:])
            last = token.start[0]
    yield " ".join(lines)


def _of_rust(source: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*source.splitlines(), ""]:
        if found := COMMENT.match(line):
            lines.append(found[1])
            continue
        yield "\n".join(lines)
        lines = []
        yield from (each[1] for each in ASIDE.finditer(line))
        yield from (each[1] for each in STRING.finditer(line) if " " in each[1])
