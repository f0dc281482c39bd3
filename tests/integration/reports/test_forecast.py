"""What `plan` and `verify` say of a run is what the run then does."""

import itertools
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shuffles import SHUFFLES
from pagefeed.cli import main
from pagefeed.core.run import Cursor
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports import Leg, forecast, rehearsal, verify

LENGTH = 64


def make_loader(files, **options):
    settings: dict[str, Any] = {"sequences": pf.Windows(LENGTH), "batch_size": 4}
    settings |= {"seed": 3, "rank": 0, "world_size": 1, "memory": "8MiB"} | options
    return pf.Loader(pf.parquet(files, column="input_ids"), **settings)


def test_steps_padding_and_remainder_are_those_of_the_run(token_files, num_tokens):
    loader = make_loader(token_files, padding=-1, drop_last=False)
    plan = forecast(loader)
    batches = [batch["input_ids"].copy() for batch in loader]
    assert plan.steps == len(batches)
    rows = np.concatenate(batches)
    filled = rows[(rows >= 0).any(axis=1)]
    assert len(filled) == plan.sequences
    assert (filled < 0).sum() == plan.padding_tokens
    assert plan.tokens == num_tokens
    assert plan.remainder == plan.sequences % 4


def mates(loader, epoch):
    """Pairs of sequences that share a batch of some rank in an epoch."""
    run, found = loader.view().run, set()
    for rank in range(loader.world_size):
        cursor = run.at(run.beginning(epoch), rank=rank)
        for step in range(cursor.route.num_steps or 0):
            batch = cursor.sequences(step, 1)
            found |= set(itertools.combinations(np.sort(batch[batch >= 0]).tolist(), 2))
    return found


@pytest.mark.parametrize("shuffle", [None, "page", pf.Shuffle(window=20)])
@pytest.mark.parametrize("balance", [None, pf.Balance(attention=1, stretch=16)])
def test_pairs_that_meet_again_are_those_of_two_epochs(token_files, shuffle, balance):
    loader = make_loader(
        token_files,
        sequences=pf.Packed(LENGTH),
        world_size=2,
        batch_size=16,
        shuffle=shuffle,
        balance=balance,
        drop_last=False,
    )
    plan = forecast(loader)
    now = mates(loader, 0)
    again = now & mates(loader, 1)
    # The forecast looks at one rank.
    assert plan.met_again == pytest.approx(len(again) / len(now), rel=0.25, abs=0.02)
    assert plan.met_again_random == 15 / (plan.sequences - 1)
    if balance is None:
        assert (plan.met_again == 1) == (shuffle is None)


def test_documents_of_a_budget_meet_again(token_files):
    documents = pf.Documents(columns=[], max_length=LENGTH)
    loader = make_loader(
        token_files, sequences=documents, batch_size=None, batch_tokens=4 * LENGTH
    )
    plan = forecast(loader)
    assert plan.met_again == 1
    assert 0 < (plan.met_again_random or 0) < 0.1


def test_one_row_meets_none_and_a_mixture_has_no_next_epoch(token_files):
    data = pf.parquet(token_files, column="input_ids")
    for loader in (
        make_loader(token_files, batch_size=1),
        pf.Loader(
            pf.mix({"a": data}, max_steps=4),
            sequences=pf.Windows(LENGTH),
            batch_size=4,
        ),
    ):
        assert forecast(loader).met_again is None


def test_an_epoch_may_be_shorter_than_a_batch(tmp_path):
    table = pa.table({"input_ids": [[7] * 3 * LENGTH]})
    pq.write_table(table, tmp_path / "a.parquet")
    loader = make_loader(tmp_path, batch_size=4, epochs=4)
    assert len([*loader]) == 3
    plan = forecast(loader)
    assert (plan.steps, plan.sequences, plan.same_page_pairs) == (0, 3, 0)


@pytest.mark.parametrize("shuffle", ["page", "row", None])
def test_reads_are_those_of_the_run(token_files, shuffle):
    loader = make_loader(token_files, shuffle=shuffle)
    plan = forecast(loader)
    assert plan.needed_bytes < plan.memory_bytes
    for _ in loader:
        pass
    assert loader.stats()["pages_loaded"] == pytest.approx(
        plan.loads_per_page * plan.pages, rel=0.02
    )
    assert plan.reads == pytest.approx(loader.stats()["pages_loaded"], rel=0.02)
    # Dictionaries, too, which the loader does not count.
    assert plan.bytes_read >= 0.95 * loader.stats()["bytes_read"]


@pytest.mark.parametrize("window", [64, 4096])
def test_pages_without_a_planned_use_are_read_again(tmp_path, window):
    tokens = np.arange(1_600_000, dtype=np.int32).reshape(-1, 100)
    path = tmp_path / "a.parquet"
    options: dict[str, Any] = {"data_page_size": 4096, "write_batch_size": 8}
    rows = pa.FixedSizeListArray.from_arrays(tokens.reshape(-1), 100)
    pq.write_table(pa.table({"input_ids": rows}), path, **options)
    shuffle = pf.Shuffle(window=window)
    loader = make_loader(
        path, sequences=pf.Windows(8), batch_size=64, shuffle=shuffle, memory="64MiB"
    )
    plan = forecast(loader)
    for _ in loader:
        pass
    loads = loader.stats()["pages_loaded"] / plan.pages
    assert plan.loads_per_page == pytest.approx(loads, rel=0.1)
    assert loads > 1.3


def test_memory_of_batches_is_missing_for_pages(tmp_path):
    tokens = pa.array(np.arange(8_000_000, dtype=np.int32))
    rows = pa.FixedSizeListArray.from_arrays(tokens, 100)
    path = tmp_path / "a.parquet"
    options: dict[str, Any] = {"data_page_size": 16384, "use_dictionary": False}
    pq.write_table(pa.table({"input_ids": rows}), path, **options)
    windows = pf.Windows(512)
    settings: dict[str, Any] = {"batch_size": 256, "fields": ("input_ids",)}
    loader = make_loader(
        path, sequences=windows, shuffle="row", memory="32MiB", **settings
    )
    plan = forecast(loader)
    for _ in loader:
        pass
    loads = loader.stats()["pages_loaded"] / plan.pages
    assert loads > 1.3
    assert plan.loads_per_page == pytest.approx(loads, rel=0.08)


def test_a_long_epoch_is_looked_at_in_part(tmp_path, monkeypatch):
    """In a stretch of which the begin only brings pages into memory."""
    tokens = pa.array(np.arange(1_600_000, dtype=np.int32))
    rows = pa.FixedSizeListArray.from_arrays(tokens, 100)
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    shuffle = pf.Shuffle(window=1 << 14)
    cut: dict[str, Any] = {"sequences": pf.Windows(4), "batch_size": 64}
    loader = make_loader(tmp_path, shuffle=shuffle, **cut)
    whole = forecast(loader)
    monkeypatch.setattr(rehearsal, "MOST_SEQUENCES", 1 << 16)
    part = forecast(loader)
    assert part.reads == pytest.approx(whole.reads, rel=0.2, abs=4)


def test_same_page_pairs_are_those_of_the_batches(token_files):
    ordered = forecast(make_loader(token_files, shuffle=None, batch_size=16))
    shuffled = forecast(make_loader(token_files, shuffle="row", batch_size=16))
    assert ordered.same_file_pairs > 2 * ordered.same_file_pairs_random
    assert shuffled.same_file_pairs == pytest.approx(
        shuffled.same_file_pairs_random, rel=0.5
    )
    assert shuffled.same_page_pairs < ordered.same_page_pairs


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_epochs_with_resumes_are_verified(token_files, shuffle):
    loader = make_loader(token_files, shuffle=shuffle)
    legs = [
        Leg(world_size=8, batch_size=4, steps=3),
        Leg(world_size=3, batch_size=2, steps=5),
        Leg(world_size=5, batch_size=7),
    ]
    result = verify(loader, legs, epoch=2)
    assert result.ok, result.problems
    assert result.num_delivered == loader.num_sequences - result.num_dropped
    assert result.num_dropped < 5 * 7


def test_a_wrong_order_is_found(token_files, monkeypatch):
    loader = make_loader(token_files)
    honest = Cursor.sequences
    monkeypatch.setattr(Cursor, "sequences", lambda *args: honest(*args) // 2)
    result = verify(loader)
    assert not result.ok
    assert any("more than once" in problem for problem in result.problems)


def test_only_the_last_leg_runs_to_the_end(token_files):
    legs = [Leg(world_size=2, batch_size=2)] * 2
    with pytest.raises(InvalidArgumentError, match="last leg"):
        verify(make_loader(token_files), legs)


def test_the_command_line_knows_documents(token_files, capsys):
    run = [*map(str, token_files), "--column", "input_ids", "--documents"]
    dataset = pf.parquet(token_files, column="input_ids")
    for verb in ("plan", "verify"):
        assert main([verb, *run, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (
            found["num_sequences" if verb == "verify" else "sequences"]
            == dataset.spans.num_rows
        )
    assert main(["plan", *run[:-1]]) == 2
    assert "--length is missing" in capsys.readouterr().err


def test_pages_of_text_take_memory_too(tmp_path):
    words = [f"{number} " * (number % 50) for number in range(20_000)]
    table = pa.table({"text": words})
    pq.write_table(table, tmp_path / "text.parquet", row_group_size=2000)
    dataset = pf.parquet(tmp_path / "text.parquet", column="text")
    plan = forecast(pf.Loader(dataset, sequences=pf.Documents(), batch_size=8))
    size = table["text"].nbytes
    assert 0.3 * size < plan.needed_bytes < 3 * size


def test_the_command_line_reports_both(token_files, capsys):
    run = [*map(str, token_files), "--column", "input_ids", "--length", str(LENGTH)]
    for verb, extra in (
        ("plan", []),
        ("verify", ["--resume", "3:2", "--resume", "1:4:2"]),
    ):
        assert main([verb, *run, *extra]) == 0
        assert capsys.readouterr().out.strip()
        assert main([verb, *run, *extra, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)
    assert main(["verify", *run, "--resume", "many"]) == 2
    assert "STEPS:WORLD_SIZE" in capsys.readouterr().err


@pytest.mark.parametrize("shuffle", ["page", "row", None])
@pytest.mark.parametrize("length", [16, 2048])
def test_reads_of_flat_files_are_those_of_the_run(tmp_path, shuffle, length):
    rng = np.random.default_rng(0)
    for shard in range(2):
        path = tmp_path / str(shard)
        with pf.StreamWriter(path, dtype="u2", serialize="bytes") as out:
            for size in rng.integers(10, 3000, 60).tolist():
                spans = [(at, at + 3, b"payload") for at in range(0, size - 3, 5)]
                out.append(np.arange(size), spans=spans)
    loader = pf.Loader(
        pf.stream(tmp_path),
        sequences=pf.Windows(length, eos=0),
        batch_size=4,
        shuffle=shuffle,
        seed=1,
        fields=("input_ids", "labels", "metadata"),
    )
    plan = forecast(loader)
    for _ in loader:
        pass
    stats = loader.stats()
    assert plan.slice_reads == pytest.approx(stats["slices_read"], rel=0.05, abs=2)
    reads = stats["pages_loaded"] + stats["slices_read"]
    assert plan.reads == pytest.approx(reads, rel=0.05, abs=2)
    told = plan.columns["spans"]
    others = stats["index_reads"] + stats["payload_reads"]
    assert told.reads == pytest.approx(others, rel=0.1, abs=4)
    num_bytes = plan.bytes_read + told.bytes
    assert num_bytes == pytest.approx(stats["bytes_read"], rel=0.1)
    if length == 2048:
        assert plan.loads_per_page == 0 == stats["pages_loaded"]


@pytest.mark.parametrize("shuffle", ["page", "row"])
def test_bytes_of_metadata_are_those_of_the_run(tmp_path, shuffle):
    rows = [[n % 1000] * 30 for n in range(20_000)]
    table = {"input_ids": rows, "id": [f"{n:0200}" for n in range(len(rows))]}
    table["score"] = np.arange(len(rows)) / 7
    for number in range(2):
        pq.write_table(
            pa.table(table),
            tmp_path / f"{number}.parquet",
            use_dictionary=False,
            compression="none",
            data_page_size=20_000,
            write_batch_size=50,
        )
    data = pf.parquet(tmp_path, column="input_ids", metadata=["id", "score"])

    def run(memory, fields=("input_ids", "metadata")):
        # All 2,000 in one piece of a plan: without a next one pages are let go of, and
        # read again.
        sequences = pf.Windows(600)
        settings = {"batch_size": 250, "shuffle": shuffle, "memory": memory, "seed": 1}
        return pf.Loader(data, sequences=sequences, fields=fields, **settings)

    read = []
    for loader in (run("1GiB", ("input_ids",)), run("1GiB")):
        for _ in loader:
            pass
        read.append(loader.stats()["bytes_read"])
    plan = forecast(run("1GiB"))
    extra = sum(each.bytes for each in plan.columns.values())
    assert extra == pytest.approx(read[1] - read[0], rel=0.15)
    assert list(plan.columns) == ["id", "score"]
    assert forecast(run("1GiB", ("input_ids",))).columns == {}
    # What several pages of tokens need is read again if it cannot be kept.
    short = forecast(run("8MiB")).columns
    assert all(short[name].bytes > 2 * plan.columns[name].bytes for name in short)
