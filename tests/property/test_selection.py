"""Selected rows are those of a model that looks at every row, one by one."""

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from models.selecting import open_rows, predicates, rows_strategy, text_of, truth_of
from models.selecting import write_rows as write
from pagefeed.errors import EmptySelectionError, InvalidArgumentError
from scaled import scaled

LAYOUTS: list[dict[str, Any]] = [
    {},
    {"data_page_size": 16, "write_batch_size": 2},
    {"data_page_size": 16, "write_batch_size": 3, "data_page_version": "2.0"},
]
FILES = st.lists(st.lists(rows_strategy(), max_size=30), min_size=1, max_size=3)
LENGTH = 4


def selected_rows(dataset):
    """File, row in the file and number of values of all rows, from the spans alone."""
    spans, index = dataset.spans, dataset.index
    found = []
    for span in range(len(spans)):
        page, first = (int(part[0]) for part in spans.places([span]))
        count, values = (
            int(np.diff(ends([span, span + 1]))[0])
            for ends in (spans.first_rows, spans.first_values)
        )
        where = index.locate(page)
        assert 0 < count <= where.num_rows - first
        offsets = index.row_offsets(page)
        assert offsets[first + count] - offsets[first] == values
        rows = range(where.first_row + first, where.first_row + first + count)
        found += [(index.files.index(where.file), row) for row in rows]
    return found


def check_spans(dataset, expected):
    """Check the spans of a dataset against the numbers of the rows it should have."""
    spans = dataset.spans
    assert selected_rows(dataset) == expected
    assert len(dataset) == spans.num_rows == len(expected)
    assert spans.first_rows(len(spans)) == len(expected)
    for name, total in (
        ("span", len(spans)),
        ("row", spans.num_rows),
        ("value", spans.num_values),
    ):
        borders = getattr(spans, f"file_first_{name}")
        assert borders[0] == 0
        assert borders[-1] == total
    per_file = [
        sum(file == n for file, _ in expected) for n in range(len(spans.index.files))
    ]
    assert np.diff(spans.file_first_row).tolist() == per_file
    rows = np.arange(spans.num_rows)
    span = spans.spans_of_rows(rows)
    assert (
        (spans.first_rows(span) <= rows) & (rows < spans.first_rows(span + 1))
    ).all()
    values = np.arange(spans.num_values)
    span = spans.cut(values, values + 1, 0).span
    assert (spans.first_values(span) <= values).all()
    assert (values < spans.first_values(span + 1)).all()
    pages = spans.places(np.arange(len(spans)))[0]
    assert spans.num_pages == len(set(pages.tolist()))
    for kind in ("page", "row_group"):
        runs = spans.runs(kind)
        begins = np.arange(len(spans)) if runs is None else runs
        assert begins.tolist() == sorted(set(begins.tolist()))
        assert begins[:1].tolist() == [0][: len(spans)]
        keys = [
            (spans.index.locate(page).file, spans.index.locate(page).row_group)
            if kind == "row_group"
            else page
            for page in pages.tolist()
        ]
        changes = [n for n, key in enumerate(keys) if n == 0 or key != keys[n - 1]]
        assert begins.tolist() == changes


@settings(max_examples=scaled(40))
@given(
    files=FILES,
    trees=st.lists(predicates(), min_size=1, max_size=2),
    layout=st.sampled_from(LAYOUTS),
    group=st.integers(1, 12),
    cached=st.booleans(),
)
def test_predicates_select_what_they_say(files, trees, layout, group, cached):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), files, row_group_size=group, **layout)
        cache_dir = f"{folder}/cache" if cached else None
        dataset = open_rows(paths, cache_dir=cache_dir)
        for tree in trees:
            dataset = dataset.where(text_of(tree))
        expected = [
            (number, row)
            for number, rows in enumerate(files)
            for row, values in enumerate(rows)
            if all(truth_of(tree, values) is True for tree in trees)
        ]
        check_spans(dataset, expected)
        check_delivery(dataset, files, expected)


def check_delivery(dataset, files, expected):
    """Windows, shuffled and resumed on other ranks, deliver just these rows."""
    tokens = [
        token for file, row in expected for token in files[file][row]["input_ids"]
    ]
    options: dict[str, Any] = {"sequences": pf.Windows(LENGTH), "batch_size": 2}
    options |= {"padding": -1, "drop_last": False, "memory": "1MiB", "num_threads": 1}
    if not tokens:
        kind = InvalidArgumentError if expected else EmptySelectionError
        with pytest.raises(kind, match="no sequence" if expected else "no row"):
            pf.Loader(dataset, **options)
        return
    loader = pf.Loader(dataset, shuffle=None, **options)
    found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
    assert found[found >= 0].tolist() == tokens

    whole = [
        row.copy()
        for batch in pf.Loader(dataset, seed=5, **options)
        for row in batch["input_ids"]
    ]
    first = pf.Loader(dataset, seed=5, **options)
    begin = next(iter(first))["input_ids"].copy()
    state = first.state_dict()
    ranks = [
        pf.Loader(dataset, seed=5, **options, rank=r, world_size=2) for r in (0, 1)
    ]
    parts = []
    for rank in ranks:
        rank.load_state_dict(state)
        parts.append([row.copy() for batch in rank for row in batch["input_ids"]])
    rest = [row for both in zip(*parts, strict=True) for row in both]
    # Rows of padding lie where the ranks are; what follows is the next epoch.
    kept = [row for row in whole if (row >= 0).any()]
    joined = [row for row in [*begin, *rest] if (row >= 0).any()][: len(kept)]
    assert all(map(np.array_equal, joined, kept))
    assert sorted(t for row in joined for t in row if t >= 0) == sorted(tokens)

    first = pf.Loader(dataset, seed=5, **options)
    for step, rows in enumerate(np.array(whole).reshape(-1, 2, LENGTH)[:3]):
        for row, values in enumerate(rows):
            if (values < 0).all():
                continue
            located = np.full(LENGTH, -1)
            for source in first.locate(step, row):
                number = dataset.index.files.index(source.file)
                assert (number, source.row) in expected
                document = files[number][source.row]["input_ids"]
                part = document[source.first_token :][: source.num_tokens]
                located[source.offset :][: source.num_tokens] = part
                slots = first.steps_of(source.file, source.row)
                assert (step, row) in [(slot.step, slot.row) for slot in slots]
            assert located.tolist() == values.tolist()
    left_out = [
        (number, row)
        for number, rows in enumerate(files)
        for row in range(len(rows))
        if (number, row) not in expected
    ]
    for number, row in left_out[:5]:
        assert first.steps_of(dataset.index.files[number], row) == []


@settings(max_examples=scaled(25))
@given(
    files=FILES,
    layout=st.sampled_from(LAYOUTS),
    edges=st.sets(st.sampled_from([-0.5, 0.1, 0.25, 0.75]), min_size=1).map(sorted),
    lengths=st.sets(st.integers(1, 10), min_size=1).map(sorted),
    seed=st.integers(),
    before=st.none() | predicates(),
)
def test_parts_are_disjoint_and_complete(files, layout, edges, lengths, seed, before):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), files, row_group_size=7, **layout)
        dataset = open_rows(paths)
        if before is not None:
            dataset = dataset.where(text_of(before))
        every = selected_rows(dataset)

        tiers = dataset.tiers("quality", edges=edges)
        by_length = dataset.by_length(lengths)
        split = dataset.split(train=0.5, test=0.2, validation=0.3, seed=seed)
        for parts in (tiers, by_length, split):
            joined = [row for part in parts.values() for row in selected_rows(part)]
            assert sorted(joined) == every
        for number, part in enumerate(tiers.values()):
            expected = [
                (file, row)
                for file, row in every
                if tier_of(files[file][row]["quality"], edges) == number
            ]
            check_spans(part, expected)
        for number, part in enumerate(by_length.values()):
            expected = [
                (file, row)
                for file, row in every
                if sum(files[file][row]["length"] >= edge for edge in lengths) == number
            ]
            check_spans(part, expected)


def tier_of(value, edges):
    if value is None or math.isnan(value):
        return len(edges) + 1
    return sum(value >= edge for edge in edges)
