"""Bars as an SVG for narrow and wide pages, light and dark."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

__all__ = ["Bar", "bars", "draw"]

WIDTH = 420
LEFT, RIGHT, TOP, ROW = 16, 64, 64, 34

STYLE = """\
  svg { --page: #ffffff; --ink: #1f2328; --faint: #59636e; --bar: #8c959f;
        --ours: #0969da; --line: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    svg { --page: #0d1117; --ink: #f0f6fc; --faint: #9198a1; --bar: #656c76;
          --ours: #4493f8; --line: #3d444d }
  }
  .page { fill: var(--page); stroke: var(--line) }
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink) }
  .title { font-size: 15px; font-weight: 600 }
  .faint { font-size: 12px; fill: var(--faint) }
  .bar { fill: var(--bar) }
  .ours { fill: var(--ours) }
"""

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-labelledby="title">
<title id="title">{title}</title>
<style>
{style}</style>
<rect class="page" x="0.5" y="0.5" width="99.7%" height="99.7%" rx="8"/>
<text class="title" x="16" y="26">{title}</text>
<text class="faint" x="16" y="46">{note}</text>"""

ROWS = """\
<text x="16" y="{name_at}">{name}</text>
<rect class="{kind}" x="16" y="{bar_at}" width="{length:.1f}" height="10" rx="2"/>
<text x="{end:.1f}" y="{value_at}">{value}</text>"""


class Bar(NamedTuple):
    """A row of the picture."""

    name: str
    value: float
    """Its length; below 0 there is none."""
    text: str
    """The value as written behind it."""
    is_ours: bool
    """Whether it has the colour of its own."""


def bars(title: str, note: str, rows: Sequence[Bar]) -> str:
    """Draw a bar for each row, from top to bottom.

    Args:
        title: What is shown.
        note: The unit, in one line.
        rows: Bars, in order.
    """
    most = max((row.value for row in rows), default=1.0)
    height = TOP + ROW * len(rows) + 8
    head = {"title": escape(title), "note": escape(note), "style": STYLE}
    parts = [HEAD.format(width=WIDTH, height=height, **head)]
    for number, row in enumerate(rows):
        top = TOP + number * ROW
        length = max(1.0, (WIDTH - LEFT - RIGHT) * row.value / most)
        parts.append(
            ROWS.format(
                name=escape(row.name),
                kind="ours" if row.is_ours else "bar",
                length=length,
                end=length + 6 + LEFT,
                value=escape(row.text),
                name_at=top + 12,
                bar_at=top + 17,
                value_at=top + 27,
            )
        )
    return "\n".join([*parts, "</svg>", ""])


def draw(found: dict[str, Any], ours: str = "pagefeed") -> str:
    """Draw the rate of each loader that ran, the fastest first.

    Args:
        found: Results, as the command writes them.
        ours: Loaders whose names begin so have a colour of their own.
    """
    rows = [row for row in found["results"] if row["rounds"]]
    rows.sort(key=lambda row: -row["tokens_per_second"])
    rates = [row["tokens_per_second"] / 1e6 for row in rows]
    note = f"million tokens a second, {found['machine']['processors']} processors"
    return bars(
        "Shuffled batches on one machine",
        note,
        [
            Bar(row["loader"], rate, f"{rate:.0f}", row["loader"].startswith(ours))
            for row, rate in zip(rows, rates, strict=True)
        ],
    )
