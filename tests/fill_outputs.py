"""Run pages of the documentation and write what their blocks print into them.

`python tests/fill_outputs.py docs/index.md ...` rewrites the output blocks that
differ; put `...` where an output is another each time, and the block stays.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from made.pages import surroundings, with_outputs


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name).absolute()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = page.read_text()
            with surroundings(text):
                filled = with_outputs(text)
        page.write_text(filled)
        print(f"{os.path.relpath(page)}: done")


if __name__ == "__main__":
    main()
