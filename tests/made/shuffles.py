"""Shuffles that differ on small data, too: a window that holds it shuffles in full."""

from typing import Any

import pagefeed as pf

PAGES = pf.Shuffle(window=20)
ROW_GROUPS = pf.Shuffle(block="row_group", window=20)
BUFFER = pf.Shuffle(block="buffer", window=96)

SHUFFLES: list[Any] = ["page", "row", None, PAGES, ROW_GROUPS, BUFFER]
