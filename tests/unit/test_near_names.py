"""A misspelt name raises an error that names it, and the name that was meant."""

from typing import Any

import numpy as np
import pytest

import pagefeed as pf


def test_unknown_choices_suggest_the_nearest(tmp_path):
    (tmp_path / "a.bin").write_bytes(np.arange(64, dtype="<u2").tobytes())
    data = pf.tokens(tmp_path / "a.bin", dtype="uint16")
    right: dict[str, Any] = {"sequences": pf.Windows(8), "batch_size": 2}
    for wrong, meant in (
        ({"format": "toch"}, "torch"),
        ({"shuffle": "pge"}, "page"),
        ({"fields": ("input_ids", "lables")}, "labels"),
    ):
        with pytest.raises(pf.PagefeedError, match=f"did you mean '{meant}'"):
            pf.Loader(data, **right | wrong)
