"""How much a file holds: a reader finds the subject within a minute."""

import ast
from pathlib import Path

from code_lines import ROOT, of_file, of_rust, sources
from pagefeed import errors

MOST_LINES = {".py": 300, ".rs": 350}
MOST_OF_TESTS = 400
"""Lines of code: see `code_lines`."""
SOURCES = frozenset(sources())
ROOMS = ("python", "crates", "tests", "benchmarks", "examples", "packaging")


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
    lines = {path: of_file(path) for path in modules()}
    long = {str(at): number for at, number in lines.items() if number > limit(at)}
    assert long == {}


def test_the_room_of_images_is_small():
    room = ROOT / "python" / "pagefeed" / "images"
    assert 0 < sum(map(of_file, room.rglob("*.py"))) <= 700


def test_only_code_is_counted(tmp_path):
    source = tmp_path / "some.py"
    source.write_text('"""Doc."""\n\nimport os\n\n# Why.\nX = {\n    1: os,\n}\n')
    assert of_file(source) == 3
    assert of_rust("// Why.\nuse a::{\n    b,\n};\n\nfn f() {}\n") == 1
    tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"
    assert of_rust(tests) == 1


def calls(name: str) -> list[tuple[Path, ast.Call]]:
    """Calls of some ``object.method`` in the package, and where they are."""
    return [
        (path, node)
        for path in (ROOT / "python" / "pagefeed").rglob("*.py")
        if name in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    ]


def test_what_is_logged_is_for_nobody_to_act_on():
    # It is never seen: what a user should know is a warning or an error.
    loud = [f"logger.{level}" for level in ("warning", "error", "exception")]
    assert [call for name in loud for call in calls(name)] == []
    assert len(calls("logger.info")) > 20


def test_warnings_are_of_categories_of_ours():
    found = calls("warnings.warn")
    assert len(found) > 10
    for path, call in found:
        assert len(call.args) == 2, f"{path}:{call.lineno} names no category"
        category = getattr(errors, ast.unparse(call.args[1]))
        assert issubclass(category, errors.PagefeedWarning), path
