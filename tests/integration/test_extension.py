"""Tokenizers extended for a domain: other ids stay, and embeddings get their rows."""

import json
import struct
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    UnsupportedError,
)
from pagefeed.prepare.vocabulary.embeddings import pieces_of
from pagefeed.prepare.vocabulary.segmentation import best_joins
from shared_data import shared
from tokenizers_made import TEXTS, hard_texts, tokenizer_json

WORDS = [
    *("habeas corpus", "plaintiff", "jurisdiction", "estoppel", "tortfeasor"),
    *(
        "subpoena duces tecum",
        "res judicata",
        "Gerichtsstandsvereinbarung",
        "§ 823 BGB",
    ),
]
KINDS = ("gpt2", "llama3", "llama2", "unigram")


def law(row):
    return " ".join(WORDS[(row * n + n * n) % len(WORDS)] for n in range(1, 30))


@cache
def open_tokenizer(kind):
    return pf.Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json(kind)))


@pytest.fixture(scope="module")
def domain(tmp_path_factory):
    path = tmp_path_factory.mktemp("law") / "law.parquet"
    texts = [law(row) for row in range(400)]
    court = ["high" if row % 4 else "low" for row in range(400)]
    pq.write_table(pa.table({"text": texts, "court": court}), path, row_group_size=50)
    return path


@pytest.fixture(scope="module")
def extended(domain, tmp_path_factory):
    """Each kind, extended: the report and the tokenizer."""
    path = tmp_path_factory.mktemp("extended")
    made = {}
    for kind in KINDS:
        done = pf.extend_tokenizer(
            open_tokenizer(kind),
            pf.parquet(domain, column="text"),
            path / f"{kind}.json",
            new_tokens=60,
            held_out=0.1,
        )
        made[kind] = done, pf.Tokenizer(done.path)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_the_domain_take_fewer_tokens(extended, kind):
    done, made = extended[kind]
    [before], [after] = done.before, done.held_out
    assert before.num_bytes == after.num_bytes > 0
    assert after.num_tokens < 0.6 * before.num_tokens
    old = open_tokenizer(kind)
    assert made.vocab_size == old.vocab_size + len(done.new_tokens)
    assert [new.id for new in done.new_tokens] == [
        *range(old.vocab_size, made.vocab_size)
    ]
    gains = [new.gain for new in done.new_tokens]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) >= 10
    assert made.special_ids == old.special_ids
    assert {made.decode([new.id]) for new in done.new_tokens} == {
        new.text for new in done.new_tokens
    }
    text = made.decode(made.encode(law(999)))
    assert text.removeprefix(" ") == law(999)  # One adds a space.
    assert made.fingerprint == done.fingerprint != old.fingerprint


@cache
def known_pieces(kind, new):
    return pieces_of(open_tokenizer(kind), new)


TEXT = st.one_of(
    st.lists(st.sampled_from([*WORDS, *" abc\n", "corpus ha", "Gerichts"])).map(
        "".join
    ),
    st.text(max_size=40),
)


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT)
def test_ids_change_only_where_a_new_token_is(extended, kind, text):
    old, new = open_tokenizer(kind).encode(text), extended[kind][1].encode(text)
    first = open_tokenizer(kind).vocab_size
    if kind in ("gpt2", "llama2"):  # New merges come after all others.
        pieces = known_pieces(kind, extended[kind][1])
        opened = [piece for token in new for piece in pieces.get(int(token), [token])]
        assert opened == old.tolist()
    elif not (new >= first).any():
        assert new.tolist() == old.tolist()
    assert len(new) <= len(old)


@pytest.mark.parametrize("kind", KINDS)
def test_other_texts_keep_their_ids(extended, kind):
    old, new = open_tokenizer(kind), extended[kind][1]
    kept = 0
    for text in [*hard_texts(60), *TEXTS]:
        ids = new.encode(text)
        if not (ids >= old.vocab_size).any():
            kept += 1
            assert ids.tolist() == old.encode(text).tolist()
    assert kept > 10


def test_merges_as_older_files_have_them(domain, extended, tmp_path):
    content = json.loads(tokenizer_json("gpt2"))
    model = content["model"]
    model["merges"] = [" ".join(pair) for pair in model["merges"]]
    (tmp_path / "old.json").write_text(json.dumps(content))
    old = pf.Tokenizer(tmp_path / "old.json")
    done = pf.extend_tokenizer(
        old,
        pf.parquet(domain, column="text"),
        tmp_path / "new.json",
        new_tokens=60,
        held_out=0.1,
    )
    assert done.fingerprint == extended["gpt2"][0].fingerprint
    new = pf.Tokenizer(tmp_path / "new.json")
    assert pieces_of(old, new) == known_pieces("gpt2", extended["gpt2"][1])


def test_corpus_with_two_thousand_tokens_more(tmp_path):
    corpus = pf.parquet(shared("data", "corpus"), column="text")
    old = pf.Tokenizer(shared("data", "corpus", "tokenizer.json"))
    domain = corpus.where("source == 'scipy/scipy'")
    done = pf.extend_tokenizer(
        old, domain, tmp_path / "new.json", sample="1MB", held_out=0.05, min_gain=2
    )
    [before], [after] = done.before, done.held_out
    assert len(done.new_tokens) == 2000
    assert after.num_tokens < before.num_tokens
    new = pf.Tokenizer(done.path)
    pieces = pieces_of(old, new)
    kept = 0
    for row in corpus.where("source == 'tldr-pages/tldr'").head(200):
        expected, found = old.encode(row["text"]), new.encode(row["text"])
        opened = [p for token in found.tolist() for p in pieces.get(token, [token])]
        assert opened == expected.tolist()
        kept += len(found) == len(expected)
    assert kept > 20


def test_joins_are_those_that_save_the_most():
    def joined(left, right):
        return None if "!" in left + right else left + right

    words = {tuple("abab"): 5, tuple("ab!"): 1, tuple("aaaa"): 3, tuple("xy"): 1}
    assert [tuple(join) for join in best_joins(words, 9, joined=joined)] == [
        ("a", "b", "ab", 11),
        ("a", "a", "aa", 6),
        ("ab", "ab", "abab", 5),
        ("aa", "aa", "aaaa", 3),
    ]
    known = best_joins(words, 1, joined=joined, known=["ab"])
    assert [join.token for join in known] == ["aa"]


@given(
    words=st.dictionaries(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=8).map(tuple),
        st.integers(1, 9),
        max_size=8,
    )
)
def test_every_gain_is_what_is_saved(words):
    left = {tuple(word): count for word, count in words.items()}
    joins = best_joins(words, 20, joined=lambda a, b: a + b, least_gain=1)
    texts = [[list(word), count] for word, count in left.items()]
    for join in joins:
        before = sum(len(word) * count for word, count in texts)
        for each in texts:
            word: Any = each[0]
            out: list[str] = []
            while word:
                if tuple(word[:2]) == join[:2]:
                    out, word = [*out, join.token], word[2:]
                else:
                    out, word = [*out, word[0]], word[1:]
            each[0] = out
        after = sum(len(word) * count for word, count in texts)
        assert before - after == join.gain


def test_sources_and_texts_beside_are_reported(domain, tmp_path):
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"text": TEXTS}), other)
    done = pf.extend_tokenizer(
        open_tokenizer("gpt2"),
        pf.parquet(domain, column="text"),
        tmp_path / "law.json",
        source_column="court",
        held_out=0.2,
        beside={"other": pf.parquet(other, column="text")},
    )
    names = ["high", "low", "beside/other"]
    assert [rate.source for rate in done.before] == names
    assert [rate.source for rate in done.held_out] == names
    assert done.held_out[2].num_tokens <= done.before[2].num_tokens


def test_kinds_that_cannot_grow_are_refused(domain, tmp_path):
    letters = pf.Tokenizer(lambda text: list(text.encode()), vocab_size=256, name="b")
    texts = pf.parquet(domain, column="text")
    for tokenizer, kind, words in [
        (open_tokenizer("wordpiece"), UnsupportedError, "longest token"),
        (letters, UnsupportedError, "no tokenizer.json"),
        ("gpt2", InvalidArgumentError, "pagefeed.Tokenizer"),
    ]:
        with pytest.raises(kind, match=words):
            pf.extend_tokenizer(tokenizer, texts, tmp_path / "law.json")
    assert [*tmp_path.iterdir()] == []


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
    done = pf.extend_embeddings(
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
        pf.extend_embeddings(
            tmp_path / "old" / name, tmp_path / "old" / ("a" + name), old=old, new=new
        )
    pf.extend_embeddings(
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
        pf.extend_embeddings(
            tmp_path / "old" / name, tmp_path / "b" / name, old=old, new=new
        )
    files["h.0"] = "../1.safetensors"
    (tmp_path / "old" / name).write_text(json.dumps(index))
    with pytest.raises(CorruptFileError, match="elsewhere"):
        pf.extend_embeddings(
            tmp_path / "old" / name, tmp_path / "b" / name, old=old, new=new
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tied_embeddings_of_torch_stay_tied(extended, tmp_path, dtype):
    old, new = open_tokenizer("gpt2"), extended["gpt2"][1]
    embed = torch.randn(old.vocab_size, 4).to(dtype)
    model = {"wte.weight": embed, "lm_head.weight": embed, "h.0": torch.ones(2)}
    torch.save({"model": model, "step": 7}, tmp_path / "old.pt")
    done = pf.extend_embeddings(
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
            pf.extend_embeddings(
                tmp_path / name,
                tmp_path / f"out{(tmp_path / name).suffix}",
                old=old,
                new=new,
                **settings,
            )
    assert not [*tmp_path.glob("*out*")]
    for wrong in (old, open_tokenizer("llama3")):
        with pytest.raises(InvalidArgumentError, match="extend_tokenizer"):
            pf.extend_embeddings(good, tmp_path / "o.safetensors", old=old, new=wrong)
    with pytest.raises(InvalidArgumentError, match="name it alike"):
        pf.extend_embeddings(good, tmp_path / "o.pt", old=old, new=new)


def test_the_verb_reports(domain, tmp_path, capsys):
    (tmp_path / "old.json").write_text(tokenizer_json("gpt2"))
    old = pf.Tokenizer(tmp_path / "old.json")
    rows = np.ones((old.vocab_size, 2), "f4")
    save(tmp_path / "old.safetensors", {"wte.weight": ("F32", rows)})
    command = ["tokenizer", "extend", str(tmp_path / "old.json"), str(domain)]
    command += ["--column", "text", "--output", str(tmp_path / "new.json")]
    command += ["--new-tokens", "20", "--held-out", "0.1"]
    command += ["--checkpoint", str(tmp_path / "old.safetensors")]
    assert main(command) == 1
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
