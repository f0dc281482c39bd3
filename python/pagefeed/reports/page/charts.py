"""Charts of lines as SVG, for the screen and for paper."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 14, 54
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
TICKS = 4
CHARACTER = 13.6
"""Width of a character on a narrow screen, where text is larger in proportion."""
COLOURS = (
    *("#2b6cb0", "#dd8b2f", "#3f8f5f", "#b4485c"),
    *("#7a5fa8", "#8a6d4b", "#c267a6", "#5f7a86"),
)
"""Colours that differ in lightness too, for print without colour."""


def lines(
    steps: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    unit: str,
    most: float | None = None,
) -> str:
    """Return an SVG line chart with a line for each series.

    Args:
        steps: Where the values are, rising.
        series: Values by name, as many as steps.
        title: What it shows.
        unit: What the values are.
        most: End of the axis; by default the greatest value.
    """
    numbers = [value for values in series.values() for value in values]
    greatest = most or max(numbers, default=1.0) or 1.0
    shapes = [_axis(greatest), _step_axis(steps)]
    for index, (name, values) in enumerate(series.items()):
        both = zip(steps, values, strict=True)
        corners = (f"{_x(step, steps):.1f},{_y(y, greatest):.1f}" for step, y in both)
        shapes.append(
            f'<polyline class="series" points="{" ".join(corners)}" fill="none" '
            f'stroke-width="2.2" stroke="{_colour(index)}">'
            f"<title>{html.escape(name)}</title></polyline>"
        )
    items = "".join(
        f'<li><span style="background:{_colour(index)}"></span>{html.escape(name)}</li>'
        for index, name in enumerate(series)
    )
    return (
        f'<p class="note">{html.escape(unit)}</p>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{html.escape(title)}">{"".join(shapes)}</svg>'
        f'<ul class="legend">{items}</ul>'
    )


def _axis(most: float) -> str:
    """Lines across, with their values at the left."""
    shapes = []
    step = _round_step(most)
    for tick in range(int(most / step + 1e-9) + 1):
        value = step * tick
        y = _y(value, most)
        shapes.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_short(value)}</text>"
        )
    return "".join(shapes)


def _round_step(most: float) -> float:
    """Return 1, 2, 2.5 or 5 times a power of ten, of which 2 to 5 make an axis."""
    power = 10.0 ** math.floor(math.log10(most / TICKS))
    return power * next(n for n in (1, 2, 2.5, 5, 10) if n * power * 5 > most)


def _step_axis(steps: Sequence[float]) -> str:
    if not steps:
        return ""
    first, last = steps[0], steps[-1]
    size = max(1.0, _round_step(max(1.0, last - first)))
    begin, end = math.ceil(first / size - 1e-9), math.floor(last / size + 1e-9)
    marks = [size * tick for tick in range(begin, end + 1)]
    # Shortened, neighbours may look alike.
    labels = [_short(mark) if last >= 1e6 else f"{mark:,.0f}" for mark in marks]
    named = zip(marks, labels, strict=True)
    return "".join(_below(_x(mark, steps), label) for mark, label in named) + (
        f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">step</text>'
    )


def _below(x: float, label: str) -> str:
    most = WIDTH - 2 - CHARACTER * len(label) / 2
    return (
        f'<text x="{min(x, most):.1f}" y="{HEIGHT - BOTTOM + 26}" '
        f'text-anchor="middle">{html.escape(label)}</text>'
    )


def _x(step: float, steps: Sequence[float]) -> float:
    first, last = steps[0], steps[-1]
    return LEFT + INNER_WIDTH * (step - first) / max(1e-9, last - first)


def _y(value: float, most: float) -> float:
    return TOP + INNER_HEIGHT * (1 - value / most)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _short(value: float) -> str:
    """Return a number in five characters at most."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" if value >= 0.1 or not value else f"{value:.0e}"
