"""The row behind a spike is named in a table, at any number of ranks."""

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError, LossWarning

REASON = "make test-trainers ARGS=transformers"
torch = pytest.importorskip("torch", reason=REASON)
tf = pytest.importorskip("transformers", reason=REASON)
trl = pytest.importorskip("trl", reason=REASON)
datasets = pytest.importorskip("datasets", reason=REASON)

from pagefeed.integrations.spikes import is_spike  # noqa: E402
from pagefeed.integrations.transformers import attach  # noqa: E402

NOISE = 333


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spikes")
    draw = np.random.default_rng(0)
    rows = [[1 + (n + k) % 5 for k in range(24)] for n in range(400)]
    rows[NOISE] = draw.integers(10, 500, 24).tolist()
    pq.write_table(pa.table({"input_ids": rows}), path / "a.parquet")
    return path


def trained(folder: Path, out: Path, kind: Any, **settings: Any) -> Any:
    """Train, with two micro-batches an update; returns trainer and loader."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = tf.LlamaConfig(
        vocab_size=512,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    arguments = {
        "output_dir": str(out),
        "report_to": [],
        "use_cpu": True,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "num_train_epochs": 1,
        "learning_rate": 3e-2,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    made: dict[str, Any] = {"model": tf.LlamaForCausalLM(config)}
    if kind == "trl":
        tokenizer = tf.PreTrainedTokenizerFast(
            tokenizer_object=small_tokenizer(), eos_token="0", pad_token="0"
        )
        rows = datasets.Dataset.from_dict({"input_ids": [[1, 2]]})
        made |= {"args": trl.SFTConfig(**arguments, bf16=False), "train_dataset": rows}
        trainer = trl.SFTTrainer(**made, processing_class=tokenizer)
    else:
        trainer = tf.Trainer(**made, args=tf.TrainingArguments(**arguments))
    names = ("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen")
    loader = pf.Loader(
        pf.parquet(folder, column="input_ids"),
        sequences=pf.Packed(75, eos=0, split="never"),
        batch_size=2,
        seed=2,
        format="torch",
        fields=pf.Fields(names=names),
    )
    attach(trainer, loader, **settings)
    return trainer, loader


def small_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    return Tokenizer(WordLevel({str(n): n for n in range(512)}, unk_token="0"))


@pytest.mark.parametrize("kind", ["transformers", "trl"])
def test_the_planted_row_is_first_in_the_table(kind: str, folder: Path, tmp_path: Path):
    trainer, loader = trained(folder, tmp_path, kind, on_spike=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.train()
    assert not [each for each in told if "return_outputs" in str(each.message)]
    [spike] = [each for each in told if each.category is LossWarning]
    [table] = tmp_path.glob("spike-*.csv")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert int(rows[0]["file_row"]) == NOISE
    step = int(rows[0]["step"])
    assert f"loader.skip([{step}])" in str(spike.message)
    assert table.name == f"spike-{step}-rank-0.csv"
    [(_, again)] = pf.reports.replay(loader, [step])
    assert int(again["input_ids"].max()) > 9  # The step has the row.


def test_nothing_is_called_where_it_is_not_asked_for(folder: Path, tmp_path: Path):
    trainer, _ = trained(folder, tmp_path, "transformers")
    assert trainer.compute_loss.__func__ is tf.Trainer.compute_loss
    batch = next(iter(trainer.get_train_dataloader()))
    assert "pagefeed" not in batch
    assert not trainer.model._forward_hooks


def test_a_rule_of_ones_own(folder: Path, tmp_path: Path):
    seen: list[tuple[float, int]] = []

    def rule(loss: float, earlier: Any) -> bool:
        seen.append((loss, len(earlier)))
        return len(seen) == 3

    trainer, _ = trained(folder, tmp_path, "transformers", on_spike=rule)
    trainer.args.max_steps = 3
    with pytest.warns(LossWarning, match="step 2 of epoch 0"):
        trainer.train()
    assert [count for _, count in seen] == [0, 1, 2, 3, 4, 5]
    # The mean of a batch, not its part of an update: noise before training.
    assert seen[0][0] == pytest.approx(np.log(512), rel=0.1)
    with pytest.raises(InvalidArgumentError, match="on_spike=3"):
        trained(folder, tmp_path, "transformers", on_spike=3)


def test_a_spike_is_far_above_those_before():
    usual = [3.0, 3.1, 2.9, 3.2] * 5
    assert not is_spike(9.0, usual[:19])
    found = [is_spike(loss, usual) for loss in (3.3, 3.9, 4.9, 9.0)]
    assert found == [False, False, True, True]
    falling = [8 * 0.9**n for n in range(32)]
    assert not any(is_spike(falling[n], falling[:n]) for n in range(32))
    assert is_spike(3.0, falling)
