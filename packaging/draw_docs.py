"""Draw the pictures of the documentation: `python packaging/draw_docs.py`.

Lanes and window are those of a small example, the fleet is of a run that
`benchmarks/bench_elastic.py --keep` wrote down. A test holds that the committed files
are what this draws.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/pictures"
INK = "var(--ink)"
STYLE = """\
<style>
  svg { --page: #ffffff; --ink: #20232a; --line: #d7dae0 }
  @media (prefers-color-scheme: dark) {
    svg { --page: #0d1117; --ink: #f0f6fc; --line: #3d444d }
  }
</style>"""
COLOURS = ["#3949ab", "#00897b", "#e07b00", "#8e24aa"]
CELL = 22


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)


def pictures() -> dict[str, str]:
    """Return every picture by the name of its file."""
    run = json.loads((ROOT / "benchmarks/elastic.json").read_text())
    return {
        "lanes.svg": _lanes(),
        "window.svg": _window(),
        "fleet.svg": _fleet(run),
        "prompts.svg": _prompts(),
        "mark.svg": _mark("#ffffff", "#ffb74d"),
        "favicon.svg": _mark("#3949ab", "#e07b00"),
    }


def _mark(ink: str, accent: str) -> str:
    """The mark: pages on the left, taken in turn, leave as one row."""
    bars = [(y, width) for y, width in ((3, 9), (9, 6), (15, 9))]
    rows = [
        f'<rect x="2" y="{y}" width="{width}" height="4" rx="1.2" fill="{ink}"/>'
        for y, width in bars
    ]
    dots = [
        f'<rect x="{x}" y="9" width="4" height="4" rx="1.2" fill="{accent}"/>'
        for x in (13, 18.5)
    ]
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 22">'
    return "\n".join([head, *rows, *dots, "</svg>\n"])


def _lanes() -> str:
    """Pages of a dataset, permuted, cut into lanes, and taken in turn."""
    pages = [(file, page) for file in range(4) for page in range(6)]
    mixed = pages.copy()
    random.Random(3).shuffle(mixed)  # noqa: S311 - a picture
    lanes = [mixed[start : start + 6] for start in range(0, 24, 6)]
    turns = [lane[turn] for turn in range(6) for lane in lanes]
    parts = [
        *_row(0, "1. Pages as stored, a colour a file", pages),
        *_row(1, "2. Pages permuted with the seed and epoch", mixed),
        _text(16, 162, "3. Cut into lanes, read at the same time", bold=True),
    ]
    for number, lane in enumerate(lanes):
        y = 174 + number * (CELL + 6)
        parts.append(_text(16, y + 16, f"lane {number}"))
        parts += _cells(80, y, lane)
    parts += [
        _text(16, 316, "4. Batches take from all lanes in turn", bold=True),
        *_cells(16, 326, turns),
    ]
    batches = [
        _rect(16 + 4 * CELL * number, 326, 4 * CELL, CELL, "none", INK)
        for number in range(6)
    ]
    return _svg(560, 362, parts + batches)


def _window() -> str:
    """One lane: each sequence of its pages waits for a random part of the window."""
    chosen = random.Random(5)  # noqa: S311 - a picture
    line = [(page, number) for page in range(6) for number in range(4)]
    delays = [place + chosen.uniform(0, 10) for place in range(len(line))]
    left = [each for _, each in sorted(zip(delays, line, strict=True))]
    return _svg(
        560,
        178,
        [
            *_row(0, "Sequences of one lane, a colour a page", line),
            _rect(16, 33, 10 * CELL, CELL + 6, "none", INK),
            _text(20 + 10 * CELL, 72, "a window of ten sequences"),
            *_row(1, "The order in which they are delivered", left, down=24),
            _text(16, 164, "Each waits for a random part of the window."),
        ],
    )


def _fleet(run: dict[str, dict[str, list[int]]]) -> str:
    """Sequences of the steps of a run, by the replica that trained on them."""
    first, last, width, most = 24, 74, 10, 4
    ids = [i for parts in run.values() for part in parts.values() for i in part]
    told = f"{len(run)} steps: {len(set(ids)):,} sequences, {len(ids):,} trained"
    parts = [_text(16, 24, "Sequences of each step, a colour a replica", bold=True)]
    for step in range(first, last):
        y = 44.0
        for number, own in sorted(run[str(step)].items()):
            height = most * len(own)
            x = 16 + width * (step - first)
            parts.append(_rect(x, y, width - 2, height, COLOURS[int(number)]))
            y += height
    whole = max(map(len, run.values()))
    less = [step for step in range(first, last) if len(run[str(step)]) < whole]
    begin, end = 16 + width * (less[0] - first), 16 + width * (less[-1] + 1 - first)
    parts += [
        _text(begin, 184, f"killed at step {less[0] - 1}", anchor="middle"),
        _text(end, 184, f"back at step {less[-1] + 1}", anchor="middle"),
        _text(16, 208, told),
    ]
    return _svg(536, 224, parts)


def _prompts() -> str:
    """Positions at a checkpoint, and what three kinds of state continue with."""
    done, out, again = COLOURS[1], COLOURS[2], COLOURS[3]
    taken, flying = range(17), (5, 9, 12, 13, 15)
    trained = [n for n in taken if n > flying[0] and n not in flying]
    told = f"{len(flying)} that were out are lost"
    rows: list[tuple[str, dict[int, str]]] = [
        ("At a checkpoint: trained, out, not taken", dict.fromkeys(flying, out)),
        (f"A saved position goes on: {told}", dict.fromkeys(flying, "none")),
        (
            f"A low-water mark goes back: {len(trained)} are trained again",
            dict.fromkeys(range(flying[0], len(taken)), again)
            | dict.fromkeys(flying, out),
        ),
        (
            f"A queue takes those {len(flying)} first, and then goes on",
            dict.fromkeys(flying, out),
        ),
    ]
    parts = []
    for number, (title, changed) in enumerate(rows):
        y = 24 + 62 * number
        parts.append(_text(16, y, title, bold=True))
        for place in range(24):
            colour = changed.get(place, done if place in taken else "none")
            line = "var(--line)" if place not in taken else INK
            left = 17 + place * CELL
            edge = line if colour == "none" else "none"
            parts.append(_rect(left, y + 12, CELL - 2, CELL, colour, edge))
    return _svg(560, 264, parts)


def _row(
    number: int, title: str, cells: list[tuple[int, int]], down: int = 0
) -> list[str]:
    y = 24 + 62 * number + down
    return [_text(16, y, title, bold=True), *_cells(16, y + 12, cells)]


def _cells(x: int, y: int, cells: Iterable[tuple[int, int]]) -> Iterator[str]:
    for place, (group, number) in enumerate(cells):
        left = x + place * CELL
        colour = COLOURS[group % len(COLOURS)]
        yield _rect(left + 1, y, CELL - 2, CELL, colour)
        yield _text(left + CELL / 2, y + 15, str(number), anchor="middle", ink="#fff")


def _rect(
    x: float, y: float, width: float, height: float, fill: str, line: str = "none"
) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height}" rx="3" '
        f'style="fill: {fill}; stroke: {line}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    bold: bool = False,
    ink: str = INK,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}"{weight} '
        f'style="fill: {ink}">{escape(text)}</text>'
    )


def _svg(width: int, height: int, parts: Iterable[str]) -> str:
    """A picture on a panel of its own, so that it is legible on light and dark."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="sans-serif" font-size="13"'
    panel = (
        f'width="{width}" height="{height}" rx="8" '
        'style="fill: var(--page); stroke: var(--line)"'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    return "\n".join([head, STYLE, f"<rect {panel}/>", *parts, "</svg>\n"])


if __name__ == "__main__":
    main()
