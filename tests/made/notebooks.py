"""Notebooks as programs: their cells run, and their outputs are kept in them.

A notebook is JSON: a list of cells with their source, and of a cell of code what it
printed. `python tests/made/notebooks.py docs/notebooks/*.ipynb` writes the outputs.
"""

import contextlib
import io
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from pagefeed.cli import main
from pagefeed.cli.demo.data import write_data


def run_notebook(notebook: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Run the cells of code in the working folder; return each with its output."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                run_cell("".join(cell["source"]), namespace)
            found.append((cell, out.getvalue()))
    return found


def run_cell(source: str, namespace: dict[str, Any]) -> None:
    """Run a cell: `!pagefeed` is a command, `%pip` is done already, all else Python."""
    if source.startswith("%pip install "):
        return
    if source.startswith("!pagefeed "):
        assert main(shlex.split(source.removeprefix("!pagefeed "))) == 0
    else:
        exec(compile(source, "<cell>", "exec"), namespace)


def shown(cell: dict[str, Any]) -> str:
    """The text that a notebook shows below a cell."""
    return "".join("".join(output["text"]) for output in cell["outputs"])


def fill(path: Path) -> None:
    notebook = json.loads(path.read_text())
    for number, (cell, text) in enumerate(run_notebook(notebook), 1):
        lines = text.splitlines(keepends=True)
        stream = {"name": "stdout", "output_type": "stream", "text": lines}
        cell |= {"execution_count": number, "outputs": [stream] if lines else []}
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder, "corpus"))
        for each in map(Path, sys.argv[1:]):
            path = each.absolute()
            place = Path(folder, path.stem)
            shutil.copytree(Path(folder, "corpus"), place / "corpus")
            with contextlib.chdir(place):
                fill(path)
