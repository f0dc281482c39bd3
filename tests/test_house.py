"""How much a file holds: a reader finds the subject within a minute."""

import ast
from collections import defaultdict
from pathlib import Path

from code_lines import BUDGETS, ROOT, of_file, of_rust, parts_of_tree, sources
from pagefeed import errors

MOST_LINES = {".py": 300, ".rs": 350}
MOST_OF_TESTS = 400
"""Lines of code: see `code_lines`."""
SOURCES = frozenset(sources())
PACKAGE = ROOT / "python" / "pagefeed"
ROOMS = ("python", "crates", "tests", "benchmarks", "examples", "packaging")


SAME_CLASS = {
    # As OLMo-core and torchtitan call theirs, NumpyDataLoader: a job uses one of them.
    "PagefeedDataLoader",
}
"""Names of several classes of the package."""
SAME_FUNCTION = {
    "arrow",  # Both import pyarrow; each says what its room needs it for.
    "attach",  # What a framework's own object is given: adapters share the verb.
    "check_counted",  # One condition, told in the words of adapters and of reports.
    "main",  # `python -m pagefeed` is the command.
    "megatron",  # Files of Megatron, `pagefeed.megatron`; and a batch in its dialect.
    "run",  # Of each verb.
}
"""Names of several public functions of the package, where no reader is misled."""
MOST_LOOKS = 72
"""How often the package asks whether an object has some attribute: for what users give,
and for objects of Python, of frameworks and of libraries."""


def modules() -> list[Path]:
    found = [
        path
        for room in ROOMS
        for kind in ("*.py", "*.rs")
        for path in (ROOT / room).rglob(kind)
        if "target" not in path.parts
    ]
    assert len(found) > 100
    return found


def limit(path: Path) -> int:
    is_source = path in SOURCES
    return MOST_LINES[path.suffix] if is_source else MOST_OF_TESTS


def test_files_are_short():
    # A file of few lines has no more lines of code, which take long to be counted.
    some = [path for path in modules() if path.read_text().count("\n") > limit(path)]
    lines = {path: of_file(path) for path in some}
    assert len(lines) > 10
    long = {str(at): number for at, number in lines.items() if number > limit(at)}
    assert long == {}


def test_parts_of_the_tree_stay_within_their_budgets():
    parts = parts_of_tree()
    assert parts["pagefeed/core"] > 1000
    assert {name: parts[name] for name in BUDGETS if parts[name] > BUDGETS[name]} == {}


def test_only_code_is_counted(tmp_path):
    source = tmp_path / "some.py"
    source.write_text('"""Doc."""\n\nimport os\n\n# Why.\nX = {\n    1: os,\n}\n')
    assert of_file(source) == 3
    assert of_rust("// Why.\nuse a::{\n    b,\n};\n\nfn f() {}\n") == 1
    tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"
    assert of_rust(tests) == 1


def defined(kind: type[ast.stmt] | tuple[type[ast.stmt], ...]) -> dict[str, list[str]]:
    """Names that several modules of the package define at their top, and where."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, kind):
                found[node.name].append(f"{path.relative_to(PACKAGE)}")  # type: ignore[attr-defined]
    assert len(found) > 400
    return {name: where for name, where in found.items() if len(where) > 1}


def test_a_class_has_a_name_of_its_own():
    same = defined(ast.ClassDef)
    assert {name: same[name] for name in same if name not in SAME_CLASS} == {}
    assert same.keys() == SAME_CLASS


def test_a_public_function_has_a_name_of_its_own():
    same = defined((ast.FunctionDef, ast.AsyncFunctionDef))
    public = {name: same[name] for name in same if not name.startswith("_")}
    assert {name: public[name] for name in public if name not in SAME_FUNCTION} == {}
    assert public.keys() == SAME_FUNCTION


def looks(path: Path) -> int:
    """How often a file asks an object whether it has an attribute of some name."""
    return sum(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"getattr", "hasattr"}
        and isinstance(node.args[1], ast.Constant)
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_what_is_ours_says_what_it_is():
    found = {
        f"{path.relative_to(PACKAGE)}": looks(path)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in {"integrations", "launch"}
    }
    assert 0 < sum(found.values()) <= MOST_LOOKS, found


def calls(name: str) -> list[tuple[Path, ast.Call]]:
    """Calls of some ``object.method`` in the package, and where they are."""
    return [
        (path, node)
        for path in PACKAGE.rglob("*.py")
        if name in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    ]


def test_what_is_logged_is_for_nobody_to_act_on():
    # It is never seen: what a user should know is a warning or an error. Only while a
    # user waits there is no line of theirs to warn at.
    loud = [f"logger.{level}" for level in ("warning", "error", "exception")]
    found = {path.name for name in loud for path, _ in calls(name)}
    assert found == {"waiting.py"}
    assert len(calls("logger.info")) > 20


def test_warnings_are_of_categories_of_ours():
    found = calls("warn_user")
    assert len(found) > 10
    for path, call in found:
        assert len(call.args) == 2, f"{path}:{call.lineno} names no category"
        category = getattr(errors, ast.unparse(call.args[1]))
        assert issubclass(category, errors.PagefeedWarning), path
