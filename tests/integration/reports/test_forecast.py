"""What `plan` and `verify` say of a run is what the run then does."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.dataset_forecast import forecast
from pagefeed.reports.reuse import needed_bytes, simulate_loads
from pagefeed.reports.verification import Leg, verify
from pagefeed.run import Planner

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
    assert plan.read_bytes == pytest.approx(loader.stats()["bytes_read"], rel=0.05)


def test_same_page_pairs_are_those_of_the_batches(token_files):
    ordered = forecast(make_loader(token_files, shuffle=None, batch_size=16))
    shuffled = forecast(make_loader(token_files, shuffle="row", batch_size=16))
    assert ordered.same_file_pairs > 2 * ordered.same_file_pairs_random
    assert shuffled.same_file_pairs == pytest.approx(
        shuffled.same_file_pairs_random, rel=0.5
    )
    assert shuffled.same_page_pairs < ordered.same_page_pairs


def brute_force_loads(uses, capacity):
    """Fewest loads of pages of size 1, by trying every eviction."""
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for page in uses:
        following: dict[frozenset[int], int] = {}
        for held, loads in states.items():
            cost = loads + (page not in held)
            full = held | {page}
            kept = [full] if len(full) <= capacity else []
            if not kept:
                kept = [full - {victim} for victim in full]
            for choice in kept:
                following[choice] = min(cost, following.get(choice, cost))
        states = following
    return min(states.values())


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=14),
    st.integers(1, 6),
)
def test_simulated_loads_are_the_fewest(uses, capacity):
    pages = np.array(uses)
    loads = simulate_loads(pages, np.ones_like(pages), capacity)
    assert loads.sum() == brute_force_loads(uses, capacity)
    if capacity >= needed_bytes(pages, np.ones_like(pages)):
        assert loads.sum() == len(set(uses))


@pytest.mark.parametrize("shuffle", ["page", "row_group", "row", "buffer", None])
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
    honest = Planner.sequences
    monkeypatch.setattr(Planner, "sequences", lambda *args: honest(*args) // 2)
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
    assert main(["plan", *run[:-1]]) == 1
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
    assert main(["verify", *run, "--resume", "many"]) == 1
    assert "STEPS:WORLD_SIZE" in capsys.readouterr().err
