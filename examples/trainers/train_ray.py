"""Ray Train: a loader in every worker, resumed from Ray's checkpoint.

python examples/trainers/train_ray.py tokens/ run/
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train.torch import TorchTrainer

import pagefeed as pf
from pagefeed.integrations.ray import ranks, restore, save


def work(config: dict[str, Any]) -> None:
    """Run in every worker: the tokens seen stand for training on them."""
    rank, world_size = ranks()
    loader = pf.Loader(
        pf.parquet(config["tokens"], column="input_ids"),
        sequences=pf.Packed(128, eos=0),
        batch_size=4,
        seed=1,
        format="torch",
        fields=("input_ids", "labels"),
        rank=rank,
        world_size=world_size,
    )
    restore(loader, config["resume"])
    loader.check_ranks()
    seen = 0
    for batch in loader:
        seen += batch["input_ids"].numel()
        if loader.step == config["stop"]:
            break
    with tempfile.TemporaryDirectory() as folder:
        save(loader, folder)  # On rank 0 alone; the report is a barrier for all.
        checkpoint = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
        numbers = {"step": loader.step, "tokens": seen}
        ray.train.report(numbers, checkpoint=checkpoint)


def train(tokens: str, run: str, stop: int, resume: Any = None) -> Any:
    """Train up to a step on two workers, and return the result."""
    trainer = TorchTrainer(
        work,
        train_loop_config={"tokens": tokens, "stop": stop, "resume": resume},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=run, name=f"to-{stop}"),
    )
    return trainer.fit()


if __name__ == "__main__":
    tokens, run = (str(Path(argument).resolve()) for argument in sys.argv[1:3])
    ray.init(num_cpus=2, include_dashboard=False)
    first = train(tokens, run, stop=10)
    second = train(tokens, run, stop=15, resume=first.checkpoint)
    print(f"rank 0 of 2 ends at step {second.metrics['step']}")
    print(f"{second.metrics['tokens']} tokens of it after the resume")
    ray.shutdown()
