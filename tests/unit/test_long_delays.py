"""Windows that delay units by far more than what is read at once."""

import numpy as np
import pytest

from made.equal_blocks import equal_blocks
from pagefeed.core.order import EpochOrder, Shuffle
from pagefeed.core.order.lane_reader import LaneReader

NUM_UNITS, NUM_LANES = 600_000, 6


@pytest.mark.timeout(60)
def test_places_at_an_end_are_found_out_of_the_blue(monkeypatch):
    """With little memory, where units leave later than the middle of the delay."""
    order = EpochOrder(
        equal_blocks(NUM_UNITS, NUM_UNITS // 10),
        seed=1,
        epoch=0,
        name="web",
        shuffle=Shuffle(),
        num_lanes=NUM_LANES,
        window=1 << 15,
        most_held=1 << 15,
    )
    assert order._reader._is_long
    looked = []
    resolve = LaneReader._resolve

    def watched(reader, group):
        looked.extend(group)
        return resolve(reader, group)

    monkeypatch.setattr(LaneReader, "_resolve", watched)
    begins = [NUM_UNITS - 6, NUM_UNITS - 1000, NUM_UNITS - 60_000, 300_000, 6000, 0]
    for begin in begins:
        positions = np.arange(begin, begin + NUM_LANES)
        assert np.array_equal(order.positions(order.at(positions)), positions)
    # One look for each lane: the guess of when they leave is right.
    assert len(looked) == NUM_LANES * len(begins)
