"""Reprs: one line of text, and a table in notebooks; numbers in messages."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

Facts = Mapping[str, object]
"""Facts by name; those that are None are not shown."""

_LEFT = ' style="text-align:left"'


def text_of(kind: str, facts: Facts) -> str:
    """Return facts as one line, like the call of a constructor.

    Example:
        >>> text_of("Loader", {"rows": 2000, "column": "ids", "seed": None})
        "Loader(rows=2000, column='ids')"
    """
    shown = (f"{key}={value!r}" for key, value in facts.items() if value is not None)
    return f"{kind}({', '.join(shown)})"


def some_of(things: Sequence[object]) -> str:
    """Return the first eight of some things as text.

    Example:
        >>> some_of([1, 2]), some_of(range(10_000))
        ('1, 2', '0, 1, 2, 3, 4, 5, 6, 7, ...')
    """
    return ", ".join(map(str, things[:8])) + ", ..." * (len(things) > 8)


def html_of(kind: str, facts: Facts) -> str:
    """Return facts as an HTML table, a row for each fact; everything is escaped.

    Example:
        >>> "2,000 &lt;b&gt;" in html_of("Loader", {"rows": "2,000 <b>"})
        True
    """
    rows = [(key, value) for key, value in facts.items() if value is not None]
    return html_table(kind, (), rows)


def html_table(
    caption: str,
    header: Iterable[str],
    rows: Iterable[Iterable[object]],
    style: str = _LEFT,
) -> str:
    """Return a table of HTML whose first column names its rows; all of it is escaped.

    Args:
        caption: What it is about; may be empty.
        header: Names of the columns; may be empty.
        rows: Cells, that of the name first. None gives an empty one.
        style: Attributes of the cells.
    """
    head = "".join(f"<th{style}>{html.escape(name)}</th>" for name in header)
    lines = [f"<thead><tr>{head}</tr></thead>"] if head else []
    for name, *cells in rows:
        values = "".join(f"<td{style}>{_cell(value)}</td>" for value in cells)
        lines.append(f"<tr><th{style}>{_cell(name)}</th>{values}</tr>")
    if caption:
        code = f"<code>{html.escape(caption)}</code>"
        lines.insert(0, f"<caption{style}>{code}</caption>")
    return f"<table>{''.join(lines)}</table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return html.escape(", ".join(map(str, value)))
    return html.escape(str(value))
