"""Files say which tokenizer made their tokens, and another one is refused by name."""

import json

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
    assert code == 1
    assert "not of qwen.json" in capsys.readouterr().err


def test_inspect_shows_the_record(made, capsys):
    assert main(["inspect", str(made / "gpt2"), "--column", "input_ids"]) == 0
    tok = pf.Tokenizer(made / "gpt2.json")
    shown = capsys.readouterr().out
    assert f"tokenizer  gpt2.json, {tok.vocab_size} ids, eos {tok.eos}" in shown


def test_smoke_finds_ids_beyond_the_recorded_vocabulary(made, tmp_path):
    import pyarrow.parquet as pq

    [source] = (made / "gpt2").glob("*.parquet")
    table = pq.read_table(source)
    told = json.loads(table.schema.metadata[b"pagefeed.tokenizer"])
    metadata = {b"pagefeed.tokenizer": json.dumps(told | {"vocab_size": 50})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    found = pf.smoke(loader(pf.parquet(tmp_path, column="input_ids")), steps=3)
    [ids] = [check for check in found.checks if check.name == "ids"]
    assert not ids.ok


def test_files_without_a_record_are_nobodys(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = {b"pagefeed.tokenizer": b"of another program"}
    for name, told in (("a", None), ("b", metadata)):
        table = pa.table({"input_ids": [[1, 2, 3]]}).replace_schema_metadata(told)
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert pf.parquet(tmp_path, column="input_ids").recorded_tokenizer is None
