"""A column of texts without a tokenizer has no tokens, whoever asks for them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.errors import PagefeedError


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": ["some words"] * 20}), path)
    return path


@pytest.mark.parametrize(
    "sequences", [pf.Windows(8), pf.Packed(8), pf.Documents(max_length=8)], ids=repr
)
def test_sequences_refuse_texts(texts, sequences):
    dataset = pf.parquet(texts, column="text")
    for make in (
        lambda: pf.Loader(dataset, sequences=sequences, batch_size=2),
        lambda: pf.Loader(pf.mix({"a": dataset}), sequences=sequences, batch_size=2),
    ):
        with pytest.raises(PagefeedError, match=r"\.tokenize\("):
            make()


@pytest.mark.parametrize("sequences", [pf.Windows(8), pf.Packed(8)], ids=repr)
def test_views_refuse_texts(texts, sequences):
    dataset = pf.parquet(texts, column="text")
    with pytest.raises(PagefeedError, match=r"\.tokenize\("):
        pf.SequenceView(dataset, sequences)


@pytest.mark.parametrize("verb", ["plan", "verify", "report"])
def test_verbs_name_the_flag(texts, verb, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [str(texts), "--column", "text", "--length", "8", "--batch-size", "2"]
    given += ["--output", "report.html"] * (verb == "report")
    assert main([verb, *given]) == 1
    assert "--tokenize" in capsys.readouterr().err


def test_inspect_tells_of_no_tokens(texts):
    assert "20" in str(pf.inspect(pf.parquet(texts, column="text")))
    assert pf.inspect(pf.parquet(texts, column="text")).tokens is None
