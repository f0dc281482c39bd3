"""A DeepSpeed engine; its checkpoints carry the position.

torchrun --nproc-per-node 2 examples/trainers/train_deepspeed.py tokens/ run/
"""

import sys

import deepspeed
import torch

import pagefeed as pf
from pagefeed.integrations.deepspeed import attach
from pagefeed.launch import from_deepspeed

CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}


class Model(torch.nn.Module):
    """Predicts a token from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(65536, 16)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        logits = self.embedding(ids[:, :-1]) @ self.embedding.weight.T
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[:, 1:].flatten()
        )


def train(tokens: str, run: str, stop: int, *, resume: bool) -> None:
    """Train up to a step, and save there."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    rank, world_size = from_deepspeed()
    loader = pf.Loader(
        pf.parquet(tokens, column="input_ids"),
        sequences=pf.Packed(128, eos=0),
        batch_size=4,
        seed=1,
        format="torch",
        fields=("input_ids", "labels"),
        rank=rank,
        world_size=world_size,
    )
    data = attach(engine, loader)
    if resume:
        data.load_checkpoint(run)
    for batch in data:
        engine.backward(engine(batch["input_ids"], batch["labels"]))
        engine.step()
        if loader.step == stop:
            break
    data.save_checkpoint(run)
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")


if __name__ == "__main__":
    tokens, run = sys.argv[1:3]
    deepspeed.init_distributed(dist_backend="gloo")
    train(tokens, run, stop=10, resume=False)
    train(tokens, run, stop=15, resume=True)
    torch.distributed.destroy_process_group()
