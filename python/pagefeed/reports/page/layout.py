"""The frame of a page: one file of HTML that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["page_of", "section", "table"]

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a202c; background: #fff;
  max-width: 900px; margin: 0 auto; padding: 16px; overflow-wrap: anywhere; }
h1 { font-size: 1.5em; margin: 0.3em 0; }
h2 { font-size: 1.15em; margin: 1.8em 0 0.4em; border-bottom: 1px solid #cbd5e0; }
p { margin: 0.5em 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.93em; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid #e2e8f0;
  overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #a0aec0; vertical-align: bottom; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: #2d3748; }
img.map { width: 100%; height: 240px; image-rendering: pixelated; display: block;
  border: 1px solid #a0aec0; }
ul.legend { list-style: none; padding: 0; margin: 0.3em 0; display: flex;
  flex-wrap: wrap; gap: 4px 16px; font-size: 0.9em; }
ul.legend span { display: inline-block; width: 12px; height: 12px; margin-right: 5px;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.bad { color: #9b2c2c; }
.note { color: #4a5568; font-size: 0.9em; }
@media (max-width: 520px) {
  body { padding: 10px; }
  svg text { font-size: 19px; }
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
    """Return a part of a page under its title; nothing if it is empty."""
    inside = "".join(parts)
    if not inside:
        return ""
    return f"<section><h2>{html.escape(title)}</h2>{inside}</section>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; what it holds is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_shown(cell))}</td>' for cell in row)}</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _shown(cell: object) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return str(cell)
