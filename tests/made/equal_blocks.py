"""Blocks of equal size."""

import numpy as np

from pagefeed.core.sequences import ExplicitBlocks


def equal_blocks(num_units: int, block_units: int) -> ExplicitBlocks:
    """Return blocks of so many units each; the last may have fewer."""
    return ExplicitBlocks([*np.arange(0, num_units, block_units), num_units])
