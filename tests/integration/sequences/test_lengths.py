"""Rows that grow during a run: the sequences of a step, cut into shorter rows."""

import copy
import json
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.optional import as_dataset, torch
from models.field_model import assert_model
from pagefeed.core.batches.lengths import Lengths
from pagefeed.errors import InvalidArgumentError

LENGTH = 64
STAGES = [(0, 16), (5, 32), (9, 64)]
FIELDS = (
    *("input_ids", "labels", "position_ids", "document_ids", "seq_idx", "cu_seqlens"),
    *("max_seqlen", "doc_lens", "max_doc_lens", "attention_mask", "loss_mask"),
)
CUTS: dict[str, Any] = {
    "windows": pf.Windows(LENGTH),
    "windows with eos": pf.Windows(LENGTH, eos=7, overlap=8),
    "packed": pf.Packed(LENGTH, eos=7, bos=8),
    "packed whole": pf.Packed(LENGTH, split="never"),
    "packed in fours": pf.Packed(LENGTH, multiple_of=4),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("lengths")
    rng = np.random.default_rng(3)
    token = 10
    for name in ("a", "b"):
        rows = []
        for length in [*rng.integers(0, 50, 250).tolist(), 0, LENGTH]:
            rows.append(list(range(token, token + length)))
            token += length
        table = {
            "input_ids": pa.array(rows, pa.list_(pa.int32())),
            "weight": [[float(t % 10) for t in row] for row in rows],
            "id": [f"{name}{n}" for n in range(len(rows))],
        }
        path = place / f"{name}.parquet"
        pq.write_table(pa.table(table), path, row_group_size=40, data_page_size=400)
    return place


def open_loader(folder: Any, cut: str = "windows", **options: Any) -> pf.Loader:
    data = folder
    if isinstance(folder, Path):
        data = pf.parquet(folder, column="input_ids", metadata=["id"])
    settings: dict[str, Any] = {
        "sequences": CUTS[cut],
        "batch_size": 4,
        "seed": 2,
        "fields": ("input_ids",),
        "lengths": STAGES,
        "rank": 0,
        "world_size": 1,
        "num_threads": 2,
        "padding": 3,
    }
    return pf.Loader(data, **settings | options)


def plain(batches: Any) -> list[list[list[int]]]:
    return [batch["input_ids"].tolist() for batch in batches]


def cut_up(batch: Any, step: int) -> list[list[int]]:
    """What a batch of whole sequences is in rows of the length of a step."""
    length = max(stage for stage in STAGES if stage[0] <= step)[1]
    return batch["input_ids"].reshape(-1, length).tolist()


def pieces(begin: int, end: int, length: int) -> list[tuple[int, int]]:
    """A range of positions, cut at the ends of rows."""
    cuts = range(begin - begin % length + length, end, length)
    return [*pairwise([begin, *cuts, end])] if begin < end else []


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("shifted", "across"), [(False, False), (True, True)])
def test_rows_are_as_if_sequences_were_cut_there(folder, cut, shifted, across):
    names: tuple[str, ...] = (*FIELDS, "metadata", "dataset_ids")
    if cut == "packed in fours":
        names = (*names, "cu_seqlens_padded")
    fields = pf.Fields(names=names, shifted=shifted, across_documents=across)
    whole = open_loader(folder, cut, fields=fields, lengths=None)
    grown = open_loader(folder, cut, fields=fields)
    assert len(whole) == len(grown) > 12
    for step, (long, short) in enumerate(zip(whole, grown, strict=True)):
        told, own = long.pop("metadata"), short.pop("metadata")
        assert short["input_ids"].tolist() == cut_up(long, step)
        length = short["input_ids"].shape[1]
        rows = []
        for row in told.to_pylist():
            begin = row["sequence"] * LENGTH + row["start"]
            end = row["sequence"] * LENGTH + row["stop"]
            for at, stop in pieces(begin, end, length):
                place = {"sequence": at // length, "start": at % length}
                place |= {"stop": at % length + stop - at}
                rows.append(
                    row | place | {"first_token": row["first_token"] + at - begin}
                )
        assert own.to_pylist() == rows
        assert short.pop("dataset_ids").tolist() == [0] * len(short["input_ids"])
        if cut != "packed in fours":
            documents = long["attention_mask"].ravel()
            parts = [
                (at // length, at % length, stop - at)
                for begin, end in pairwise(long["cu_seqlens"].tolist())
                for at, stop in pieces(begin, end, length)
                if documents[begin]
            ]
            assert_model(short, parts, shifted=shifted, across=across)
        else:  # Padding inside of documents is no part of the model.
            ids = short["position_ids"]
            assert (ids[:, 0] == 0).all()
            assert short["cu_seqlens"][-1] <= ids.size == short["cu_seqlens_padded"][-1]


@pytest.mark.parametrize("cut", ["windows", "packed"])
def test_columns_beside_the_tokens_are_cut_likewise(folder, cut):
    data = pf.parquet(folder, column="input_ids", aligned=["weight"])
    for step, (long, short) in enumerate(
        zip(
            open_loader(data, cut, lengths=None),
            open_loader(data, cut),
            strict=True,
        )
    ):
        assert short["input_ids"].tolist() == cut_up(long, step)
        weights = long["weight"].reshape(short["input_ids"].shape).copy()
        weights[:, 0] = 0  # Nothing predicts the first token of a row.
        assert short["weight"].tolist() == weights.tolist()


@pytest.mark.parametrize("options", [{}, {"balance": "attention"}, {"shuffle": "row"}])
def test_a_resume_is_exact_on_both_sides_and_on_other_ranks(folder, options):
    whole = [*open_loader(folder, lengths=None, **options)]
    want = [sorted(cut_up(batch, step)) for step, batch in enumerate(whole)]
    tokens = sorted(t for step in want for row in step for t in row)
    assert len(tokens) == sum(batch["input_ids"].size for batch in whole)
    for steps in (3, 5, 7, 9, 11):
        begun = open_loader(folder, **options)
        first = [sorted(batch) for batch in plain(islice(begun, steps))]
        state = json.loads(json.dumps(begun.state_dict()))
        assert first == want[:steps]
        again = open_loader(folder, **options)
        again.load_state_dict(state)
        assert [sorted(batch) for batch in plain(again)] == want[steps:]
        if options.get("balance"):
            continue
        ranks = [
            open_loader(folder, rank=r, world_size=2, batch_size=2, **options)
            for r in range(2)
        ]
        for rank in ranks:
            rank.load_state_dict(state)
        together = zip(*map(plain, ranks), strict=True)
        assert [sorted(a + b) for a, b in together] == want[steps:]
        # The state is of the order: other lengths continue it.
        other = open_loader(folder, lengths=None, **options)
        other.load_state_dict(state)
        assert plain(other) == [b["input_ids"].tolist() for b in whole[steps:]]


def test_fleets_seek_skip_and_budgets_keep_their_steps(folder):
    whole = [*open_loader(folder, lengths=None)]
    fleet: dict[str, Any] = {"batch_size": None, "global_batch_size": 4}
    loader = open_loader(folder, **fleet)
    for step in (0, 8, 4, 9, 5):
        parts = [loader.at(step, rank=rank, world_size=3) for rank in range(3)]
        rows = [row for batch in parts if batch for row in batch["input_ids"].tolist()]
        assert sorted(rows) == sorted(cut_up(whole[step], step))
    loader = open_loader(folder, batch_size=None, batch_tokens=4 * LENGTH)
    loader.seek(4)
    assert plain(islice(loader, 2)) == [cut_up(whole[n], n) for n in (4, 5)]
    loader = open_loader(folder)
    loader.skip([3, 4, 6])
    left = [n for n in range(len(whole)) if n not in (3, 4, 6)]
    assert plain(loader) == [cut_up(whole[n], n) for n in left]
    assert plain(copy.copy(loader)) != []


def test_mixtures_and_joined_epochs_grow_too(folder):
    parts = {
        name: (pf.parquet(folder / f"{name}.parquet", column="input_ids"), weight)
        for name, weight in (("a", 0.7), ("b", 0.3))
    }
    mixture = pf.mix(parts, max_steps=20)
    fields = ("input_ids", "dataset_ids")
    long = [*open_loader(mixture, lengths=None, fields=fields)]
    short = [*open_loader(mixture, fields=fields)]
    for step, (a, b) in enumerate(zip(long, short, strict=True)):
        assert b["input_ids"].tolist() == cut_up(a, step)
        each = len(b["input_ids"]) // len(a["input_ids"])
        assert b["dataset_ids"].tolist() == a["dataset_ids"].repeat(each).tolist()
    joined = open_loader(folder, epochs=2, lengths=[(0, 16), (40, 64)])
    lengths = [batch["input_ids"].shape[1] for batch in joined]
    assert lengths == [16] * 40 + [64] * (len(lengths) - 40)
    epochs = open_loader(folder)
    assert [[b["input_ids"].shape[1] for b in epochs][8] for _ in range(2)] == [32, 32]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_take_rows_of_their_steps(folder):
    data = as_dataset(open_loader(folder, format="torch"))
    loop = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=3, multiprocessing_context="fork"
    )
    assert plain(loop) == plain(open_loader(folder))


def test_the_forecast_counts_documents_that_short_rows_split(folder):
    grown = open_loader(folder, "packed whole")
    settled = open_loader(folder, "packed whole", lengths=None)
    plans = [pf.forecast(loader).splits for loader in (grown, settled)]
    for loader, plan in zip((grown, settled), plans, strict=True):
        for _ in loader:
            pass
        splits = loader.stats()["splits"]
        assert abs(plan - splits) <= max(1, splits / 50)
    assert plans[0] > 5 > plans[1]


def test_wrong_lengths_are_refused(folder):
    cut = pf.Windows(LENGTH)
    for asked, said in [
        ([(0, 48), (9, 64)], "lengths has 48: each must divide 64"),
        ([(0, 16), (9, 32)], r"grow to 32, .* Windows\(32\)"),
        ([(0, 128), (9, 64)], "grow to 128"),
        ([(1, 64)], r"begin at steps \[1\]"),
        ([(0, 16), (0, 64)], r"begin at steps \[0, 0\]"),
        ([(0, 0), (9, 64)], "lengths=0"),
        ([(0.5, 16), (9, 64)], "step of lengths=0.5"),
        ([16, 64], "lengths has the stage 16"),
        (64, "lengths has the stage 64"),
        ([], r"begin at steps \[\]"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            Lengths.parse(asked, cut)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="multiple of 32"):
        open_loader(folder, sequences=pf.Packed(LENGTH, multiple_of=32))
    with pytest.raises(InvalidArgumentError, match="give Windows or Packed"):
        open_loader(folder, sequences=pf.Documents(max_length=64))
    parts = pf.ContextParallel(0, 16)
    with pytest.raises(InvalidArgumentError, match="16"):
        open_loader(folder, context_parallel=parts)
