"""OLMo-core's trainer on the CPU, fed from Parquet and resumed.

torchrun --nproc-per-node 2 examples/trainers/train_olmo.py tokens/ run/
"""

import sys
from typing import Any

from olmo_core.config import DType
from olmo_core.data import TokenizerConfig
from olmo_core.nn.transformer import TransformerConfig
from olmo_core.optim import AdamWConfig
from olmo_core.train import (
    Duration,
    TrainerConfig,
    prepare_training_environment,
    teardown_training_environment,
)
from olmo_core.train.callbacks import CheckpointerCallback
from olmo_core.train.train_module import TransformerTrainModuleConfig

import pagefeed as pf
from pagefeed.integrations.olmo import PagefeedDataLoader

LENGTH, BATCH_SIZE = 128, 4


def train(tokens: str, run: str, stop: int) -> Any:
    """Train up to a step; the trainer finds its own last checkpoint."""
    loader = pf.Loader(
        pf.parquet(tokens, column="input_ids"),
        sequences=pf.Packed(LENGTH, eos=0),
        batch_size=BATCH_SIZE,
        seed=1,
        format="torch",
        fields=("input_ids", "loss_mask"),
    )
    model = TransformerConfig.llama_like(
        d_model=16,
        vocab_size=TokenizerConfig.dolma2().padded_vocab_size(),
        n_layers=1,
        n_heads=2,
        dtype=DType.float32,
    ).build(init_device="cpu")
    module = TransformerTrainModuleConfig(
        rank_microbatch_size=BATCH_SIZE * LENGTH,
        max_sequence_length=LENGTH,
        optim=AdamWConfig(lr=1e-3),
    ).build(model)
    saving = CheckpointerCallback(save_interval=5, save_async=False)
    trainer = TrainerConfig(
        save_folder=run,
        max_duration=Duration.steps(stop),
        metrics_collect_interval=5,
        callbacks={"checkpointer": saving},
    ).build(module, PagefeedDataLoader(loader, work_dir=run))
    trainer.fit()
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")


if __name__ == "__main__":
    tokens, run = sys.argv[1:3]
    prepare_training_environment(backend="gloo")
    train(tokens, run, stop=10)
    train(tokens, run, stop=15)
    teardown_training_environment()
