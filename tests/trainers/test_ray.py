"""Ray: workers of Ray Train on any number, and sequences in Ray Data."""

import json
import tempfile

import pytest

ray = pytest.importorskip("ray", reason="make test-trainers ARGS=ray")

from ray import train as ray_train  # noqa: E402 - likewise
from ray.train.torch import TorchTrainer  # noqa: E402

import pagefeed as pf  # noqa: E402
from trainers.running import EPOCH, LENGTH, TESTS, flat  # noqa: E402

STEPS = 14


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Ray gives its node 30 seconds, which a loaded machine may take."""
    for tries_left in (2, 1, 0):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": str(TESTS)}},
            )
            break
        except Exception as error:
            if "timed out" not in str(error) or not tries_left:
                raise
            ray.shutdown()
    yield
    ray.shutdown()


def work(config):
    """In a worker: an epoch, a checkpoint on the way, what was seen beside it."""
    from pagefeed.integrations.ray import ranks, restore, save

    rank, world_size = ranks()
    loader = pf.Loader(
        pf.parquet(config["data"], column="input_ids"),
        sequences=pf.Windows(LENGTH),
        batch_size=4,
        seed=5,
        format="torch",
        rank=rank,
        world_size=world_size,
        num_threads=1,
    )
    resumed = restore(loader, config["resume"])
    loader.check_ranks()
    seen = []
    for batch in loader:
        seen.append(batch["input_ids"][:, 0].tolist())
        if loader.step == config["stop"]:
            break
    with tempfile.TemporaryDirectory() as folder:
        save(loader, folder)
        with open(f"{config['seen']}-{rank}.json", "w", encoding="utf-8") as file:
            json.dump(seen, file)
        checkpoint = ray_train.Checkpoint.from_directory(folder) if rank == 0 else None
        metrics = {"resumed": resumed, "step": loader.step}
        ray_train.report(metrics, checkpoint=checkpoint)


def train(folder, name, workers, stop=None, resume=None):
    config = {
        "data": str(folder / "data"),
        "seen": str(folder / name),
        "stop": stop,
        "resume": resume,
    }
    result = TorchTrainer(
        work,
        train_loop_config=config,
        scaling_config=ray_train.ScalingConfig(num_workers=workers),
        run_config=ray_train.RunConfig(storage_path=str(folder / "ray"), name=name),
    ).fit()
    seen = [
        json.loads((folder / f"{name}-{rank}.json").read_text())
        for rank in range(workers)
    ]
    return result, seen


def test_workers_resume_on_another_number_of_them(folder):
    whole, all_seen = train(folder, "whole", 2)
    assert not whole.metrics["resumed"]
    assert sorted(row for seen in all_seen for row in flat(seen)) == EPOCH
    stopped, begun = train(folder, "stopped", 2, stop=6)
    assert begun == [seen[:6] for seen in all_seen]
    resumed, [rest] = train(folder, "alone", 1, resume=stopped.checkpoint)
    assert resumed.metrics["resumed"]
    assert sorted(flat([flat(seen) for seen in begun] + rest)) == EPOCH


def test_ray_data_reads_every_sequence(folder):
    from pagefeed.integrations.ray import PagefeedDatasource

    data = pf.parquet(folder / "data", column="input_ids")
    source = PagefeedDatasource(data, pf.Windows(LENGTH))
    assert source.estimate_inmemory_data_size() == len(EPOCH) * LENGTH * 8
    tasks = source.get_read_tasks(5)
    assert sum(task.metadata.num_rows for task in tasks) == len(EPOCH)
    assert len(source.get_read_tasks(1000)) == len(EPOCH)
    dataset = ray.data.read_datasource(source)
    rows = [row["input_ids"] for row in dataset.take_all()]
    assert sorted(int(row[0]) for row in rows) == EPOCH
    assert all(list(row) == list(range(row[0], row[0] + LENGTH)) for row in rows)
    limited = dataset.limit(7).take_all()
    assert len(limited) == 7
