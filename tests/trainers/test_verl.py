"""Prompts of a queue through the data path of verl's trainer, killed and resumed."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagefeed.errors import InvalidArgumentError

REASON = "make test-trainers ARGS=verl"
pytest.importorskip("verl", reason=REASON)
torch = pytest.importorskip("torch", reason=REASON)

with warnings.catch_warnings():  # Of deprecated names that it uses.
    warnings.simplefilter("ignore")
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.utils import create_rl_dataset
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

ROWS, STEP = 24, 4
PROMPTS = """
import pagefeed as pf
from pagefeed.integrations.verl import QueueDataset


class Prompts(QueueDataset):
    def make_queue(self):
        return pf.PromptQueue(
            pf.parquet(list(self.data_files), column="prompt"),
            columns=["prompt", "data_source", "extra_info"],
            epochs=self.config.queue_epochs,
            max_in_flight=8,
            curriculum=pf.Curriculum([0.5], [1.0, 0.0]),
        )
"""


@pytest.fixture
def config(tmp_path: Path) -> Any:
    for name, rows in (("train", ROWS), ("val", 3)):
        table = {
            "prompt": [[{"role": "user", "content": str(n)}] for n in range(rows)],
            "data_source": ["made"] * rows,
            "extra_info": [{"index": n} for n in range(rows)],
        }
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    (tmp_path / "prompts.py").write_text(PROMPTS)
    data = {
        "train_files": [str(tmp_path / "train.parquet")],
        "val_files": [str(tmp_path / "val.parquet")],
        "custom_cls": {"path": str(tmp_path / "prompts.py"), "name": "Prompts"},
        "queue_epochs": 2,
        "train_batch_size": STEP,
        "val_batch_size": None,
        "shuffle": False,
        "dataloader_num_workers": 0,
        "filter_overlong_prompts": False,
        "cache_dir": str(tmp_path / "cache"),
    }
    trainer: Any = {"total_epochs": 1, "total_training_steps": None}
    trainer["v1"] = {"sampler": {}}
    groups = {"filter_groups": None}
    whole: Any = {"data": data, "trainer": trainer, "algorithm": groups}
    whole["actor_rollout_ref"] = {"actor": {"optim": {}}}
    return OmegaConf.create(whole)


def trainer_of(config: Any, mode: str = "sync") -> Any:
    """Verl's trainer with its data and without its models, which need GPUs."""
    kind: Any = type("Trainer", (PPOTrainer,), {})
    kind.__abstractmethods__ = frozenset()
    trainer: Any = object.__new__(kind)
    trainer.config, trainer.trainer_mode = config, mode
    trainer.tokenizer = trainer.processor = None
    trainer.global_steps, trainer.parameter_sync_step = 0, 1
    trainer._init_dataloader()
    return trainer


def rows_of(batch: Any) -> list[int]:
    return [info["index"] for info in batch["extra_info"]]


@pytest.mark.parametrize("mode", ["sync", "separate_async"])
def test_each_prompt_once_in_each_pass_after_kills(config, tmp_path, mode):
    trained: list[int] = []
    for _ in range(3):
        trainer = trainer_of(config, mode)
        if trained:
            state = torch.load(tmp_path / "data.pt", weights_only=False)
            trainer.train_dataloader.load_state_dict(state)
        for _ in range(4):
            trained += rows_of(trainer._next_train_batch())
        torch.save(trainer.train_dataloader.state_dict(), tmp_path / "data.pt")
        trainer._next_train_batch() if len(trained) < 2 * ROWS else None  # Lost.
    assert Counter(trained) == dict.fromkeys(range(ROWS), 2)
    assert Counter(trained[:ROWS]) == dict.fromkeys(range(ROWS), 1)


def test_scores_move_prompts(config):
    config.data.queue_epochs = None
    dataset = trainer_of(config).train_dataset
    seen: list[int] = []
    for _ in range(12):
        items = dataset.__getitems__(range(STEP))
        seen += rows_of({"extra_info": [item["extra_info"] for item in items]})
        twice = [item for item in items for _ in range(2)]
        rewards = torch.tensor([[item["extra_info"]["index"] < 12] for item in twice])
        infos = [item["extra_info"] for item in twice]
        dataset.on_batch_end(
            DataProto.from_dict(
                {"token_level_scores": rewards.float()}, {"extra_info": infos}
            )
        )
    assert dataset.queue.in_flight == 0
    assert Counter(seen[:ROWS]) == dict.fromkeys(range(ROWS), 1)
    assert min(seen[ROWS:]) >= 12  # Those that are solved leave.
    assert len(dataset) > 1 << 30


def test_validation_is_read_by_verl_and_what_cannot_be_right_is_refused(config):
    trainer = trainer_of(config)
    assert rows_of(next(iter(trainer.val_dataloader)))
    assert len(trainer.val_dataset) == 3
    for change in (
        {"shuffle": True},
        {"dataloader_num_workers": 2},
        {"val_files": config.data.train_files},
    ):
        wrong = OmegaConf.merge(config.data, change)
        with pytest.raises(InvalidArgumentError):
            create_rl_dataset(config.data.train_files, wrong, None, None)
    dataset = trainer.train_dataset
    for _ in range(2 * ROWS // STEP):
        dataset.__getitems__(range(STEP))
    with pytest.raises(InvalidArgumentError, match="no prompts left"):
        dataset.__getitems__(range(STEP))
