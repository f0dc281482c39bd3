"""Run the pages of docs/coming-from with the loaders that they compare with.

`make coming-from` runs this where these loaders are installed. A block that is marked
as theirs is part of a program of its own; all others run as in every page.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from made.pages import FENCE, run_page
from pagefeed.cli.demo.data import write_data

PAGES = sorted((Path(__file__).parents[1] / "docs" / "coming-from").glob("*.md"))
THEIRS = "not run: theirs"
SECONDS = 200
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    # Their commands, such as `energon`.
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}


def theirs(page: str) -> str:
    """The program that another loader runs in: all blocks marked as theirs."""
    found = FENCE.finditer(page)
    return "\n".join(m["text"] for m in found if THEIRS in (m["skip"] or ""))


def run_theirs(program: str) -> str:
    Path("theirs.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "theirs.py"],
        env=os.environ | ENVIRONMENT | {"HF_HOME": os.path.abspath("hf")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    assert re.search(r"\(8, 128\)", done.stdout), done.stdout
    return done.stdout.strip().splitlines()[-1]


def main() -> None:
    chosen = [page for page in PAGES if not sys.argv[1:] or page.stem in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder, "corpus"))
        for page in chosen:
            place = Path(folder, page.stem)
            shutil.copytree(Path(folder, "corpus"), place / "corpus")
            with contextlib.chdir(place):
                program = theirs(page.read_text())
                printed = run_theirs(program) if program else "nothing"
                for block in run_page(page.read_text()):
                    assert block.is_as_shown, (page, block.printed, block.output)
            print(f"{page.stem}: ours ran, theirs printed {printed}", flush=True)


if __name__ == "__main__":
    main()
