"""Embeddings of an extended tokenizer: new rows are means of old ones."""

import json
import struct
from typing import Any

import numpy as np
import pytest
import torch

import pagefeed as pf
from made.extended import KINDS, open_tokenizer
from made.tokenizers_made import tokenizer_json
from pagefeed.cli import main
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    UnsupportedError,
)
from pagefeed.prepare.vocabulary.embeddings import pieces_of


def save(path, tensors):
    """Write safetensors: {name: (dtype, array)}."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, array) in tensors.items():
        place = [len(data), len(data) + array.nbytes]
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": place,
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    data = path.read_bytes()
    [length] = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    kinds = {"F32": "f4", "F16": "f2", "F64": "f8", "BF16": "u2", "I64": "i8"}
    assert header.pop("__metadata__") == {"format": "pt"}
    found = {}
    for name, each in header.items():
        begin, end = (8 + length + place for place in each["data_offsets"])
        array = np.frombuffer(data[begin:end], kinds[each["dtype"]])
        found[name] = array.reshape(each["shape"])
    return found


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
def test_new_rows_of_safetensors_are_means(extended, tmp_path, kind):
    old, new = open_tokenizer(kind), extended[kind][1]
    rng = np.random.default_rng(0)
    size = old.vocab_size
    embed = rng.normal(size=(size, 8)).astype("f4")
    head = rng.normal(size=(size + 3, 8)).astype("f2")  # Padded, as trainers do it.
    small = torch.from_numpy(embed).bfloat16().view(torch.int16).numpy().view("u2")
    save(
        tmp_path / "old.safetensors",
        {
            "layers.0.weight": ("F32", rng.normal(size=(4, 8)).astype("f4")),
            "model.embed_tokens.weight": ("F32", embed),
            "wte.weight": ("BF16", small),
            "step": ("I64", np.arange(3)),
            "lm_head.weight": ("F16", head),
        },
    )
    done = pf.prepare.extend_embeddings(
        tmp_path / "old.safetensors", tmp_path / "new.safetensors", old=old, new=new
    )
    before, after = (
        load(tmp_path / "old.safetensors"),
        load(tmp_path / "new.safetensors"),
    )
    assert set(done.tensors) == {
        "model.embed_tokens.weight",
        "wte.weight",
        "lm_head.weight",
    }
    assert done.num_rows == new.vocab_size
    assert done.num_new == new.vocab_size - size
    for name in ("layers.0.weight", "step"):
        np.testing.assert_array_equal(before[name], after[name])
    for name, values in [
        ("model.embed_tokens.weight", embed),
        ("lm_head.weight", head),
    ]:
        assert after[name].shape == (new.vocab_size, 8)
        np.testing.assert_array_equal(after[name][:size], values[:size])
        expected = mean_rows(values, old, new).astype(values.dtype)
        np.testing.assert_array_equal(after[name][size:], expected)
    wide = torch.from_numpy(embed).bfloat16().float().numpy()
    expected = torch.from_numpy(mean_rows(wide, old, new)).bfloat16()
    found = torch.from_numpy(after["wte.weight"][size:].view("i2").copy())
    assert torch.equal(found.view(torch.bfloat16), expected)


def test_models_in_several_files(extended, tmp_path):
    old, new = open_tokenizer("gpt2"), extended["gpt2"][1]
    rows = np.arange(2 * old.vocab_size, dtype="f4").reshape(-1, 2)
    (tmp_path / "old").mkdir()
    save(tmp_path / "old" / "1.safetensors", {"wte.weight": ("F32", rows)})
    other = {"h.0": ("F32", rows[:3]), "lm_head.weight": ("F32", -rows)}
    save(tmp_path / "old" / "2.safetensors", other)
    files = {"wte.weight": "1.safetensors", "h.0": "2.safetensors"}
    files["lm_head.weight"] = "2.safetensors"
    index = {"metadata": {"total_size": 1, "x": 2}, "weight_map": files}
    name = "model.safetensors.index.json"
    (tmp_path / "old" / name).write_text(json.dumps(index))
    with pytest.raises(InvalidArgumentError, match="another folder"):
        pf.prepare.extend_embeddings(
            tmp_path / "old" / name, tmp_path / "old" / ("a" + name), old=old, new=new
        )
    pf.prepare.extend_embeddings(
        tmp_path / "old" / name, tmp_path / "new" / name, old=old, new=new
    )
    first, second = (load(tmp_path / "new" / f"{n}.safetensors") for n in (1, 2))
    expected = np.concatenate([rows, mean_rows(rows, old, new)])
    np.testing.assert_array_equal(first["wte.weight"], expected)
    np.testing.assert_array_equal(second["lm_head.weight"], -expected)
    np.testing.assert_array_equal(second["h.0"], rows[:3])
    written = json.loads((tmp_path / "new" / name).read_text())
    total = 2 * expected.nbytes + rows[:3].nbytes
    assert written == {"metadata": {"total_size": total, "x": 2}, "weight_map": files}
    files["h.0"] = "1.safetensors"
    (tmp_path / "old" / name).write_text(json.dumps(index))
    with pytest.raises(CorruptFileError, match="does not name"):
        pf.prepare.extend_embeddings(
            tmp_path / "old" / name, tmp_path / "b" / name, old=old, new=new
        )
    files["h.0"] = "../1.safetensors"
    (tmp_path / "old" / name).write_text(json.dumps(index))
    with pytest.raises(CorruptFileError, match="elsewhere"):
        pf.prepare.extend_embeddings(
            tmp_path / "old" / name, tmp_path / "b" / name, old=old, new=new
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tied_embeddings_of_torch_stay_tied(extended, tmp_path, dtype):
    old, new = open_tokenizer("gpt2"), extended["gpt2"][1]
    embed = torch.randn(old.vocab_size, 4).to(dtype)
    model = {"wte.weight": embed, "lm_head.weight": embed, "h.0": torch.ones(2)}
    torch.save({"model": model, "step": 7}, tmp_path / "old.pt")
    done = pf.prepare.extend_embeddings(
        tmp_path / "old.pt", tmp_path / "new.pt", old=old, new=new, multiple_of=64
    )
    assert done.tensors == ("model.wte.weight", "model.lm_head.weight")
    assert done.num_rows % 64 == 0
    found = torch.load(tmp_path / "new.pt", weights_only=True)
    after = found["model"]["wte.weight"]
    assert found["step"] == 7
    assert torch.equal(found["model"]["h.0"], torch.ones(2))
    assert after.data_ptr() == found["model"]["lm_head.weight"].data_ptr()
    assert torch.equal(after[: old.vocab_size], embed)
    expected = torch.from_numpy(mean_rows(embed.float().numpy(), old, new)).to(dtype)
    assert torch.equal(after[old.vocab_size : new.vocab_size], expected)
    assert not after[new.vocab_size :].any()


def test_wrong_checkpoints_are_refused(extended, tmp_path):
    old, new = open_tokenizer("gpt2"), extended["gpt2"][1]
    good = tmp_path / "a.safetensors"
    save(
        good,
        {
            "lm_head.weight": ("F32", np.zeros((9, 2), "f4")),
            "ids": ("I64", np.zeros(old.vocab_size, "i8")),
        },
    )
    (tmp_path / "b.safetensors").write_bytes(b"no")
    (tmp_path / "c.safetensors").write_bytes(good.read_bytes()[:-8])
    (tmp_path / "d.pt").write_bytes(b"no")
    cases: list[tuple[str, Any, Any, str]] = [
        ("a.safetensors", {}, InvalidArgumentError, "name them"),
        ("a.safetensors", {"tensors": ["x"]}, InvalidArgumentError, "no tensor 'x'"),
        (
            "a.safetensors",
            {"tensors": ["lm_head.weight"]},
            InvalidArgumentError,
            "shape",
        ),
        ("a.safetensors", {"tensors": ["ids"]}, UnsupportedError, "I64"),
        ("b.safetensors", {}, CorruptFileError, "b.safetensors"),
        ("c.safetensors", {}, CorruptFileError, "beyond"),
        ("d.pt", {}, CorruptFileError, "d.pt"),
        ("e.safetensors", {}, MissingFileError, "e.safetensors"),
        ("f.gguf", {}, InvalidArgumentError, "known by its name"),
    ]
    for name, settings, kind, words in cases:
        with pytest.raises(kind, match=words):
            pf.prepare.extend_embeddings(
                tmp_path / name,
                tmp_path / f"out{(tmp_path / name).suffix}",
                old=old,
                new=new,
                **settings,
            )
    assert not [*tmp_path.glob("*out*")]
    for wrong in (old, open_tokenizer("llama3")):
        with pytest.raises(InvalidArgumentError, match="extend_tokenizer"):
            pf.prepare.extend_embeddings(
                good, tmp_path / "o.safetensors", old=old, new=wrong
            )
    with pytest.raises(InvalidArgumentError, match="must have the suffix of"):
        pf.prepare.extend_embeddings(good, tmp_path / "o.pt", old=old, new=new)


def test_the_verb_reports(domain, tmp_path, capsys):
    (tmp_path / "old.json").write_text(tokenizer_json("gpt2"))
    old = pf.Tokenizer(tmp_path / "old.json")
    rows = np.ones((old.vocab_size, 2), "f4")
    save(tmp_path / "old.safetensors", {"wte.weight": ("F32", rows)})
    command = ["tokenizer", "extend", str(tmp_path / "old.json"), str(domain)]
    command += ["--column", "text", "--output", str(tmp_path / "new.json")]
    command += ["--new-tokens", "20", "--held-out", "0.1"]
    command += ["--checkpoint", str(tmp_path / "old.safetensors")]
    assert main(command) == 2
    assert "go together" in capsys.readouterr().err
    command += ["--checkpoint-output", str(tmp_path / "new.safetensors")]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["new_tokens"]) == report["embeddings"]["num_new"] == 20
    assert (
        report["held_out"][0]["tokens_per_word"]
        < report["before"][0]["tokens_per_word"]
    )
    assert len(load_rows(tmp_path)) == old.vocab_size + 20
    assert main(command) == 0
    assert "fewer" in capsys.readouterr().out


def load_rows(path):
    data = (path / "new.safetensors").read_bytes()
    [length] = struct.unpack("<Q", data[:8])
    shape = json.loads(data[8 : 8 + length])["wte.weight"]["shape"]
    return np.frombuffer(data[8 + length :], "f4").reshape(shape)
