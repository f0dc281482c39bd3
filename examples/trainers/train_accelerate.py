"""A loop of one's own beside Accelerate; its checkpoint has the position.

torchrun --nproc-per-node 2 examples/trainers/train_accelerate.py tokens/ run/
"""

import sys

import torch
from accelerate import Accelerator
from torch import distributed

import pagefeed as pf
from pagefeed.integrations.accelerate import prepare


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
    accelerator = Accelerator(cpu=True)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = pf.Loader(
        pf.parquet(tokens, column="input_ids"),
        sequences=pf.Packed(128, eos=0),
        batch_size=4,
        seed=1,
        format="torch",
        fields=("input_ids", "labels"),
    )
    batches = prepare(accelerator, loader)
    if resume:
        accelerator.load_state(run)
    for batch in batches:
        loss = model(batch["input_ids"], batch["labels"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if loader.step == stop:
            break
    accelerator.save_state(run)
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")


if __name__ == "__main__":
    tokens, run = sys.argv[1:3]
    train(tokens, run, stop=10, resume=False)
    train(tokens, run, stop=15, resume=True)
    if distributed.is_initialized():
        distributed.destroy_process_group()
