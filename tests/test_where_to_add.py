"""The tree, and the table of where to add things, name what is there."""

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from pagefeed.core._base import FIELDS
from pagefeed.core.order import KINDS, Shuffle
from pagefeed.flat import FLAT_FORMATS
from pagefeed.selection.predicate import _MATCHES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "pagefeed"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
BEGIN = "## Where to add things"
ENDS = (".py", ".pyi", ".rs", ".md")
FREE = {"tokenizer.json", "pagefeed", "--json", "run"}
"""Spans that name nothing of the tree."""


def rows() -> list[str]:
    lines = PAGE[PAGE.index(BEGIN) :].splitlines()
    return [line for line in lines if line.startswith("| ")][2:]


def places_of(row: str) -> dict[str, Path]:
    """The paths that a row names, by how they are written."""
    spans = re.findall(r"`([^`]+)`", row)
    named = [span for span in spans if "/" in span or span.endswith(ENDS)]
    found = {}
    for span in named:
        places = [root / span for root in (ROOT, PACKAGE) if (root / span).exists()]
        assert places, f"{span} is not there"
        found[span] = places[0]
    return found


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return tree


def sources_of(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [path for path in place.rglob("*") if path.suffix in ENDS]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_what_a_row_names_is_there(row):
    places = places_of(row)
    assert places
    words = set[str]()
    for place in (*places.values(), PACKAGE / "contract.py"):
        for path in sources_of(place):
            words.update(re.findall(r"\w+", path.read_text()))
    for span in re.findall(r"`([^`]+)`", row):
        if span not in places and span not in FREE:
            assert {*re.findall(r"\w+", span)} <= words, f"{span} is not in {[*places]}"


def test_the_tree_names_every_folder_and_room():
    tree = PAGE[PAGE.index("\npython/pagefeed/ ") : PAGE.index("\ntests/ ")]
    words = {*re.findall(r"^ +([\w /]+?)(?:  |$)", tree, re.MULTILINE)}
    named = {word.rstrip("/") for each in words for word in each.split()}
    folders = [PACKAGE, PACKAGE / "core"]
    found = {path for folder in folders for path in folder.iterdir()}
    rooms = {path.stem for path in found if path.is_dir() or path.suffix == ".py"}
    hidden = {"__init__", "__main__", "__pycache__", "_core"}
    assert rooms - named - hidden == set()


def test_there_is_one_table():
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert "(ARCHITECTURE.md#where-to-add-things)" in contributing
    assert "FLAT_FORMATS" not in contributing
    assert len(rows()) > 20


def test_one_table_lists_the_kinds_of_shuffle():
    others = {f'"{kind}"' for kind in KINDS if kind and kind != "page"}
    for path in PACKAGE.rglob("*.py"):
        for paragraph in path.read_text().split("\n\n"):
            named = {kind for kind in others if kind in paragraph}
            assert len(named) < 2 or path.name == "shuffle.py", (path, named)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_for_users_have_each_kind_of_shuffle(kind):
    page = (ROOT / "docs/explanation/shuffling.md").read_text()
    name = f'"{kind}"' if kind else "None"
    assert re.search(rf"^\| `{name}`", page, re.MULTILINE)
    rows = (inspect.getdoc(Shuffle) or "").splitlines()
    found = [row.endswith(KINDS[kind].words) for row in rows if row.startswith(name)]
    assert found == [True]


ADAPTERS = [
    path
    for path in sorted((PACKAGE / "integrations").glob("*.py"))
    if "warn_of_newer(" in path.read_text() and path.stem != "versions"
]
LISTS: dict[str, tuple[Iterable[str], list[str]]] = {
    "fields of batches": (FIELDS, ["docs/explanation/sequences.md"]),
    "formats of token files": (FLAT_FORMATS, ["tests/made/flat_files.py"]),
    "functions of predicates": (
        _MATCHES,
        ["docs/explanation/filtering.md", "tests/property/test_predicate_values.py"],
    ),
}
"""What the tables of the package list, and files that name all of it."""


@pytest.mark.parametrize("kind", LISTS)
def test_what_is_added_is_named_where_its_row_says(kind):
    names, files = LISTS[kind]
    for file in files:
        words = {*re.findall(r"\w+", (ROOT / file).read_text())}
        missing = [name for name in names if name not in words]
        assert not missing, f"{file} does not name {missing}"


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_an_adapter_has_a_lock_a_loop_and_a_page(path):
    trainers = ROOT / "tests" / "trainers"
    assert (trainers / "locks" / f"{path.stem}.txt").exists()
    loops = (trainers / "jobs" / "adapters.py").read_text()
    loops += "".join(test.name for test in trainers.glob("test_*.py"))
    assert path.stem in loops
    page = (ROOT / "docs" / "explanation" / "trainers.md").read_text()
    assert f"integrations.{path.stem}" in page or path.stem in page.lower()


def test_a_framework_needs_no_other_file():
    """What all adapters share names no framework that an adapter can name itself."""
    names = {path.stem for path in ADAPTERS} - {"accelerate", "transformers", "ray"}
    for shared in ("checks", "delivery", "evaluation", "learning"):
        text = (PACKAGE / "integrations" / f"{shared}.py").read_text()
        code = ast.unparse(without_docstrings(ast.parse(text))).lower()
        found = {name for name in names if re.search(rf"\b{name}\b", code)}
        assert found <= {"megatron"}, shared  # An error names it as the way out.
