"""Columns beside infilled documents, against a plain model of what they hold."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from models.infill_model import infilled
from models.wide import FIRST_TOKEN, Wide
from scaled import scaled

PREFIX, MIDDLE, SUFFIX, END, EOS, BOS = range(1, 7)
DTYPES = [
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
]
Rows = list[list[int] | None]


@st.composite
def wides(draw: st.DrawFn) -> Wide:
    kind = draw(st.sampled_from(["fixed", "lists", "ragged", "flat", "plain"]))
    k = 1 if kind == "plain" else draw(st.sampled_from([1, 2, 3]))
    dtype = draw(st.sampled_from(DTYPES))
    is_small, is_float = dtype in {"int8", "uint8"}, "float" in dtype
    paddings = [0, 7, 0.5, -1.0, float("-inf")] if is_float else [0, 7]
    shifted = draw(st.booleans())
    return Wide(
        kind="flat" if kind == "plain" else kind,
        dtype=dtype,
        k=k,
        first=0 if kind == "plain" else draw(st.sampled_from([0, 0, 1])),
        shifted=shifted,
        scale=draw(st.sampled_from([None, 0.25])) if is_small else None,
        padding=draw(st.sampled_from(paddings)),
        of_next=draw(st.sampled_from([None, False] + [True] * (not shifted))),
    )


@st.composite
def some_rows(draw: st.DrawFn) -> Rows:
    """Documents, many empty ones in a row among them."""
    lengths = st.sampled_from([None, 0, 0, 0, 0, 1, 2, 5, 12])
    tokens = itertools.count(FIRST_TOKEN)
    return [
        None if length is None else list(itertools.islice(tokens, length))
        for length in draw(st.lists(lengths, min_size=1, max_size=40).filter(any))
    ]


INFILLS = st.builds(
    pf.Infill,
    prefix=st.just(PREFIX),
    middle=st.just(MIDDLE),
    suffix=st.just(SUFFIX),
    end=st.sampled_from([None, END]),
    rate=st.sampled_from([1.0, 0.5]),
    spm=st.sampled_from([0.0, 0.5, 1.0]),
    within=st.sampled_from(["document", "sequence"]),
    seed=st.integers(0, 5),
)
SEPARATORS = st.sampled_from([(None, None), (None, EOS), (BOS, None), (BOS, EOS)])
LAYOUTS = st.fixed_dictionaries(
    {
        "row_group_size": st.sampled_from([2, 30]),
        "data_page_size": st.sampled_from([1, 100]),
        "write_batch_size": st.sampled_from([1, 4]),
        "use_dictionary": st.booleans(),
    }
)


def made(folder: Path, rows: Rows, wide: Wide, layout: dict[str, Any]) -> Any:
    folder.mkdir(exist_ok=True)
    tokens = pa.array(rows, pa.list_(pa.int32()))
    table = pa.table({"input_ids": tokens, "wide": wide.array(rows)})
    pq.write_table(table, folder / "a.parquet", **layout)
    return pf.parquet(folder, column="input_ids", aligned={"wide": wide.like})


def parted(row: list[int], is_whole: bool) -> set[int]:
    """Tokens of a row behind which another than the next of their document follows."""
    pairs = [(token, row[n + 1 : n + 2]) for n, token in enumerate(row)]
    own = [(token, behind) for token, behind in pairs if token >= FIRST_TOKEN]
    last = max((token for token, _ in own), default=None)
    return {
        token
        for token, behind in own
        if (behind and behind != [token + 1])
        or (is_whole and not behind and token != last)
    }


@settings(
    max_examples=scaled(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=some_rows(),
    wide=wides(),
    infill=INFILLS,
    separators=SEPARATORS,
    length=st.integers(4, 30),
    cut=st.sampled_from([pf.Windows, pf.Packed, pf.Documents]),
    layout=LAYOUTS,
    epoch=st.integers(0, 1),
)
def test_numbers_follow_the_tokens_that_they_are_of(
    tmp_path: Path,
    rows: Rows,
    wide: Wide,
    infill: pf.Infill,
    separators: tuple[int | None, int | None],
    length: int,
    cut: Any,
    layout: dict[str, Any],
    epoch: int,
):
    is_whole = infill.within == "document"
    cut = cut if is_whole else pf.Packed
    bos, eos = separators
    given: Any = {"length": length, "bos": bos, "eos": eos}
    if cut is pf.Documents:
        given = {"max_length": length}
        wide = wide._replace(kind="flat", k=1, first=0, scale=None, of_next=None)
    data = made(tmp_path / "data", rows, wide, layout).infill(infill)
    loader = pf.Loader(
        data,
        sequences=cut(**given),
        batch_size=3,
        num_threads=1,
        drop_last=False,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=True),
    )
    loader.set_epoch(epoch)
    starts = {t: row[0] for row in rows if row for t in row}
    lost: set[int] = set()
    for number, row in enumerate(rows):
        held = infilled(infill, number, epoch, row or [])
        lost |= parted(held, is_whole) if is_whole else set()
    seen = []
    for batch in loader:
        tokens = batch["labels"] if wide.shifted else batch["input_ids"]
        is_sure = np.ones(tokens.shape, bool)
        if not is_whole:
            for place in np.ndindex(*tokens.shape):
                behind = batch["input_ids"][place[0], place[1] + 1 : place[1] + 2]
                own = int(tokens[place])
                following = int(behind[0]) if behind.size else 0
                is_marker = following in {MIDDLE, SUFFIX, END}
                is_own = own in starts and starts.get(following) == starts[own]
                is_sure[place] = is_marker or is_own
                if is_marker or following != own + 1:
                    lost.add(own)
        expected, counts = wide.expected(tokens, starts, lost)
        assert batch["wide"].dtype == expected.dtype
        np.testing.assert_array_equal(batch["wide"][is_sure], expected[is_sure])
        if wide.kind == "ragged":
            np.testing.assert_array_equal(batch["count"][is_sure], counts[is_sure])
        flat = batch["input_ids"].reshape(-1).tolist()
        seen += [token for token in flat if token >= FIRST_TOKEN]
    if cut is not pf.Documents:  # It leaves out what is longer.
        assert sorted(seen) == sorted(starts)


def test_rows_are_shown_without_what_batches_alone_arrange(tmp_path: Path):
    row = [*range(FIRST_TOKEN, FIRST_TOKEN + 30)]
    spans = [{"start": 7, "end": 19, "what": "some"}]
    names = {"input_ids": [row], "narrow": [row], "wide": [row * 2], "spans": [spans]}
    pq.write_table(pa.table(names), tmp_path / "a.parquet")
    data = pf.parquet(
        tmp_path,
        column="input_ids",
        aligned={"narrow": -1, "wide": pf.Aligned(width=2)},
        spans=["spans"],
    )
    infill = pf.Infill(prefix=PREFIX, middle=MIDDLE, suffix=SUFFIX, rate=1)
    [shown] = data.infill(infill)
    tokens = infilled(infill, 0, 0, row)
    padded = [token if token in row else -1 for token in tokens]
    assert shown == {"input_ids": tokens, "narrow": padded}
    assert {*data[0]} == {*names}
