"""BPE of characters loses no text, as SentencePiece does; sources drawn by weight."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.tokenizers_made import TEXTS
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare.vocabulary.sampling import amounts
from scaled import scaled

ENGLISH = [f"the quick brown fox {n} jumps over {n * 7} lazy dogs" for n in range(300)]
THAI = [f"ภาษาไทยมีตัวอักษรมากมาย และคำที่ {n} เขียนติดกัน" for n in range(300)]
# What bytes are called, and a rare letter.
NAMES = [f"<0x41> is A <0x41><0x41> {n} 狐"[: -1 if n else None] for n in range(300)]
LETTERS: dict[str, Any] = {
    "units": "characters",
    "character_coverage": 0.9999,
    "vocab_size": 600,
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("sources")
    for name, texts in {"en": ENGLISH, "th": THAI, "names": NAMES}.items():
        pq.write_table(pa.table({"text": texts}), place / f"{name}.parquet")
    names = ("en", "names", "th")
    return {n: pf.parquet(place / f"{n}.parquet", column="text") for n in names}


@pytest.fixture(scope="module")
def made(sources: Any, tmp_path_factory: pytest.TempPathFactory) -> pf.Tokenizer:
    path: Path = tmp_path_factory.mktemp("made") / "tokenizer.json"
    # A pattern under which merges could make the name of a byte.
    pf.prepare.train_tokenizer(sources, path, pattern=r"\S+|\s+", **LETTERS)
    return pf.Tokenizer(path)


@given(text=st.text() | st.sampled_from([*TEXTS, *NAMES, "▁ ▁", "  a\t\r\n ", "\x00"]))
@settings(max_examples=scaled(200))
def test_no_text_is_lost(made, text):
    ids = made.encode(text)
    assert made.decode(ids) == text
    assert made.unknown not in ids.tolist()


def test_sentencepiece_loses_what_this_keeps(made, tmp_path):
    pieces = pytest.importorskip("sentencepiece")
    pieces.SentencePieceTrainer.train(
        sentence_iterator=iter([*ENGLISH, *THAI]),
        model_prefix=str(tmp_path / "pieces"),
        model_type="bpe",
        vocab_size=600,
        character_coverage=0.9999,
        byte_fallback=True,
        minloglevel=2,
    )
    theirs = pieces.SentencePieceProcessor(model_file=str(tmp_path / "pieces.model"))
    both = [0, 0]
    for text in [*TEXTS, *ENGLISH[:20], *THAI[:20]]:
        both[0] += made.decode(made.encode(text)) == text
        restored = theirs.decode(theirs.encode(text)) == text
        both[1] += restored
    assert both[0] == len(TEXTS) + 40 > both[1]
    # The settings are theirs: letters are tokens, and texts take about as many.
    own = set(json.loads(made.to_json())["model"]["vocab"])
    assert {c for c in "".join(THAI + ENGLISH) if not c.isspace()} <= own
    counts = [sum(len(t.encode(x)) for x in ENGLISH) for t in (made, theirs)]
    assert 0.5 < counts[0] / counts[1] < 2


def test_letters_and_bytes_are_tokens(made):
    vocab = json.loads(made.to_json())["model"]["vocab"]
    assert [*vocab.values()] == [*range(len(vocab))]
    assert {f"<0x{byte:02X}>" for byte in range(256)} < vocab.keys()
    assert "狐" not in vocab
    assert len(made.encode("狐")) == 3
    assert [*vocab][:4] == ["<unk>", "<s>", "</s>", "<0x00>"]
    assert 590 < made.vocab_size <= 600


def test_without_bytes_rare_characters_are_unknown(sources, tmp_path):
    given = LETTERS | {"character_coverage": 0.99}
    done = pf.prepare.train_tokenizer(
        sources["names"], tmp_path / "t.json", byte_fallback=False, **given
    )
    made = pf.Tokenizer(done.path)
    assert made.encode("🦊").tolist() == [made.unknown] == [0]
    assert made.decode(made.encode("A is <0x41>")) == "A is <0x41>"


@pytest.mark.parametrize(
    "wanted", [{"en": 1, "th": 3, "names": 0}, {"en": 0.5, "th": 0.2, "names": 0.3}]
)
def test_sources_are_drawn_by_weight(sources, tmp_path, wanted):
    shares = []
    for seed in range(3):
        done = pf.prepare.train_tokenizer(
            sources, tmp_path / "t.json", vocab_size=400, weights=wanted, seed=seed
        )
        total = sum(each.sampled_bytes for each in done.sources)
        shares.append({e.source: e.sampled_bytes / total for e in done.sources})
    for share in shares:
        for name, weight in wanted.items():
            # The last text of a source may reach beyond its share.
            expected = weight / sum(wanted.values())
            assert share[name] == pytest.approx(expected, abs=0.01)


def test_weights_and_units_are_checked(sources, tmp_path):
    sizes = {"en": 10, "th": 10, "none": 0}
    for weights, said in [
        ({"en": 1, "th": 1, "fr": 1}, r"en, th, fr, and the sources are en, th, none"),
        ({"en": 1, "th": 1}, "name each source, with 0"),
        ({"en": -1, "th": 1, "none": 0}, r"weights\['en'\]=-1"),
        ({"en": "1", "th": 1, "none": 0}, r"weights\['en'\]='1'"),
        ({"en": float("inf"), "th": 1, "none": 0}, r"weights\['en'\]=inf"),
        ({"en": 0, "th": 0, "none": 0}, "one must be above 0"),
        ({"en": 1, "th": 1, "none": 1}, "none of a source without texts"),
        ([1, 2], "must name a weight for each source"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            amounts(sizes, 5, 1, weights)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="temperature=2 both"):
        amounts(sizes, 5, 2, {"en": 1, "th": 1, "none": 0})
    given: dict[str, Any] = {"vocab_size": 400}
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"units": "character"}, "did you mean 'characters'"),
        (
            {"units": "characters", "model": "unigram"},
            "unigram always works on characters",
        ),
        ({"character_coverage": 0.9}, "choose units='characters'"),
        ({"byte_fallback": False}, "choose units='characters'"),
        ({"units": "characters", "vocab_size": 200}, "bytes and letters"),
    ]
    for wrong, said in wrongs:
        with pytest.raises(InvalidArgumentError, match=said):
            pf.prepare.train_tokenizer(sources, tmp_path / "x", **given | wrong)


def test_the_verb_takes_weights_and_units(sources, tmp_path, capsys):
    files = [f"{name}={data.files[0]}" for name, data in sources.items()]
    command = ["tokenizer", "train", "--dataset", *files, "--column", "text"]
    command += ["--output", str(tmp_path / "t.json"), "--vocab-size", "600"]
    command += ["--units", "characters", "--weights", "en=1", "th=2", "names=0"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["unknown_rate"] for each in report["held_out"]] == [0, 0, 0]
    drawn = {each["source"]: each["sampled_bytes"] for each in report["sources"]}
    assert drawn["names"] == 0
    assert drawn["th"] == pytest.approx(2 * drawn["en"], rel=0.03)
    assert main([*command[:-1], "names=no"]) == 2
