"""Lines of code: what is left without blanks, comments, docstrings and imports.

``python tests/code_lines.py`` prints them for each part of the tree.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = {"Python, all": 39_900, "Rust, all": 30_900, "pagefeed/core": 6_400}
"""Lines of code that parts of the tree may have, with some room."""
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT),
    *(tokenize.DEDENT, tokenize.ENDMARKER),
}
TEST_MODULE = re.compile(r"\s*#\[cfg\(test\)\]\s*mod \w+ \{\n.*?\n\}\n", re.DOTALL)
RUST_IMPORT = re.compile(r"^\s*(pub(\(\w+\))? )?use [^;]*;\n", re.MULTILINE)


def is_left_out(node: ast.stmt) -> bool:
    """Whether a statement is an import, ``__all__`` or a docstring."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def of_python(text: str) -> int:
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and is_left_out(node):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def of_rust(text: str) -> int:
    """Count lines without those of tests in the same file."""
    text = RUST_IMPORT.sub("", TEST_MODULE.sub("\n", text))
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)


def of_file(path: Path) -> int:
    return (of_rust if path.suffix == ".rs" else of_python)(path.read_text())


def sources() -> list[Path]:
    """Return the files of the package and of the crates, without their tests.

    ``pagefeed-simulated`` is a crate for tests alone.
    """
    rust = [
        path
        for path in ROOT.glob("crates/*/src/**/*.rs")
        if "tests" not in path.parts
        and path.stem != "tests"
        and "pagefeed-simulated" not in path.parts
    ]
    return sorted([*rust, *ROOT.glob("python/**/*.py")])


def parts_of_tree() -> Counter[str]:
    """Lines of code of each part of the tree."""
    parts: Counter[str] = Counter()
    for path in sources():
        kind, *inside = path.relative_to(ROOT).parts
        if kind == "python":
            names = ["Python, all", "/".join(inside[:2])]
        else:
            names = ["Rust, all", "/".join([inside[0], *inside[2:3]])]
        parts.update(dict.fromkeys(names, of_file(path)))
    return parts


if __name__ == "__main__":
    for name, number in parts_of_tree().most_common():
        sys.stdout.write(f"{number:7,} {name}\n")
