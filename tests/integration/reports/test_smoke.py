"""A smoke test passes what is right, and catches each thing that was made wrong."""

import json
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.reports import load_tokenizer

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the extra is not installed")

VOCABULARY = 300
TEXTS = [
    "pagefeed reads any page of any file at random",
    "the order of a run is a function of its seed and its position",
    "what was delivered is never what was prefetched",
    "a state is a few integers and resuming is a seek",
]
OTHER_TEXTS = ["zwölf Boxkämpfer jagen Eva quer über den Sylter Deich"] * 4


def train(texts: list[str]) -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer = level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        initial_alphabet=level.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus of text, its tokens, their tokenizer and another of equal size."""
    path = tmp_path_factory.mktemp("smoke")
    tokenizer = train(TEXTS)
    tokenizer.save(str(path / "tokenizer.json"))
    train(OTHER_TEXTS).save(str(path / "other.json"))
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(TEXTS, 12)) for _ in range(200)]
    rows = [encoded.ids for encoded in tokenizer.encode_batch(texts)]
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    (path / "data").mkdir()
    pq.write_table(
        table,
        path / "data" / "a.parquet",
        data_page_size=4096,
        write_page_checksum=True,
    )
    return path


def make(folder, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Windows(64),
        "batch_size": 4,
        "seed": 3,
        "memory": "8MiB",
        "fields": pf.Fields(names=("input_ids", "labels"), shifted=True),
        "rank": 0,
        "world_size": 2,
        "num_threads": 1,
    }
    data = pf.parquet(folder / "data", column="input_ids")
    return pf.Loader(data, **settings | options)


def wrong(found: pf.reports.Smoke) -> set[str]:
    return {check.name for check in found.checks if check.ok is False}


def test_what_is_right_passes(folder):
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    loader = make(folder)
    found = pf.smoke(loader, steps=6, vocab_size=VOCABULARY, tokenizer=tokenizer)
    assert found.ok, found
    assert wrong(found) == set()
    assert all(check.ok for check in found.checks)
    assert loader.step == 0
    assert {check.name for check in found.checks} == {
        *("batches", "ids", "labels", "fields", "first loss", "no NaN", "loss falls"),
        *("one plan", "own data", "ranks' tokens", "resume", "memory", "tokenizer"),
        "checksums",
    }


def test_tensors_and_unshifted_labels_pass(folder):
    fields = ("input_ids", "labels")
    found = pf.smoke(make(folder, format="torch", fields=fields), steps=4)
    assert wrong(found) == set()


def test_another_label_is_ignored_in_another_type(folder):
    fields = pf.Fields(
        names=("input_ids", "labels", "loss_mask"),
        shifted=True,
        dtypes={"labels": "int32", "loss_mask": "float32"},
        ignore_index=-1,
    )
    found = pf.smoke(make(folder, fields=fields, dtype="int32"), steps=4)
    assert wrong(found) == set()


@pytest.mark.parametrize("places", [1, -1])
def test_labels_that_are_shifted_wrong(folder, places):
    def shift(batch):
        batch["labels"] = np.roll(batch["labels"], places, axis=1)
        return batch

    found = pf.smoke(make(folder, transform=shift), steps=4)
    assert wrong(found) >= {"labels"}
    [check] = [check for check in found.checks if check.name == "labels"]
    assert "shifted 1 too" in check.result


def test_labels_that_are_not_shifted(folder):
    loader = make(folder, fields=("input_ids", "labels"))
    assert "labels" in wrong(pf.smoke(loader, steps=4, shifted=True))


def test_ids_beyond_the_vocabulary(folder):
    found = pf.smoke(make(folder), steps=4, vocab_size=VOCABULARY - 50)
    assert "ids" in wrong(found)


def test_a_loader_that_refuses_ids(folder):
    found = pf.smoke(make(folder, vocab_size=VOCABULARY - 50), steps=4)
    assert "batches" in wrong(found)
    assert found.damage[0].kind == "TokenRangeError"


def test_another_tokenizer_of_the_same_size(folder):
    other = load_tokenizer(folder / "other.json")
    found = pf.smoke(make(folder), steps=4, vocab_size=VOCABULARY, tokenizer=other)
    assert wrong(found) == {"tokenizer"}


def test_a_smaller_tokenizer(folder):
    other = load_tokenizer(folder / "tokenizer.json")
    found = pf.smoke(make(folder), steps=4, vocab_size=200, tokenizer=other)
    assert wrong(found) >= {"ids", "tokenizer"}


def test_a_rank_that_gets_another_plan(folder):
    others = [make(folder, rank=1, seed=4)]
    found = pf.smoke(make(folder), steps=4, ranks=others)
    assert wrong(found) >= {"one plan"}
    found = pf.smoke(make(folder), steps=4, plan="0" * 16)
    assert wrong(found) == {"one plan"}


def test_a_rank_that_gets_the_same_data(folder):
    found = pf.smoke(make(folder), steps=4, ranks=[make(folder)])
    assert wrong(found) == {"own data"}


def test_nan_in_a_field(folder):
    def spoil(batch):
        weight = np.ones(batch["input_ids"].shape, dtype=np.float32)
        weight[0, 3] = np.nan
        return batch | {"weight": weight}

    assert wrong(pf.smoke(make(folder, transform=spoil), steps=4)) == {"fields"}


def tiny() -> Any:
    return torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, 8), torch.nn.Linear(8, VOCABULARY)
    )


def test_nan_in_a_model(folder):
    model = tiny()
    with torch.no_grad():
        model[1].bias[7] = float("nan")
    found = pf.smoke(make(folder), steps=4, vocab_size=VOCABULARY, model=model)
    assert wrong(found) >= {"no NaN"}


def test_a_model_that_does_not_learn(folder):
    model = tiny()
    for weights in model.parameters():
        weights.requires_grad = False
    torch.nn.init.zeros_(model[1].weight)
    found = pf.smoke(make(folder), steps=4, vocab_size=VOCABULARY, model=model)
    assert wrong(found) == {"loss falls"}


def test_a_resume_that_leads_elsewhere(folder, monkeypatch):
    honest = pf.Loader.load_state_dict

    def forget(loader, state):
        honest(loader, dict(state) | {"position": 0, "step": 0})

    monkeypatch.setattr(pf.Loader, "load_state_dict", forget)
    assert wrong(pf.smoke(make(folder), steps=6)) == {"resume"}


MODEL = """
import torch

def make(vocab_size):
    return torch.nn.Sequential(
        torch.nn.Embedding(vocab_size, 8), torch.nn.Linear(8, vocab_size)
    )
"""


def test_a_model_of_ones_own(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text(MODEL)
    run = ["smoke", str(folder / "data"), "--column", "input_ids", "--length", "64"]
    run += ["--batch-size", "4", "--steps", "4", "--vocab-size", str(VOCABULARY)]
    assert main([*run, "--model", "my_model:make"]) == 0
    assert "ok     loss falls" in capsys.readouterr().out
    assert main([*run, "--model", "my_model:nothing"]) == 2
    assert "--model my_model:nothing: no nothing in my_model" in capsys.readouterr().err


def test_the_command_line(folder, capsys):
    run = ["smoke", str(folder / "data"), "--column", "input_ids", "--length", "64"]
    run += ["--batch-size", "4", "--steps", "4", "--world-size", "2"]
    tokenizer = ["--tokenizer", str(folder / "tokenizer.json")]
    assert main([*run, *tokenizer, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert main([*run, "--plan", found["plan"], "--vocab-size", "200"]) == 1
    shown = capsys.readouterr().out
    assert "WRONG  ids" in shown
    assert "NOT READY" in shown
    # A file that is damaged: told, and the others are tried.
    broken = folder / "data" / "b.parquet"
    broken.write_bytes((folder / "data" / "a.parquet").read_bytes()[:300])
    assert main(run) == 1
    out, err = capsys.readouterr()
    broken.unlink()
    assert "ok     batches" in out
    assert "DAMAGED: CorruptFileError" in err


def test_the_rate_is_that_of_a_loader_that_runs(folder):
    """Twenty batches with the time to the first one say little of it."""
    seconds, is_begun = 2.0, threading.Event()

    def slow_to_begin(batch):
        if not is_begun.is_set():
            is_begun.set()
            time.sleep(seconds)
        return batch

    loader = make(folder, transform=slow_to_begin)
    found = pf.smoke(loader, steps=4, vocab_size=VOCABULARY)
    tokens = 4 * loader.batch_size * 64
    assert found.tokens_per_second > tokens / seconds
    assert f"{found.tokens_per_second:,.0f} tokens/s" in found.checks[0].result
