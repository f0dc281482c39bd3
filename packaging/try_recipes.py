"""Run every recipe on a wheel with just the packages that the recipe names.

For example: python packaging/try_recipes.py dist/pagefeed-*-x86_64.whl

Recipes that name the same packages share an environment; those that name none have
the extra `demo`, as the page of recipes says. What they print is compared with what
they show.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

__all__ = ["RUN", "recipes_by_needs"]

ROOT = Path(__file__).resolve().parent.parent
NEEDS = re.compile(r"This needs `pip install 'pagefeed\[([\w,]+)\]'((?: \w+)*)`")

RUN = """
import os, pathlib, sys, tempfile
from made.pages import run_page, surroundings
for page in map(pathlib.Path, sys.argv[1:]):
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with surroundings(text):
            for block in run_page(text):
                assert block.is_as_shown, (page, block.printed, block.output)
        os.chdir("/")
    print(page.stem, flush=True)
"""


def recipes_by_needs() -> dict[tuple[str, ...], list[Path]]:
    """Return the recipes by what they name: the extras, then other packages."""
    found = defaultdict(list)
    for page in sorted((ROOT / "docs" / "recipes").glob("*.md")):
        said = NEEDS.search(page.read_text())
        extras, others = said.groups() if said else ("demo", "")
        found[(extras, *others.split())].append(page)
    return dict(found)


def main() -> None:
    """Make an environment for each set of packages, and run its recipes there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel.resolve()
    with tempfile.TemporaryDirectory() as home:
        for number, ((extras, *others), pages) in enumerate(recipes_by_needs().items()):
            print(f"pagefeed[{extras}]", *others, flush=True)
            folder = Path(home, str(number))
            python = str(folder / "bin" / "python")
            subprocess.run(["uv", "venv", "--quiet", str(folder)], check=True)
            command = ["uv", "pip", "install", "--quiet", "--python", python]
            command += ["--constraint", str(ROOT / "constraints.txt")]
            command += [f"pagefeed[{extras}] @ {wheel.as_uri()}", *others]
            subprocess.run(command, check=True)
            tests = {"PYTHONPATH": str(ROOT / "tests")}
            subprocess.run(
                [python, "-c", RUN, *map(str, pages)],
                env=os.environ | tests,
                cwd=home,
                check=True,
            )


if __name__ == "__main__":
    main()
