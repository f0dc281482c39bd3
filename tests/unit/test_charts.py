"""Charts of pages: what is drawn lies inside of the picture."""

import html
import re
from itertools import combinations

import pytest

from pagefeed.reports.page.charts import HEIGHT, WIDTH, lines
from pagefeed.reports.page.layout import STYLE, bars


def test_bars_are_as_long_as_their_numbers():
    drawn = bars(("length", "rows"), [("<1>", 5), ("2", 0), ("3", 20)])
    assert re.findall(r'style="width:([\d.]+)%"', drawn) == ["25.0", "0.0", "100.0"]
    assert "&lt;1&gt;" in drawn


def boxes(chart: str, size: int) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each text, in a font as wide as DejaVu Sans."""
    pattern = r'<text x="([\d.-]+)" y="([\d.-]+)" text-anchor="(\w+)">([^<]*)</text>'
    found = []
    for x, y, anchor, text in re.findall(pattern, chart):
        width = 0.64 * size * len(html.unescape(text))
        left = float(x) - (width if anchor == "end" else width / 2)
        bottom = float(y) + 0.22 * size
        found.append((left, bottom - 0.97 * size, left + width, bottom))
    return found


@pytest.mark.parametrize("size", [12, 21], ids=["wide", "narrow"])
@pytest.mark.parametrize("most", [1, 7, 999, 1234.5, 9999, 12345, 2.5e7, 0.003, 1e-4])
def test_texts_of_charts_lie_apart_and_inside(most, size):
    charts = [
        lines([0, most], {"a": [0, most]}, title="t", unit="tokens/s"),
        lines([0, 9], {"a": [0, most], "b": [0, 0]}, title="t", unit="u", most=most),
    ]
    for chart in charts:
        found = boxes(chart, size)
        assert len(found) > 5
        for left, top, right, bottom in found:
            assert left >= 0
            assert top >= 0
            assert right <= WIDTH
            assert bottom <= HEIGHT
        for one, other in combinations(found, 2):
            apart = one[2] <= other[0] or other[2] <= one[0]
            assert apart or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("most", [1, 7, 30, 159, 999, 1234.5, 2.5e7])
def test_values_at_the_axis_are_round_and_up_to_the_most(most):
    drawn = lines([0, 1], {"a": [0, most]}, title="t", unit="rows")
    heights = [float(y) for y in re.findall(r'<line [^>]*y1="([\d.]+)"', drawn)]
    assert 3 <= len(heights) <= 6
    shown = re.findall(r'text-anchor="end">([\d.e-]+)[kMGT]?<', drawn)
    assert len(shown) == len(heights)
    assert shown[0] == "0"
    for text in shown[1:]:
        assert len(text.replace(".", "").strip("0")) <= 2, shown


def test_colours_of_a_page_are_those_of_light_or_dark():
    light, dark = re.findall(r":root \{([^}]+)\}", STYLE)
    names = re.findall(r"(--\w+):", light)
    assert names == re.findall(r"(--\w+):", dark)
    assert set(re.findall(r"var\((--\w+)\)", STYLE)) == set(names)
    assert "#" not in STYLE.replace(light, "").replace(dark, "")


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        (1, 86, ["20", "40", "60", "80"]),
        (0, 1000, ["0", "250", "500", "750", "1,000"]),
        (7, 8, ["7", "8"]),
        (1190, 1210, ["1,190", "1,195", "1,200", "1,205", "1,210"]),
    ],
)
def test_steps_below_the_axis_are_round(first, last, labels):
    steps = [float(first), float(last)]
    drawn = lines(steps, {"a": [1.0, 2.0]}, title="t", unit="u")
    found = re.findall(r'text-anchor="middle">([\d.,]+)</text>', drawn)
    assert found == labels
