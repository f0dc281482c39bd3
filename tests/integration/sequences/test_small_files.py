"""Many small files: little padding, a word about it, and first batches of few pages."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shuffles import SHUFFLES
from pagefeed.core.batches import plan_batches
from pagefeed.core.run import Sequences
from pagefeed.core.sequences import PackedIndex, are_bundles
from pagefeed.core.sequences.sequence_index import bytes_of_pages
from pagefeed.errors import PaddingWarning

TOKENS: Any = ("input_ids",)
FILES = {"300 of 500": (300, 500), "50 of 2100": (50, 2100)}


def write(folder: Path, num_files: int, num_tokens: int) -> None:
    """Files of so many numbered tokens each, in rows of 100."""
    folder.mkdir()
    for number in range(num_files):
        first = 1 + number * num_tokens
        tokens = np.arange(first, first + num_tokens).reshape(-1, 100)
        borders = pa.array(np.arange(len(tokens) + 1) * 100, pa.int32())
        values = pa.array(tokens.reshape(-1), pa.int32())
        rows = pa.ListArray.from_arrays(borders, values)
        pq.write_table(
            pa.table({"input_ids": rows}), folder / f"part-{number:03}.parquet"
        )


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    root: Path = tmp_path_factory.mktemp("small")
    for name, (num_files, num_tokens) in FILES.items():
        write(root / name, num_files, num_tokens)
    return root


def make(folder: Path, sequences: Any, **options: Any) -> pf.Loader:
    dataset = pf.parquet(folder, column="input_ids")
    settings: dict[str, Any] = {"batch_size": 4, "rank": 0, "world_size": 1}
    return pf.Loader(dataset, sequences=sequences, **settings | options)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [pf.Windows, pf.Packed])
def test_at_most_one_sequence_is_padding(folders, name, kind):
    num_files, num_tokens = FILES[name]
    loader = make(folders / name, kind(2048), drop_last=False, fields=("labels",))
    assert loader.num_padding_tokens < 2048
    loader = make(folders / name, kind(2048), drop_last=False)
    rows = np.concatenate([batch["input_ids"] for batch in loader])
    tokens = np.sort(rows[rows > 0])
    assert np.array_equal(tokens, np.arange(1, num_files * num_tokens + 1))
    assert len(loader.steps_of(folders / name / "part-007.parquet", 3)) >= 1


@pytest.mark.parametrize("name", FILES)
def test_files_of_their_own_are_padded(folders, name):
    num_files, num_tokens = FILES[name]
    padding = num_files * (-num_tokens % 2048)
    for sequences in (pf.Windows(2048, join="file"), pf.Packed(2048, join="file")):
        assert make(folders / name, sequences).num_padding_tokens == padding


def told(loader: pf.Loader) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            next(iter(loader))
    assert {w.category for w in found} <= {PaddingWarning}
    assert all(w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


def test_padding_without_a_field_that_marks_it_is_warned_of_once(folders):
    folder = folders / "300 of 500"
    share = 1 - 500 / 2048
    for sequences in (pf.Windows(2048, join="file"), pf.Packed(2048, join="file")):
        (message,) = told(make(folder, sequences, fields=TOKENS))
        assert message.startswith(f"{share:.1%} of the tokens of an epoch")
        assert told(make(folder, sequences)) == []
        for field in ("labels", "attention_mask", "loss_mask", "document_ids"):
            assert told(make(folder, sequences, fields=(*TOKENS, field))) == []
    (message,) = told(make(folder, pf.Windows(2048), fields=TOKENS))
    assert message.startswith("1.0% of")
    assert told(make(folder, pf.Windows(2048, tail="drop"), fields=TOKENS)) == []
    assert told(make(folder, pf.Documents(max_length=40), drop_last=False)) == []


def test_filling_up_the_last_step_is_padding_too(folders):
    folder, settings = folders / "300 of 500", {"batch_size": 8, "fields": TOKENS}
    assert told(make(folder, pf.Windows(1500), **settings)) == []
    (message,) = told(make(folder, pf.Windows(1500), **settings, drop_last=False))
    assert message.startswith(f"{4 / 104:.1%} of")  # 100 windows in 13 steps.


def test_a_mixture_is_warned_of_as_one(folders):
    parts = {name: pf.parquet(folders / name, column="input_ids") for name in FILES}
    sequences = pf.Windows(2048, join="file")
    loader = pf.Loader(
        pf.mix(parts, max_steps=3),
        sequences=sequences,
        batch_size=2,
        fields=TOKENS,
        rank=0,
        world_size=1,
    )
    index = loader.view().run.index
    (message,) = told(loader)
    share = index.num_padding_tokens / (index.num_sequences * 2048)
    assert message.startswith(f"{share:.1%} of")


def pages_of_first_batch(loader: pf.Loader) -> tuple[int, int]:
    """Pages, and bundles of pages, that the first batch is planned from."""
    run = loader.view().run
    sequences = run.at(run.beginning(0)).sequences(0, 1)
    plan = plan_batches(run.index, Sequences(sequences), loader.batch_size)
    pages = np.unique(plan.segments.page)
    num_bundles = int(are_bundles(pages).sum())
    return len(pages) - num_bundles, num_bundles


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_first_batch_needs_few_pages(folders, shuffle):
    # A window of 2048 tokens has some of six files of 500 at most.
    loader = make(folders / "300 of 500", pf.Windows(2048), shuffle=shuffle)
    pages, _ = pages_of_first_batch(loader)
    assert 4 * 4 <= pages <= 4 * 6
    loader = make(folders / "50 of 2100", pf.Windows(2048), shuffle=shuffle)
    assert pages_of_first_batch(loader)[0] <= 4 * 2
    packed = make(folders / "300 of 500", pf.Packed(10), shuffle=shuffle)
    pages, bundles = pages_of_first_batch(packed)
    assert pages == 0
    assert 1 <= bundles <= 4
    assert not isinstance(packed.dataset, pf.Mixture)
    blocks = PackedIndex(packed.dataset.spans, pf.Packed(10))
    # Of 200 sequences and a page more, in files of 500 tokens.
    assert np.diff(blocks.first_span).max() <= 2 * (200 * 10 // 500)


SEQUENCES = [
    pf.Windows(64),
    pf.Windows(64, eos=0, join="file"),
    pf.Packed(7),
    pf.Packed(64, eos=0),
]


@pytest.mark.parametrize("sequences", SEQUENCES, ids=str)
def test_parts_of_small_files_have_every_token_once(folders, sequences):
    num_files, num_tokens = FILES["50 of 2100"]
    dataset = pf.parquet(folders / "50 of 2100", column="input_ids")
    parts = dataset.split(train=0.7, test=0.3)
    seen = []
    for part in parts.values():
        loader = pf.Loader(
            part,
            sequences=sequences,
            batch_size=4,
            drop_last=False,
            rank=0,
            world_size=1,
        )
        if sequences.join == "dataset":
            limit = max(sequences.length, 0.005 * part.spans.num_values)
            assert loader.num_padding_tokens < limit
        rows = np.concatenate([batch["input_ids"] for batch in loader])
        seen.append(np.sort(rows[rows > 0]))
        loader.set_epoch(0)
        for step in range(0, len(loader), 9):
            tokens = rows[4 * step]
            for source in loader.locate(step, 0):
                file = int(Path(source.file).stem.removeprefix("part-"))
                first = 1 + file * num_tokens + 100 * source.row + source.first_token
                here = tokens[source.offset : source.offset + source.num_tokens]
                assert np.array_equal(here, first + np.arange(source.num_tokens))
                slots = loader.steps_of(source.file, source.row)
                assert (step, 0) in {(slot.step, slot.row) for slot in slots}
    both = np.sort(np.concatenate(seen))
    assert np.array_equal(both, np.arange(1, num_files * num_tokens + 1))


@pytest.mark.parametrize("sequences", SEQUENCES, ids=str)
def test_mixtures_of_small_files_deliver_each_part_once(folders, sequences):
    dataset = pf.parquet(folders / "50 of 2100", column="input_ids")
    mixed = pf.mix(dataset.split(a=0.5, b=0.5), max_epochs={"a": 1, "b": 1})
    seen = [
        batch["input_ids"]
        for rank in range(2)
        for batch in pf.Loader(
            mixed,
            sequences=sequences,
            batch_size=16,
            drop_last=False,
            rank=rank,
            world_size=2,
        )
    ]
    tokens = np.concatenate(seen)
    assert np.array_equal(np.sort(tokens[tokens > 0]), np.arange(1, 105_001))


def test_pages_have_the_bytes_of_their_values_or_of_so_many_rows(tmp_path: Path):
    table = pa.table(
        {
            "input_ids": pa.array([[1, 2, 3], [], [4]] * 400, pa.list_(pa.int32())),
            "text": ["a text", "", None] * 400,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    for column in ("input_ids", "text"):
        index = pf.parquet(tmp_path, column=column).index
        spans = pf.parquet(tmp_path, column=column).spans
        pages = np.arange(len(index))
        of_page = 4 * 400 if column == "input_ids" else 300 * index.mean_row_bytes
        assert len(pages) == 4
        assert bytes_of_pages(spans, pages).tolist() == [of_page] * 4
        assert bytes_of_pages(spans, pages[::-2]).tolist() == [of_page] * 2


def test_a_line_of_empty_documents_has_no_sequences(tmp_path: Path):
    for name, rows in (("a", [[1, 2, 3]] * 5), ("b", [[]] * 5), ("c", [[4] * 4])):
        values = pa.array(rows, pa.list_(pa.int32()))
        pq.write_table(pa.table({"input_ids": values}), tmp_path / f"{name}.parquet")
    data = pf.parquet(tmp_path, column="input_ids")
    packed = pf.Packed(4, split="never", join="file")
    loader = pf.Loader(data, sequences=packed, batch_size=1, shuffle=None)
    batches = [batch["input_ids"][0].tolist() for batch in loader]
    assert batches == [[1, 2, 3, 0]] * 5 + [[4] * 4]
