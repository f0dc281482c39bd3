"""Draw the picture that links to the project show: SVG, 1280 x 640.

    python packaging/social_preview.py docs/pictures/social.svg

`chromium --headless --window-size=1280,640 --screenshot=docs/pictures/social.png
docs/pictures/social.svg` makes the PNG that hosts ask for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pagefeed as pf

WIDTH, HEIGHT = 1280, 640
COLUMNS, ROWS = 18, 8
CELL, GAP = 34, 8
COLOURS = ("#58a6ff", "#3fb950", "#d29922", "#f778ba", "#a371f7", "#39c5cf")
STYLE = "font-family: DejaVu Sans, Segoe UI, Helvetica, sans-serif"


def draw() -> str:
    """Return the picture: pages in the order of files, and in that of training."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" style="{STYLE}">'
    )
    parts = [
        head,
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#0d1117"/>',
        _text(80, 132, 84, "#f0f6fc", "pagefeed", weight=700),
        _text(82, 194, 31, "#c9d1d9", "Shuffled batches for training LLMs,"),
        _text(
            82, 236, 31, "#c9d1d9", "straight from Parquet. Exact resume, any ranks."
        ),
        *_cells(82, 290, range(COLUMNS // 3 * ROWS), COLUMNS // 3),
        _text(402, 478, 64, "#8b949e", "\u2192"),
        *_cells(520, 290, _shuffled(), COLUMNS - 2),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _shuffled() -> Iterator[int]:
    """An order by pagefeed's own permutation, repeated for a wider field."""
    count = COLUMNS // 3 * ROWS
    for epoch in range(3):
        order = pf.Permutation(count, seed=epoch)
        yield from (int(order[place]) for place in range(count))


def _cells(
    left: int, top: int, numbers: range | Iterator[int], across: int
) -> Iterator[str]:
    size = COLUMNS // 3 * ROWS // len(COLOURS)
    for place, number in zip(range(across * ROWS), numbers, strict=False):
        x = left + place // ROWS * (CELL + GAP)
        y = top + place % ROWS * (CELL + GAP) * 0.95
        yield (
            f'<rect x="{x}" y="{y:.0f}" width="{CELL}" height="{CELL - 4}" rx="5" '
            f'fill="{COLOURS[number // size]}"/>'
        )


def _text(x: int, y: int, size: int, colour: str, text: str, weight: int = 400) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}">{text}</text>'
    )


def main() -> None:
    """Write the picture to the path that is named."""
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
