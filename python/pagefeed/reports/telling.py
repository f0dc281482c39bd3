"""Reports as text, at the width of a terminal, and as tables of HTML in notebooks."""

from __future__ import annotations

import os
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from html import escape
from typing import NamedTuple, TypeAlias

from pagefeed.errors import one_line

LEAST_WIDTH = 8
"""Characters that a column of a table keeps, however narrow the terminal is."""
UNBOUND = 10_000
"""Characters of a line where no terminal shows it."""

Facts = list[tuple[str, str]]
"""Labels and values."""


class Table(NamedTuple):
    """A table of texts and numbers."""

    title: str
    header: Sequence[str]
    """Headings of the columns."""
    rows: Sequence[Sequence[object]]
    """Cells of each row, one for each column."""
    left: int = 1
    """Columns of text, before those of numbers."""


Part: TypeAlias = Facts | Table | str


class Told(ABC):
    """A report that prints as its command does, and is a table in notebooks."""

    @abstractmethod
    def _parts(self) -> Iterable[Part]:
        """Return what is shown: facts, tables and sentences, in order."""

    def __str__(self) -> str:
        return "\n".join(lines_of([self]))

    def _repr_html_(self) -> str:
        return "".join(map(_html, self._parts()))


def lines_of(parts: Iterable[Part | Told]) -> Iterator[str]:
    """Yield the lines of parts of a report; each table stands apart."""
    for part in parts:
        if isinstance(part, Told):
            yield from lines_of(part._parts())  # noqa: SLF001 - of this module
        elif isinstance(part, str):
            yield from _wrapped(part, "")
        elif isinstance(part, Table):
            yield from ["", *(_wrapped(part.title, "") if part.title else [])]
            yield from table_lines(part.header, part.rows, left=part.left)
        else:
            yield from fact_lines(part)


def fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of labels and values."""
    given = [(label, one_line(value)) for label, value in facts]
    width = max([0, *(len(label) for label, _ in given)]) + 2
    lines = (_wrapped(f"{label:{width}}{value}", " " * width) for label, value in given)
    return [line for each in lines for line in each]


def table_lines(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1
) -> list[str]:
    """Return the lines of a table, with ``left`` columns of text before the numbers.

    Where the terminal is narrower, the widest columns are cut short.
    """
    cells = [[*header], *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - _width()
    while over > 0 and max(widths) > LEAST_WIDTH:
        widest = widths.index(max(widths))
        widths[widest] -= 1
        over -= 1
    return [
        "  ".join(
            f"{_short(cell, width):{'<' if n < left else '>'}{width}}"
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _width() -> int:
    """Return the width of the terminal; where there is none, lines stay whole."""
    with suppress(OSError, ValueError):
        given = os.environ.get("COLUMNS") or os.get_terminal_size().columns
        return int(given)
    return UNBOUND


def _wrapped(line: str, indent: str) -> list[str]:
    width = _width()
    if len(line) <= width:
        return [line]
    width = max(width, len(indent) + 2 * LEAST_WIDTH)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, drop_whitespace=True
    ) or [line]


def _short(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "~"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def _html(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    title, header, rows, left = part if isinstance(part, Table) else ("", (), part, 2)
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    lines = [[f"<th>{escape(name)}</th>" for name in header]] * bool(header)
    for row in rows:
        sides = ["left" if n < left else "right" for n in range(len(row))]
        cells = zip(row, sides, strict=True)
        lines.append(
            [
                f'<td style="text-align: {side}">{escape(_cell(cell))}</td>'
                for cell, side in cells
            ]
        )
    return f"<table>{caption}<tr>{'</tr><tr>'.join(map(''.join, lines))}</tr></table>"
