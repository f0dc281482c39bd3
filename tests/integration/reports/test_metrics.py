"""The numbers of a loader, and that of its rank among others."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader, write_numbered
from pagefeed.errors import InvalidArgumentError


def test_tokens_are_counted_by_position(folder):
    loader = numbered_loader(folder, world_size=2, rank=0)
    fresh = loader.metrics()
    assert fresh["data/tokens_total"] == fresh["data/batches_total"] == 0
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    now = loader.metrics()
    sequences = 3 * loader.batch_size * 2
    assert now["data/step"] == 3
    assert now["data/tokens_total"] == pytest.approx(sequences * 32, rel=0.01)
    assert 0 <= now["data/wait_fraction"] <= 1
    assert 0 <= now["data/prefetch_ready"] <= 1
    resumed = numbered_loader(folder, world_size=1)
    resumed.load_state_dict(loader.state_dict())
    assert resumed.metrics()["data/tokens_total"] == now["data/tokens_total"]


def test_epochs_behind_count(folder):
    loader = numbered_loader(folder)
    assert sum(len(batch["input_ids"]) for batch in loader)
    per_epoch = loader.num_sequences * 32 - loader.num_padding_tokens
    metrics = loader.metrics()
    assert metrics["data/epoch"] == 1
    # Less the last, incomplete step, which is dropped.
    assert metrics["data/tokens_total"] == pytest.approx(per_epoch, rel=0.01)


def test_the_epochs_of_a_single_sequence_count(tmp_path):
    rows = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "part.parquet")
    loader = numbered_loader(tmp_path, batch_size=1, epochs=2)
    assert len([*loader]) == 2
    assert loader.metrics()["data/tokens_total"] == 6


def test_skipped_steps_of_a_mixture_do_not_count(folder):
    mixed = pf.mix({"web": pf.parquet(folder, column="input_ids")}, max_steps=20)
    loader = numbered_loader(mixed)
    loader.skip([2, 5, 6])
    for _ in zip(range(6), loader, strict=False):
        pass
    assert loader.step == 9
    assert loader.stats()["web/sequences"] == 6 * loader.batch_size
    per_step = loader.batch_size * 32
    tokens = loader.metrics()["data/tokens_total"]
    assert tokens == pytest.approx(6 * per_step, rel=0.01)


def test_a_mixture_tells_its_shares(folder, tmp_path):
    write_numbered(tmp_path, first_token=50_000)
    parts = {
        "web": (pf.parquet(folder, column="input_ids"), 0.75),
        "code": (pf.parquet(tmp_path, column="input_ids"), 0.25),
    }
    loader = numbered_loader(pf.mix(parts, max_steps=100))
    for _ in loader:
        pass
    metrics = loader.metrics()
    assert metrics["data/mix/web_share"] == pytest.approx(0.75, abs=0.02)
    total = sum(metrics[f"data/mix/{name}_tokens_total"] for name in parts)
    assert metrics["data/tokens_total"] == pytest.approx(total, abs=2)


def test_one_process_agrees_with_itself(folder):
    pytest.importorskip("torch", reason="the extra torch is not installed")
    numbered_loader(folder).check_ranks()
    with pytest.raises(InvalidArgumentError, match="no process has rank 1"):
        numbered_loader(folder, world_size=2).check_ranks()


def test_any_gathering_function_proves_it(folder):
    loaders = [numbered_loader(folder, rank=n, world_size=2) for n in range(2)]
    facts = []

    def gather(mine):
        facts.append(mine)
        other = ((1 - mine[0][0], 2), *mine[1:])
        return sorted([mine, other], key=lambda each: each[0])

    for loader in loaders:
        loader.check_ranks(gather)
    assert [each[0] for each in facts] == [(0, 2), (1, 2)]
    assert facts[0][1] == facts[1][1]


def test_model_flops_are_those_of_all_tokens_since_the_first_batch(folder):
    loader = numbered_loader(folder)
    assert loader.metrics(flops_per_token=1, peak_flops=1)["data/mfu"] == 0
    begin = time.monotonic()
    tokens = sum(batch["input_ids"].size for batch in loader)
    for _ in range(2):  # A reading does not begin anew.
        seconds = time.monotonic() - begin
        told = loader.metrics(flops_per_token=6e3, peak_flops=1e9)
        rate = told["data/run_tokens_per_second"]
        assert rate == pytest.approx(tokens / seconds, rel=0.3)
        assert told["data/mfu"] == pytest.approx(rate * 6e-6)
    assert "data/mfu" not in loader.metrics()


@pytest.mark.parametrize(
    "wrong",
    [
        {"flops_per_token": 1e9},
        {"peak_flops": 1e12},
        {"peak_flops": 1, "flops_per_token": 0},
        {"flops_per_token": 1, "peak_flops": "fast"},
        {"gpu": 1},
    ],
)
def test_what_metrics_are_asked_for_is_checked(folder, wrong):
    with pytest.raises(InvalidArgumentError, match=next(reversed(wrong)).split("_")[0]):
        numbered_loader(folder).metrics(**wrong)


def test_waits_are_those_of_the_loop(folder):
    def slow(batch):
        time.sleep(0.03)
        return batch

    loader = numbered_loader(folder, transform=slow)
    batches = iter(loader)
    next(batches)
    told = loader.metrics()
    assert 0.03 <= told["data/wait_p50_seconds"] <= told["data/wait_longest_seconds"]
    assert loader.metrics()["data/wait_longest_seconds"] == 0
