"""The frame of a page: one file of HTML that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

STYLE = """
:root { color-scheme: light; --page: #fff; --ink: #1a202c; --faint: #4a5568;
  --line: #cbd5e0; --strong: #a0aec0; --bad: #9b2c2c; --bar: #2b6cb0; }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --page: #14181f; --ink: #e6e9ee; --faint: #a3adba;
    --line: #38424f; --strong: #64707f; --bad: #f2908f; --bar: #5b93cf; }
  svg .series { filter: brightness(1.25); }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--page); max-width: 900px; margin: 0 auto; padding: 16px;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5em; margin: 0.3em 0; }
h2 { font-size: 1.15em; margin: 1.8em 0 0.4em; border-bottom: 1px solid var(--line); }
p { margin: 0.5em 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.93em; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
tbody th { font-weight: normal; }
thead th { border-bottom: 2px solid var(--strong); vertical-align: bottom; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg line { stroke: var(--line); stroke-width: 0.7; }
td:has(.bar) { width: 60%; }
.bar { display: block; height: 0.9em; background: var(--bar); }
svg .series, ul.legend span, .bar { print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
img.map { width: 100%; height: 240px; image-rendering: pixelated; display: block;
  border: 1px solid var(--strong); }
ul.legend { list-style: none; padding: 0; margin: 0.3em 0; display: flex;
  flex-wrap: wrap; gap: 4px 16px; font-size: 0.9em; }
ul.legend span { display: inline-block; width: 12px; height: 12px; margin-right: 5px; }
.bad { color: var(--bad); }
.note { color: var(--faint); font-size: 0.9em; }
@media (max-width: 520px) {
  body { padding: 10px; }
  svg text { font-size: 21px; }
  table { font-size: 0.85em; }
  th, td { padding: 3px 2px; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  .scroll { overflow: visible; }
  section { break-inside: avoid; }
}
"""


def page_of(title: str, note: str, sections: Iterable[str]) -> str:
    """Return a whole page, with a note below its title."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{html.escape(title)}</h1><p class="note">{html.escape(note)}</p>'
        f"{''.join(sections)}</body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Return a section of a page under its title; nothing if it is empty."""
    inside = "".join(parts)
    if not inside:
        return ""
    return f"<section><h2>{html.escape(title)}</h2>{inside}</section>"


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table, which scrolls where it is too wide; all of it is escaped.

    The first cell of a row is its name. None gives an empty cell.
    """
    names = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    head = f"<thead><tr>{names}</tr></thead>" if names else ""
    lines = []
    for name, *cells in rows:
        values = "".join(f"<td>{_cell(value)}</td>" for value in cells)
        lines.append(f"<tr><th>{_cell(name)}</th>{values}</tr>")
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def bars(header: Iterable[str], rows: Sequence[tuple[str, int]]) -> str:
    """Return a table of names and numbers, with a bar as long as each number."""
    most = max([1, *(number for _, number in rows)])
    return table((*header, ""), [(name, n, _Bar(n / most)) for name, n in rows])


class _Bar(float):
    """Share of a cell's width that is filled."""


def _cell(value: object) -> str:
    if isinstance(value, _Bar):
        return f'<i class="bar" style="width:{100 * value:.1f}%"></i>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return html.escape(", ".join(map(str, value)))
    return "" if value is None else html.escape(str(value))
