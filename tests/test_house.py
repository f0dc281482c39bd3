"""How much a folder and a file hold: a reader finds the room within a minute."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_MODULES, MOST_LINES = 15, 400
ROOMS = ("python", "crates", "tests", "benchmarks", "examples", "packaging")
FACES = ("__init__.py", "conftest.py", "lib.rs", "mod.rs")
"""What says what a folder is, and is none of its modules."""


def modules() -> list[Path]:
    found = [
        path
        for room in ROOMS
        for kind in ("*.py", "*.rs")
        for path in (ROOT / room).rglob(kind)
        if path.name not in FACES and "target" not in path.parts
    ]
    assert len(found) > 100
    return found


FOLDERS = sorted({path.parent for path in modules()})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda at: str(at.relative_to(ROOT)))
def test_folders_have_few_modules(folder):
    assert len([path for path in modules() if path.parent == folder]) <= MOST_MODULES


def test_files_are_short():
    lines = {path: len(path.read_text().splitlines()) for path in modules()}
    assert {at: number for at, number in lines.items() if number > MOST_LINES} == {}
