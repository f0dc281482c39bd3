"""How much a file holds: a reader finds the subject within a minute."""

from pathlib import Path

from code_lines import ROOT, of_file, of_rust, sources

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


def test_only_code_is_counted(tmp_path):
    source = tmp_path / "some.py"
    source.write_text('"""Doc."""\n\nimport os\n\n# Why.\nX = {\n    1: os,\n}\n')
    assert of_file(source) == 3
    assert of_rust("// Why.\nuse a::{\n    b,\n};\n\nfn f() {}\n") == 1
    tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"
    assert of_rust(tests) == 1
