"""Embeddings of an extended tokenizer: new rows are means of old ones."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import pagefeed as pf
from made.extended import KINDS, open_tokenizer
from made.tokenizers_made import tokenizer_json
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.prepare.vocabulary.embeddings import pieces_of


def mean_rows(values, old, new):
    """The definition: rows of the new tokens, in float32."""
    pieces = pieces_of(old, new)
    ids = range(old.vocab_size, new.vocab_size)
    assert [*sorted(pieces)] == [*ids]
    return np.stack(
        [np.mean([values[p] for p in pieces[n]], axis=0, dtype="f4") for n in ids]
    )


def test_pieces_are_what_the_new_token_was(extended):
    for kind in KINDS:
        old, new = open_tokenizer(kind), extended[kind][1]
        for number, parts in pieces_of(old, new).items():
            assert len(parts) > 1
            if "\ufffd" not in new.decode([number]):
                assert old.decode(parts) == new.decode([number])


@pytest.mark.parametrize("kind", ["gpt2", "unigram"])
def test_new_rows_of_arrays_are_means(extended, kind):
    old, new = open_tokenizer(kind), extended[kind][1]
    rng, size = np.random.default_rng(0), old.vocab_size
    embed = rng.normal(size=(size, 8)).astype("f4")
    head = rng.normal(size=(size + 3, 8)).astype("f2")  # Padded, as trainers do it.
    state = {
        "layers.0.weight": rng.normal(size=(4, 8)).astype("f4"),
        "model.embed_tokens.weight": embed,
        "step": np.arange(3),
        "lm_head.weight": head,
    }
    after = pf.prepare.extend_embeddings(state, old=old, new=new)
    assert [*after] == [*state]
    for name in ("layers.0.weight", "step"):
        assert after[name] is state[name]
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert after[name].shape == (new.vocab_size, 8)
        assert after[name].dtype == state[name].dtype
        np.testing.assert_array_equal(after[name][:size], state[name][:size])
        expected = mean_rows(state[name], old, new).astype(state[name].dtype)
        np.testing.assert_array_equal(after[name][size:], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tied_embeddings_of_torch_stay_tied(extended, dtype):
    old, new = open_tokenizer("gpt2"), extended["gpt2"][1]
    model = torch.nn.ModuleDict(
        {"wte": torch.nn.Embedding(old.vocab_size, 4), "h": torch.nn.Linear(2, 2)}
    ).to(dtype)
    model["lm_head"] = torch.nn.Linear(4, old.vocab_size, bias=False)
    model["lm_head"].weight = model["wte"].weight
    state = model.state_dict()
    after = pf.prepare.extend_embeddings(state, old=old, new=new, multiple_of=64)
    embed, rows = state["wte.weight"], after["wte.weight"]
    assert after["h.weight"] is state["h.weight"]
    assert len(rows) % 64 == 0
    assert rows.data_ptr() == after["lm_head.weight"].data_ptr()
    assert torch.equal(rows[: old.vocab_size], embed)
    expected = torch.from_numpy(mean_rows(embed.float().numpy(), old, new)).to(dtype)
    assert torch.equal(rows[old.vocab_size : new.vocab_size], expected)
    assert not rows[new.vocab_size :].any()


def test_wrong_tensors_are_refused(extended):
    old, new = open_tokenizer("gpt2"), extended["gpt2"][1]
    state: dict[str, Any] = {
        "lm_head.weight": np.zeros((9, 2), "f4"),
        "ids": np.zeros(old.vocab_size, "i8"),
        "bytes": torch.zeros(old.vocab_size, dtype=torch.uint8),
        "one": np.float32(1),
    }
    cases: list[tuple[Any, Any, Any, str]] = [
        (state, None, InvalidArgumentError, "name them"),
        (state, ["x"], InvalidArgumentError, "no tensor 'x'"),
        (state, ["lm_head.weight"], InvalidArgumentError, "shape"),
        (state, ["one"], InvalidArgumentError, "shape"),
        (state, ["ids"], UnsupportedError, "int64"),
        (state, ["bytes"], UnsupportedError, "uint8"),
        ("model.safetensors", None, InvalidArgumentError, "load_file"),
    ]
    for given, tensors, kind, words in cases:
        with pytest.raises(kind, match=words):
            pf.prepare.extend_embeddings(given, old=old, new=new, tensors=tensors)
    for wrong in (old, open_tokenizer("llama3")):
        with pytest.raises(InvalidArgumentError, match="extend_tokenizer"):
            pf.prepare.extend_embeddings(state, old=old, new=wrong)


def test_the_verb_reports(domain, tmp_path, capsys):
    (tmp_path / "old.json").write_text(tokenizer_json("gpt2"))
    old = pf.Tokenizer(tmp_path / "old.json")
    command = ["tokenizer", "extend", str(tmp_path / "old.json"), str(domain)]
    command += ["--column", "text", "--output", str(tmp_path / "new.json")]
    command += ["--new-tokens", "20", "--held-out", "0.1"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["new_tokens"]) == report["vocab_size"] - old.vocab_size == 20
    assert (
        report["held_out"][0]["tokens_per_word"]
        < report["before"][0]["tokens_per_word"]
    )
    assert main(command) == 0
    assert "fewer" in capsys.readouterr().out
