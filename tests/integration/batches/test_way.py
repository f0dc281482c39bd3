"""The way of a batch, from `next` to the engine and back, is the one that is drawn."""

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

PACKAGE = str(Path(pf.__file__).parent)
PAGE = Path(__file__).parents[3] / "ARCHITECTURE.md"
BEGIN, END = "These call each other, in this order:", "\n\n"

PLACES = ("EpochOrder.reading", "WindowIndex.segments", "Fields.arrays")
"""Where an order, a cut and the fields of a batch are asked."""
MOST = 16


def own_names(frame: FrameType | None) -> list[str]:
    """Return the functions of the package on a stack, the first caller first."""
    names: list[str] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            names.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    return names


def test_the_way_of_a_batch(tmp_path):
    table = pa.table({"input_ids": [[n] * 50 for n in range(2000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    data = pf.parquet(tmp_path, column="input_ids")
    shuffle = pf.Shuffle(window=100)
    loader = pf.Loader(data, sequences=pf.Windows(32), batch_size=8, shuffle=shuffle)
    hops: dict[str, None] = {}

    def record(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_qualname
        is_place = event == "call" and name in PLACES
        is_engine = event == "c_call" and argument.__name__ in ("submit", "next_batch")
        if is_place or is_engine:
            hops.update(dict.fromkeys(own_names(frame)))

    batches = iter(loader)
    sys.setprofile(record)
    try:
        next(batches)
    finally:
        sys.setprofile(None)
    text = PAGE.read_text()
    drawn = text[text.index(BEGIN) + len(BEGIN) :].split(END)[0]
    assert re.findall(r"`([\w.]+)`", drawn) == list(hops)
    assert len(hops) <= MOST
