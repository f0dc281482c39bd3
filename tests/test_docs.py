"""What the pages of docs/ show works as shown."""

from pathlib import Path

import pytest

from made.pages import run_page, surroundings
from made.shared_data import ROOT
from made.static_pages import faults_of_bash, faults_of_python, unrun_blocks
from pagefeed.cli.demo.data import write_data

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def name(page: Path) -> str:
    """How a test of a page is called."""
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """The example data, made once."""
    folder: Path = tmp_path_factory.mktemp("data") / "corpus"
    write_data(folder)
    return folder


@pytest.mark.dear
@pytest.mark.timeout(600)  # Some commands are two processes of torch.
@pytest.mark.filterwarnings("error")  # A reader would see them.
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_run_and_print_what_is_shown(page, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    with surroundings(text, corpus):
        for block in run_page(text):
            assert block.is_as_shown, (
                f"printed:\n{block.printed}\nshown:\n{block.output}"
            )


def test_blocks_that_are_not_run_use_what_exists():
    faults: list[tuple[str, str]] = []
    for page in PAGES:
        for language, text in unrun_blocks(page.read_text()):
            check = faults_of_python if language == "python" else faults_of_bash
            faults += ((name(page), fault) for fault in check(text))
    assert not faults


def test_names_that_do_not_exist_are_found():
    program = "import pagefeed as pf\nfrom pagefeed.torch import nothing\n"
    program += "loader = pf.Loadr(pf.parquet('a', colum='b'))\n"
    assert len(list(faults_of_python(program))) == 3
    assert list(faults_of_bash("pagefeed plan corpus --colum x"))
    assert list(faults_of_bash("torchrun examples/nothing.py"))


def test_outputs_are_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fence = "```"
    page = f'{fence}python\nprint("a", 1)\n{fence}\n\n{fence}text\na ...\n{fence}\n'
    [block] = run_page(page)
    assert block.is_as_shown
    [block] = run_page(page.replace("a ...", "b ..."))
    assert not block.is_as_shown


@pytest.mark.parametrize(
    "block", ["python\nraise SystemExit(3)", "bash\npagefeed plan"]
)
def test_a_block_that_exits_fails(block):
    fence = "```"
    with pytest.raises(AssertionError, match=r"exits with 3|nothing is named"):
        list(run_page(f"{fence}{block}\n{fence}\n"))
