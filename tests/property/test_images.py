"""Texts with images are delivered exactly, whatever is asked of their loaders."""

import pytest
from hypothesis import Phase, settings

from models.image_runs import (
    CUTS,
    DocumentsMachine,
    ImageMachine,
    epoch_told,
    made,
    rows_in,
    tokens_of,
)
from scaled import EXAMPLES, scaled

TestImages = pytest.mark.timeout(max(120, 2 * EXAMPLES))(ImageMachine.TestCase)
TestDocuments = pytest.mark.timeout(max(120, 2 * EXAMPLES))(DocumentsMachine.TestCase)
TestImages.settings = TestDocuments.settings = settings(
    phases=[Phase.generate],
    derandomize=EXAMPLES <= 100,
    max_examples=scaled(10),
    stateful_step_count=20,
)


@pytest.mark.parametrize("kind", CUTS)
def test_each_row_and_image_comes_once_and_whole(kind):
    rows = made()
    seen: list[int] = []
    images = []
    for tokens, beside in rows_in(kind):
        images += [tuple(image[:2]) for image in beside]
        for row in dict.fromkeys(row for row, _, _ in beside):
            wanted = tokens_of(rows[row])
            [first] = [first for r, number, first in beside if (r, number) == (row, 0)]
            begin = first - wanted.index(tokens[first])
            assert tokens[begin : begin + len(wanted)] == wanted
            seen.append(row)
    assert sorted(seen) == [n for n, row in enumerate(rows) if row.images]
    every = [(n, k) for n, row in enumerate(rows) for k in range(len(row.images))]
    assert sorted(images) == every
    assert len(images) == len(every)


@pytest.mark.parametrize("kind", CUTS)
def test_epochs_have_orders_of_their_own(kind):
    first, second = epoch_told(kind, 0), epoch_told(kind, 1)
    assert first != second
    assert sorted(first) == sorted(second)
