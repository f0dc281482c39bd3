"""Tokenizers trained on texts of Parquet: of all kinds, balanced, always the same."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.tokenizers_made import TEXTS
from pagefeed.cli import main
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError
from pagefeed.prepare.vocabulary.recipes import letters_of
from pagefeed.prepare.vocabulary.sampling import amounts, sources_of, texts_of

WORDS = {
    "en": ["the quick brown fox", "jumps over", "lazy dogs", "running water"],
    "de": ["der schnelle Fuchs", "springt über", "faule Hunde", "Straßenbahn"],
    "ja": ["素早い茶色の狐", "怠け者の犬", "飛び越える", "日本語の文章"],
}
ROWS = {"en": 900, "de": 90, "ja": 30}


def make_text(lang, row):
    some = WORDS[lang]
    return (
        " ".join(some[(row * 7 + n * (row % 5 + 1)) % 4] for n in range(20)) + f" {row}"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    rows = [
        (lang, make_text(lang, n)) for lang, count in ROWS.items() for n in range(count)
    ]
    rows += [("en", None), ("en", "")]
    table = pa.table({"lang": [lang for lang, _ in rows], "text": [t for _, t in rows]})
    for number in range(2):
        pq.write_table(
            table.slice(number * 511, 511),
            path / f"{number}.parquet",
            row_group_size=200,
            data_page_size=4000,
            write_batch_size=16,
            use_dictionary=False,
        )
    return path


@pytest.fixture
def texts(folder):
    return pf.parquet(folder, column="text")


def train(texts, path, **settings):
    given = {"vocab_size": 400, "held_out": 0.1, **settings}
    return pf.prepare.train_tokenizer(texts, path / "tokenizer.json", **given)


@pytest.mark.parametrize("model", ["bpe", "wordpiece", "unigram"])
def test_the_same_rows_and_seed_give_the_same_tokenizer(texts, tmp_path, model):
    settings = {
        "model": model,
        "source_column": "lang",
        "temperature": 2,
        "sample": 30_000,
    }
    made = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        made.append(train(texts, tmp_path / str(number), **settings))
    first, second = ((tmp_path / n / "tokenizer.json").read_bytes() for n in "01")
    assert first == second
    assert made[0].fingerprint == made[1].fingerprint
    assert made[0].sources == made[1].sources
    assert made[0].held_out == made[1].held_out
    assert made[0].vocab_size <= 400
    assert [*tmp_path.glob("0/*")] == [tmp_path / "0" / "tokenizer.json"]


def test_bytes_make_bpe_and_unigram_exact(texts, tmp_path):
    for model in ("bpe", "unigram"):
        made = pf.Tokenizer(train(texts, tmp_path, model=model, vocab_size=700).path)
        for text in TEXTS:
            assert made.decode(made.encode(text)) == text
    assert "<unk>" in made.special_ids
    assert train(texts, tmp_path, model="bpe", vocab_size=400).vocab_size == 400


def test_unknown_characters_are_unknown_without_bytes(texts, tmp_path):
    done = train(texts, tmp_path, model="unigram", byte_fallback=False)
    made = pf.Tokenizer(done.path)
    assert made.special_ids["<unk>"] in made.encode("🦊").tolist()


def test_rare_characters_have_no_token(texts, tmp_path):
    known = set(json.loads(_json(texts, tmp_path, 1.0))["model"]["vocab"])
    fewer = set(json.loads(_json(texts, tmp_path, 0.7))["model"]["vocab"])
    assert "狐" in known
    assert "狐" not in fewer
    assert letters_of(Counter(a=2, c=1, b=1), 0.6) == ["a", "b"]


def _json(texts, path, coverage):
    done = train(texts, path, model="wordpiece", character_coverage=coverage)
    return (path / "tokenizer.json").read_text() if done.path else ""


def test_sources_are_drawn_by_temperature(texts, tmp_path):
    def shares(temperature):
        done = train(
            texts,
            tmp_path,
            source_column="lang",
            temperature=temperature,
            sample=40_000,
        )
        assert [each.source for each in done.sources] == ["de", "en", "ja"]
        total = sum(each.sampled_bytes for each in done.sources)
        return {each.source: each.sampled_bytes / total for each in done.sources}

    proportional, even = shares(1), shares(1e6)
    assert proportional["ja"] < 0.1 < proportional["en"]
    for share in even.values():  # The smallest one is repeated for it.
        assert share == pytest.approx(1 / 3, abs=0.03)


def test_amounts():
    assert amounts({"a": 300, "b": 100}, 10**9, 1) == {"a": 300, "b": 100}
    assert amounts({"a": 300, "b": 0}, 100, 5) == {"a": 100, "b": 0}
    tiny = amounts({"a": 10**12, "b": 1}, 100, 0.01)
    assert tiny == {"a": 100, "b": 0}
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidArgumentError, match="temperature"):
            amounts({"a": 1}, 1, wrong)


def test_every_text_is_in_one_source(texts):
    sources = sources_of(texts, "lang")
    assert {name: len(each) for name, each in sources.items()} == {
        "de": ROWS["de"],
        "en": ROWS["en"] + 2,
        "ja": ROWS["ja"],
    }
    found = Counter(
        text for each in sources.values() for text in texts_of(each, seed=1)
    )
    assert found == Counter(
        make_text(lang, n) for lang, c in ROWS.items() for n in range(c)
    )


def test_sources_by_name_and_column(texts):
    sources = sources_of({"a": texts, "b": texts.where("lang == 'ja'")}, "lang")
    assert list(sources) == ["a/de", "a/en", "a/ja", "b/ja"]
    assert list(sources_of({"a": texts, "b": texts}, None)) == ["a", "b"]


def test_folders_are_sources(folder, tmp_path):
    for lang in ROWS:
        part = pq.read_table(folder, filters=[("lang", "=", lang)]).select(["text"])
        (tmp_path / f"lang={lang}").mkdir()
        pq.write_table(part, tmp_path / f"lang={lang}" / "a.parquet")
    texts = pf.parquet(tmp_path, column="text")
    sources = sources_of(texts, "lang")
    assert {name: len(each) for name, each in sources.items()} == {
        "de": ROWS["de"],
        "en": ROWS["en"] + 2,
        "ja": ROWS["ja"],
    }


def test_rows_held_out_are_not_learned(folder, tmp_path):
    done = train(pf.parquet(folder, column="text"), tmp_path, held_out=0.3)
    [rate] = done.held_out
    assert rate.num_rows + done.sources[0].sampled_rows == sum(ROWS.values())
    assert rate.tokens_per_byte == rate.num_tokens / rate.num_bytes
    assert 0 < rate.tokens_per_byte < 0.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"vocab_size": 200}, "256 bytes"),
        ({"model": "wordpiece", "vocab_size": 20}, "letters"),
        ({"model": "unigram", "vocab_size": 257}, "bytes and letters"),
        ({"model": "words"}, "model="),
        ({"model": "wordpiece", "byte_fallback": True}, "has no byte fallback"),
        ({"byte_fallback": False}, "of bytes"),
        ({"character_coverage": 0.9}, "cover all"),
        ({"model": "unigram", "character_coverage": 2}, "at most 1"),
        ({"model": "wordpiece", "pattern": "gpt2"}, "as BERT does"),
        ({"special_tokens": ["a", "a"]}, "each once"),
        ({"held_out": 1}, "held_out"),
        ({"shuffle": "buffer"}, "shuffle"),
        ({"source_column": "text"}, "1,000 at most"),
    ],
)
def test_refused(texts, tmp_path, settings, words):
    with pytest.raises(InvalidArgumentError, match=words):
        train(texts, tmp_path, **settings)
    assert [*tmp_path.iterdir()] == []


def test_what_is_no_dataset_of_texts_is_refused(texts, folder, tmp_path):
    letters = pf.Tokenizer(lambda text: list(text.encode()), vocab_size=256, name="b")
    for wrong, words in [
        (str(folder), "pagefeed.parquet"),
        ({}, "no datasets"),
        (texts.tokenize(letters), "tokenized already"),
        (texts.where("lang == 'xx'"), "no texts"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            train(wrong, tmp_path)
    with pytest.raises(ColumnNotFoundError):
        train(texts, tmp_path, source_column="language")


def test_the_verb_reports(folder, tmp_path, capsys):
    output = tmp_path / "tokenizer.json"
    command = ["tokenizer", "train", str(folder), "--column", "text"]
    command += ["--output", str(output), "--vocab-size", "400"]
    command += ["--source-column", "lang", "--held-out", "0.1"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["source"] for each in report["held_out"]] == ["de", "en", "ja"]
    assert all(each["tokens_per_word"] > 0 for each in report["held_out"])
    assert report["vocab_size"] == pf.Tokenizer(output).vocab_size
    assert main(command) == 0
    assert "per byte" in capsys.readouterr().out
    by_name = ["tokenizer", "train", "--dataset", f"a={folder}", "--column", "text"]
    by_name += ["--output", str(output), "--vocab-size", "400"]
    assert main([*by_name, "--special-tokens", "<eod>", "<pad>"]) == 0
    assert pf.Tokenizer(output).special_ids == {"<eod>": 0, "<pad>": 1}
    assert main([*command, "--dataset", f"a={folder}"]) == 2
