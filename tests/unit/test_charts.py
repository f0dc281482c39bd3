"""Charts of pages: what is drawn lies side by side, inside of the picture."""

import re
from itertools import pairwise

import pytest

from pagefeed.reports.page.charts import LEFT, RIGHT, WIDTH, bars


@pytest.mark.parametrize("count", [1, 2, 40])
def test_bars_lie_side_by_side(count):
    labels = [str(number) for number in range(count)]
    drawn = bars(labels, range(1, count + 1), title="t", unit="rows")
    found = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    spans = [(float(left), float(left) + float(width)) for left, width in found]
    assert len(spans) == count
    assert all(end < begin for (_, end), (begin, _) in pairwise(spans))
    assert spans[0][0] > LEFT
    assert spans[-1][1] < WIDTH - RIGHT
    assert spans[-1][1] > (WIDTH - RIGHT) * 0.8
