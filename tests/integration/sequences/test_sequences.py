"""Windows with separators and packed sequences, from files to batches."""

import json
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.documents import (
    BOS,
    EOS,
    PADDING,
    counted,
    lines_of,
    loader_of,
    make_documents,
    sequences_of,
    write_documents,
)
from made.pairs import pairs
from made.shuffles import SHUFFLES
from pagefeed.cli import main
from pagefeed.core.sequences.packed import BLOCK_SEQUENCES
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.reports import forecast

SEPARATORS = [(None, None), (None, EOS), (BOS, None), (BOS, EOS)]
LAYOUTS: dict[str, dict[str, Any]] = {
    "small pages": {},
    "default": {"data_page_size": None, "write_batch_size": None},
    "plain": {"use_dictionary": False},
    "falls back": {"dictionary_pagesize_limit": 64},
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file of each layout."""
    folder = tmp_path_factory.mktemp("documents")
    documents = make_documents(3, 400, longest=900)
    write_documents(folder, documents, layouts=[*LAYOUTS.values()])
    return folder, documents


def by_file(documents):
    parts = np.array_split(np.arange(len(documents)), len(LAYOUTS))
    return [[documents[row] for row in part] for part in parts]


@pytest.mark.parametrize(
    ("separators", "length", "cut"),
    pairs(SEPARATORS, [1, 7, 32, 1500], [(0, "dataset"), (3, "file")]),
)
def test_windows_are_the_joined_rows_cut(written, separators, length, cut):
    (bos, eos), (overlap, join) = separators, cut
    length = max(length, overlap + 1)
    folder, documents = written
    windows = pf.Windows(length, bos=bos, eos=eos, overlap=overlap, join=join)
    loader = loader_of(folder, windows, shuffle=None, batch_size=8)
    expected, padding = [], 0
    for part in by_file(documents) if join == "file" else [documents]:
        line = list(chain.from_iterable(lines_of(part, bos, eos)))
        start = 0
        while line:
            row = line[start : start + length]
            padding += length - len(row)
            expected.append(row + [PADDING] * (length - len(row)))
            if start + length >= len(line):
                break
            start += length - overlap
    assert sequences_of(loader) == expected
    assert (loader.num_sequences, loader.num_padding_tokens) == (len(expected), padding)
    assert not isinstance(loader.dataset, pf.Mixture)
    view = pf.SequenceView(loader.dataset, windows)
    assert (
        view[len(expected) // 2]["input_ids"].tolist() == (expected[len(expected) // 2])
    )


@pytest.mark.parametrize("join", ["dataset", "file"])
def test_windows_without_a_tail_count_what_they_drop(written, join):
    folder, documents = written
    windows = pf.Windows(64, eos=EOS, overlap=10, tail="drop", join=join)
    loader = loader_of(folder, windows)
    dropped = sequences = 0
    for part in by_file(documents) if join == "file" else [documents]:
        num_tokens = sum(map(len, lines_of(part, None, EOS)))
        count = (num_tokens - 64) // 54 + 1
        sequences += count
        dropped += num_tokens - ((count - 1) * 54 + 64)
    assert (loader.num_sequences, loader.num_dropped_tokens) == (sequences, dropped)
    assert loader.num_padding_tokens == 0


@pytest.mark.parametrize(
    ("separators", "length", "method"),
    pairs(SEPARATORS, [1, 7, 32, 1500], ["best_fit", "first_fit", "greedy"]),
)
def test_packed_has_every_token_once(written, separators, length, method):
    bos, eos = separators
    folder, documents = written
    packed = pf.Packed(length, bos=bos, eos=eos, method=method)
    loader = loader_of(folder, packed, batch_size=16)
    rows = sequences_of(loader)
    lines = lines_of(documents, bos, eos)
    assert counted(rows) == counted(lines)
    assert len(rows) == loader.num_sequences
    assert loader.num_padding_tokens == length * len(rows) - sum(map(len, lines))
    assert not isinstance(loader.dataset, pf.Mixture)
    sequences = packed.index(loader.dataset.spans)
    tokens = np.diff(sequences.lines.first(sequences.first_span))
    borders = sequences.blocks("page").first_sequence(np.arange(len(sequences) + 1))
    yields = np.diff(borders)
    assert yields.tolist() == (-(-tokens // length)).tolist()


def test_packed_never_splits_when_told_so(written):
    folder, documents = written
    loader = loader_of(folder, pf.Packed(128, eos=EOS, split="never"))
    rows = sequences_of(loader)
    lines = lines_of(documents, None, EOS)
    assert counted(rows) == counted(lines)
    assert len(rows) == loader.num_sequences
    assert loader.stats()["splits"] == 0
    held = [set(row) for row in rows]
    for line in lines:
        if 1 < len(line) <= 128:
            assert sum(line[0] in row for row in held) == 1
            assert sum(set(line) <= row for row in held) == 1


@pytest.mark.parametrize(
    "sequences",
    [
        pf.Windows(50),
        pf.Windows(50, overlap=20),
        pf.Windows(50, bos=BOS, eos=EOS),
        pf.Windows(50, eos=EOS, overlap=20),
        pf.Windows(50, eos=EOS, overlap=20, join="file"),
        pf.Packed(50, bos=BOS, eos=EOS),
        pf.Packed(50, bos=BOS, eos=EOS, join="file"),
        pf.Packed(50, split="never", eos=EOS),
    ],
    ids=str,
)
def test_documents_are_found_both_ways(written, sequences):
    folder, documents = written
    loader = loader_of(folder, sequences, batch_size=4, epochs=1)
    starts = np.cumsum([0] + [len(part) for part in by_file(documents)])
    files = sorted(str(path) for path in folder.iterdir())
    batches = [batch["input_ids"] for batch in loader]
    loader.set_epoch(0)
    seen: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for step in range(0, len(batches), 7):
        for row in range(4):
            tokens = batches[step][row].tolist()
            if not any(tokens):
                continue
            sources = loader.locate(step, row)
            expected = [token for token in tokens if token > BOS]
            found: list[int] = []
            for source in sources:
                first = starts[files.index(source.file)]
                document = documents[first + source.row] or []
                end = source.first_token + source.num_tokens
                part = document[source.first_token : end]
                place = slice(source.offset, source.offset + source.num_tokens)
                assert tokens[place] == part
                found += part
                seen.setdefault((source.file, source.row), set()).add((step, row))
            assert found == expected
    for (file, row), places in islice(seen.items(), 60):
        slots = {(slot.step, slot.row) for slot in loader.steps_of(file, row)}
        assert places <= slots
        every_seventh = {slot for slot in slots if slot[0] % 7 == 0}
        # A window may hold a separator of a document and nothing else of it.
        if not (isinstance(sequences, pf.Windows) and sequences.eos):
            assert every_seventh == places


def test_rows_without_tokens_are_found_by_their_separators(tmp_path):
    write_documents(tmp_path, [[], None, [], [10]], num_files=1)
    for sequences in (pf.Windows(2, eos=EOS), pf.Packed(2, eos=EOS)):
        loader = loader_of(tmp_path, sequences)
        [path] = tmp_path.iterdir()
        found = [loader.steps_of(path, row) for row in range(4)]
        assert all(found)
        assert counted(sequences_of(loader)) == {EOS: 4, 10: 1}
    bare = loader_of(tmp_path, pf.Packed(2))
    assert bare.steps_of(path, 0) == []
    assert sequences_of(bare) == [[10, PADDING]]


@pytest.mark.parametrize("sequences", [pf.Windows(40, eos=EOS), pf.Packed(40, eos=EOS)])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_order_survives_any_change_of_ranks(written, sequences, shuffle):
    folder, _ = written
    whole = loader_of(folder, sequences, batch_size=4, shuffle=shuffle, seed=9)
    expected = sequences_of(whole)
    begun = loader_of(folder, sequences, batch_size=4, shuffle=shuffle, seed=9)
    rows = [row for batch in islice(begun, 5) for row in batch["input_ids"].tolist()]
    state = json.loads(json.dumps(begun.state_dict()))
    parts = []
    for rank in range(3):
        loader = loader_of(
            folder,
            sequences,
            batch_size=2,
            shuffle=shuffle,
            seed=9,
            rank=rank,
            world_size=3,
            memory="1MiB",
            num_threads=1,
        )
        loader.load_state_dict(state)
        parts.append([batch["input_ids"].tolist() for batch in loader])
    for batches in zip(*parts, strict=True):
        rows += [row for two in zip(*batches, strict=True) for row in two]
    assert [row for row in rows if any(row)] == expected


def test_a_state_of_other_separators_is_refused(written):
    folder, _ = written
    state = loader_of(folder, pf.Packed(40, eos=EOS)).state_dict()
    for other in (pf.Packed(40, eos=BOS), pf.Packed(40, eos=EOS, method="greedy")):
        with pytest.raises(StateMismatchError, match="eos"):
            loader_of(folder, other).load_state_dict(state)


def test_settings_that_cannot_be_right_are_refused(written):
    folder, _ = written
    for wrong in (
        lambda: pf.Windows(8, overlap=8),
        lambda: pf.Windows(8, eos=-1),
        lambda: pf.Packed(0),
        lambda: pf.Packed(8, split="often"),  # type: ignore[arg-type]
        lambda: pf.Packed(8, method="worst_fit"),  # type: ignore[arg-type]
        lambda: pf.Packed(8, bos=-2),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong()
    with pytest.raises(ValueError, match="eos=70000"):
        loader_of(folder, pf.Packed(8, eos=70000), dtype="uint16")


@pytest.mark.parametrize("method", ["best_fit", "greedy"])
def test_the_plan_tells_what_the_run_does(written, method):
    folder, _ = written
    packed = pf.Packed(40, eos=EOS, method=method)
    loader = loader_of(folder, packed, batch_size=1)
    plan = forecast(loader)
    assert not isinstance(loader.dataset, pf.Mixture)
    num_blocks = len(packed.index(loader.dataset.spans))
    assert num_blocks <= 16
    rows = sequences_of(loader)
    stats = loader.stats()
    assert (plan.sequences, plan.length) == (len(rows), 40)
    assert (plan.padding_tokens, plan.splits) == (
        stats["padding_tokens"],
        stats["splits"],
    )
    assert plan.splits > 0 or method == "best_fit"
    assert plan.loads_per_page == 1.0 == stats["pages_loaded"] / num_blocks


def test_the_command_line_plans_packed_runs(written, capsys):
    folder, _ = written
    common = ["plan", str(folder), "--column", "input_ids", "--length", "40", "--json"]
    dataset = pf.parquet(folder, column="input_ids")
    for options, cut in (
        (["--packed", "--eos", "1"], pf.Packed(40, eos=1)),
        (["--eos", "1"], pf.Windows(40, eos=1)),
    ):
        assert main([*common, *options]) == 0
        found = json.loads(capsys.readouterr().out)["sequences"]
        assert found == cut.index(dataset.spans).num_sequences


def test_packed_sequences_by_number(written):
    folder, _ = written
    packed = pf.Packed(64, eos=EOS)
    in_order = sequences_of(loader_of(folder, packed, shuffle=None))
    view = pf.SequenceView(pf.parquet(folder, column="input_ids"), packed)
    numbers = [0, len(view) // 2, len(view) - 1]
    picked = view.__getitems__(numbers)
    assert [row["input_ids"].tolist() for row in picked] == [
        in_order[number] for number in numbers
    ]


def test_blocks_are_large_and_stay_in_their_file_if_asked(written):
    folder, _ = written
    dataset = pf.parquet(folder, column="input_ids")
    for length in (1, 2, 5, 30, 1000):
        sequences = pf.Packed(length, eos=EOS, join="file").index(dataset.spans)
        files = dataset.spans.file_first_span
        assert set(files) <= set(sequences.first_span)
        tokens = np.diff(sequences.lines.first(sequences.first_span))
        is_only = np.isin(sequences.first_span[:-1], files) & np.isin(
            sequences.first_span[1:], files
        )
        assert (tokens[~is_only] >= BLOCK_SEQUENCES * length).all()
        # None could be cut in two: each half would have to be as large.
        for block in np.flatnonzero(tokens >= 2 * BLOCK_SEQUENCES * length):
            spans = np.arange(
                sequences.first_span[block] + 1, sequences.first_span[block + 1]
            )
            begin, end = sequences.lines.first(sequences.first_span[block : block + 2])
            inner = sequences.lines.first(spans)
            cuts = (inner - begin >= BLOCK_SEQUENCES * length) & (
                end - inner >= BLOCK_SEQUENCES * length
            )
            assert not cuts.any() or sequences.first_span[block + 1] in files


def test_row_groups_are_shuffled_as_one(written):
    folder, _ = written
    dataset = pf.parquet(folder, column="input_ids")
    sequences = pf.Packed(1).index(dataset.spans)
    groups, blocks = sequences.blocks("row_group"), sequences.blocks("page")
    assert 1 < len(groups) <= len(blocks)
    borders = groups.first_sequence(np.arange(len(groups) + 1))
    assert set(borders) <= set(blocks.first_sequence(np.arange(len(blocks) + 1)))
    assert borders[-1] == sequences.num_sequences
