"""Lightning, with a data module whose position is in every checkpoint.

    python examples/trainers/train_lightning.py tokens/ run/

Lightning starts the second process itself: the loader is made where ranks are known.
"""

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import distributed

import pagefeed as pf
from pagefeed.integrations.lightning import LoaderDataModule


class Module(lightning.LightningModule):
    """Predicts a token from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(65536, 16)

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss."""
        ids, labels = batch["input_ids"], batch["labels"]
        logits = self.embedding(ids[:, :-1]) @ self.embedding.weight.T
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[:, 1:].flatten()
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(tokens: str, run: Path, max_steps: int, resume: Path | None = None) -> None:
    """Train up to a step, saving every fifth."""

    def make(rank: int, world_size: int) -> pf.Loader:
        return pf.Loader(
            pf.parquet(tokens, column="input_ids"),
            sequences=pf.Packed(128, eos=0),
            batch_size=4,
            seed=1,
            format="torch",
            fields=("input_ids", "labels"),
            rank=rank,
            world_size=world_size,
        )

    saving = ModelCheckpoint(run, "{step}", every_n_train_steps=5, save_top_k=-1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_steps=max_steps,
        callbacks=[saving],
        default_root_dir=run,
        logger=False,
        enable_progress_bar=False,
    )
    data = LoaderDataModule(train=make)
    trainer.fit(Module(), datamodule=data, ckpt_path=resume)
    loader = data.loader
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    train(sys.argv[1], folder, 10)
    train(sys.argv[1], folder, 15, resume=folder / "step=10.ckpt")
    if distributed.is_initialized():
        distributed.destroy_process_group()
