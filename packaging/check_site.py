"""What every page of the built site has, so that a reader can go on from it."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["faults"]


def faults(site: Path, pages: list[str], *, date: bool) -> list[str]:
    """Return what pages of the site lack, a line for each fault.

    Args:
        site: Folder of the built site.
        pages: Paths of its pages in the order of the navigation, such as
            "reference/words/index.html".
        date: Whether each page must say when it was last changed.
    """
    found = []
    for path in pages:
        text = (site / path).read_text()
        needed = {
            "a heading": r"<h1[ >]",
            "the version it is true of": r'class="checked">True of version \d',
            "a link to the glossary": r'\s<a href="[./a-z]+/">Glossary</a></p>',
        }
        if date:
            needed["the day of its last change"] = r"last changed \d{4}-\d\d-\d\d"
        if path != pages[0]:
            needed["a link to the previous page"] = r"md-footer__link--prev"
        if path != pages[-1]:
            needed["a link to the next page"] = r"md-footer__link--next"
        found += [
            f"{path} has not {what}"
            for what, pattern in needed.items()
            if not re.search(pattern, text)
        ]
    return found
