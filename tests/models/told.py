"""What batches should tell of their documents, from their tokens alone.

Tokens are numbers that occur once, so that those of a sequence tell which rows it has
parts of, wherever windows, packing, shuffles, mixtures and resumes put them.
"""

from typing import Any

FIRST_TOKEN = 10
"""Those below are separators and padding."""

Row = dict[str, Any]
Places = dict[int, tuple[Any, int]]
"""The row of each token, and its place there."""


def parts_of(tokens: Any, where: Places) -> list[Row]:
    """The parts of rows in a batch, as a table has them, each with its row."""
    found: list[Row] = []
    last: Any = None
    for sequence, line in enumerate(tokens.tolist()):
        for start, token in enumerate(line):
            if token < FIRST_TOKEN:
                continue
            row, place = where[token]
            goes_on = (
                last is row
                and found[-1]["sequence"] == sequence
                and found[-1]["stop"] == start
                and found[-1]["first_token"] + start - found[-1]["start"] == place
            )
            if goes_on:
                found[-1]["stop"] = start + 1
            else:
                at = {"sequence": sequence, "start": start, "stop": start + 1}
                found.append(at | {"first_token": place, "row": row})
            last = row
    return found


def cut_span(part: Row, start: int, end: int) -> tuple[int, int] | None:
    """A span of the row of a part, as it lies in the sequence; None if elsewhere."""
    first, stop = part["first_token"], part["first_token"] + part["stop"]
    stop -= part["start"]
    if not (start < stop and (end > first or start == end == first)):
        return None
    shift = part["start"] - first
    return max(start, first) + shift, min(end, stop) + shift
