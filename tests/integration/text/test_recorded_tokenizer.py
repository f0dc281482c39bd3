"""Files say which tokenizer made their tokens, and another one is refused by name."""

import json

import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.tokenizers_made import tokenizer_json
from pagefeed.cli import main


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of two tokenizers, beside these."""
    folder = tmp_path_factory.mktemp("made")
    texts = [json.dumps({"text": f"text {n} " * 50}) for n in range(50)]
    (folder / "a.jsonl").write_text("\n".join(texts))
    for name in ("gpt2", "qwen"):
        (folder / f"{name}.json").write_text(tokenizer_json(name))
        tok = pf.Tokenizer(folder / f"{name}.json")
        pf.tokenize(folder / "a.jsonl", folder / name, tokenizer=tok)
    return folder


def dataset(made, *names, **options):
    paths = [made / name for name in names]
    return pf.parquet(paths, column="input_ids", **options)


def loader(data):
    return pf.Loader(data, sequences=pf.Windows(32), batch_size=2, rank=0, world_size=1)


def test_another_tokenizer_is_refused(made):
    tok = pf.Tokenizer(made / "gpt2.json")
    assert dataset(made, "gpt2", tokenizer=tok).recorded_tokenizer.name == "gpt2.json"
    expected = r"qwen/part-.* has tokens of qwen\.json .*not of gpt2\.json"
    with pytest.raises(pf.errors.InvalidArgumentError, match=expected):
        dataset(made, "qwen", tokenizer=tok)
    with pytest.raises(pf.errors.InvalidArgumentError, match="of one tokenizer"):
        dataset(made, "gpt2", "qwen", tokenizer=tok)


def test_mixtures_take_one_tokenizer(made):
    parts = {name: dataset(made, name) for name in ("gpt2", "qwen")}
    expected = r"'gpt2' is tokenized with gpt2\.json .*, 'qwen' with qwen\.json"
    with pytest.raises(pf.errors.InvalidArgumentError, match=expected):
        loader(pf.mix({name: (part, 1) for name, part in parts.items()}))
    halves = parts["gpt2"].split(a=0.5, b=0.5, seed=0)
    loader(pf.mix({name: (part, 1) for name, part in halves.items()}))


@pytest.mark.parametrize("verb", ["head", "smoke", "trace"])
def test_verbs_refuse_another(verb, made, capsys):
    words = [verb, str(made / "gpt2"), "--column", "input_ids", "--length", "32"]
    words += ["--step", "1"] * (verb == "trace")
    code = main([*words, "--tokenizer", str(made / "qwen.json")])
    assert code == 2
    assert "not of qwen.json" in capsys.readouterr().err


def test_inspect_shows_the_record(made, capsys):
    assert main(["inspect", str(made / "gpt2"), "--column", "input_ids"]) == 0
    tok = pf.Tokenizer(made / "gpt2.json")
    shown = capsys.readouterr().out
    assert "\ntokenizer " in shown
    assert f" gpt2.json, {tok.vocab_size} ids, eos {tok.eos}" in shown


@pytest.fixture
def overstated(made, tmp_path):
    """Files whose record says that there are fewer ids than they hold."""
    [source] = (made / "gpt2").glob("*.parquet")
    table = pq.read_table(source)
    told = json.loads(table.schema.metadata[b"pagefeed.tokenizer"])
    metadata = {b"pagefeed.tokenizer": json.dumps(told | {"vocab_size": 50})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    return pf.parquet(tmp_path, column="input_ids")


@pytest.mark.parametrize("sequences", [pf.Windows(32), pf.Documents(max_length=32)])
def test_ids_beyond_the_recorded_vocabulary_are_refused(sequences, overstated):
    def first(data, **options):
        options |= {"sequences": sequences, "rank": 0, "world_size": 1}
        return next(iter(pf.Loader(data, batch_size=2, **options)))

    expected = r"ids are 0 to 49 \(vocab_size=50\)"
    with pytest.raises(pf.errors.TokenRangeError, match=expected):
        first(overstated)
    halves = overstated.split(a=0.5, b=0.5, seed=0)
    mixed = pf.mix({name: (half, 1) for name, half in halves.items()}, max_steps=9)
    with pytest.raises(pf.errors.TokenRangeError, match=expected):
        first(mixed)
    assert first(overstated, vocab_size=1 << 16)["input_ids"].max() >= 50


def test_a_view_refuses_them_too(overstated):
    with pytest.raises(pf.errors.TokenRangeError, match="vocab_size=50"):
        pf.SequenceView(overstated, pf.Windows(32))[0]


def test_trace_shows_what_is_beyond(overstated):
    [row] = pf.trace(loader(overstated), step=0, row=0)
    assert row.damage is None
    assert max(row.tokens or [0]) >= 50


def test_smoke_finds_ids_beyond_the_recorded_vocabulary(overstated):
    found = pf.smoke(loader(overstated), steps=3)
    assert not found.ok
    assert {one.kind for one in found.damage} == {"TokenRangeError"}
