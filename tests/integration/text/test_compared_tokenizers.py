"""Tokenizers held side by side, with what their own libraries count."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import pagefeed as pf
from made.tokenizers_made import TEXTS
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare import compare_tokenizers

TEXTS_OF = {
    "en": [f"the fox {n} jumps over {n * 7} dogs" for n in range(200)],
    "hard": [text for text in TEXTS if text],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("compared")
    rows = [(lang, text) for lang, texts in TEXTS_OF.items() for text in texts]
    table = {"lang": [lang for lang, _ in rows], "text": [text for _, text in rows]}
    pq.write_table(pa.table(table), place / "texts.parquet", row_group_size=64)
    libraries: dict[str, tuple[Any, Any, Any]] = {
        "bytes": (
            models.BPE(),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            trainers.BpeTrainer(
                vocab_size=400,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            ),
        ),
        "words": (
            models.WordLevel(unk_token="[UNK]"),
            pre_tokenizers.Whitespace(),
            trainers.WordLevelTrainer(
                special_tokens=["[UNK]"], min_frequency=3, show_progress=False
            ),
        ),
    }
    for name, (model, before, trainer) in libraries.items():
        made = Tokenizer(model)
        made.pre_tokenizer = before
        if name == "bytes":
            made.decoder = decoders.ByteLevel()
        made.train_from_iterator(TEXTS_OF["en"], trainer)
        made.save(str(place / f"{name}.json"))
    return place


def by_hand(library: Any, texts: list[str], unknown: int | None) -> dict[str, Any]:
    """The numbers of a source, counted by the tokenizer's own library."""
    ids = [encoded.ids for encoded in library.encode_batch(texts)]
    words = [word for text in texts for word in text.split()]

    def is_whole(text: str) -> bool:
        found = library.encode(text).ids
        return len(found) == 1 and found[0] != unknown

    return {
        "num_rows": len(texts),
        "num_bytes": sum(len(text.encode()) for text in texts),
        "num_characters": sum(map(len, texts)),
        "num_words": len(words),
        "num_tokens": sum(map(len, ids)),
        "num_unknown": sum(own.count(unknown) for own in ids),
        "num_whole_words": sum(is_whole(w) or is_whole(f" {w}") for w in words),
        "median_tokens": float(np.median([len(own) for own in ids])),
        "p99_tokens": float(np.percentile([len(own) for own in ids], 99)),
    }


def test_numbers_are_those_of_the_libraries(folder):
    texts = pf.parquet(folder / "texts.parquet", column="text")
    paths = {name: folder / f"{name}.json" for name in ("bytes", "words")}
    tokenizers = {name: pf.Tokenizer(path) for name, path in paths.items()}
    done = compare_tokenizers(tokenizers, texts, source_column="lang", hidden=64)
    assert [each.name for each in done] == ["bytes", "words"]
    for each in done:
        library = Tokenizer.from_file(str(paths[each.name]))
        assert each.embedding_parameters == 64 * library.get_vocab_size()
        unknown = library.token_to_id("[UNK]")
        for source in each.sources:
            expected = by_hand(library, TEXTS_OF[source.source], unknown)
            assert {name: getattr(source, name) for name in expected} == expected
    of_bytes, of_words = (
        {source.source: source for source in each.sources} for each in done
    )
    assert of_bytes["hard"].num_restored == len(TEXTS_OF["hard"])
    assert of_bytes["hard"].unknown_rate == 0
    assert of_words["hard"].num_restored == 0
    assert (of_words["hard"].unknown_rate or 0) > 0.5
    assert of_words["en"].whole_word_rate is not None
    # By names of the tokenizers, and without what was not asked for.
    [again, _] = compare_tokenizers(tokenizers.values(), texts)
    assert again.name == "bytes.json"
    assert again.embedding_parameters is None
    assert [source.source for source in again.sources] == ["all"]


def test_a_function_has_fewer_numbers(folder):
    texts = pf.parquet(folder / "texts.parquet", column="text")
    letters = pf.Tokenizer(lambda text: [*text.encode()], vocab_size=256, name="f")
    [done] = compare_tokenizers([letters], texts, sample="2KiB")
    [source] = done.sources
    assert source.num_restored is None
    assert source.tokens_per_byte == 1
    assert source.num_unknown == 0
    assert 2048 <= source.num_bytes < 2048 + 500


def test_the_verb_prints_a_table(folder, capsys):
    paths = [str(folder / f"{name}.json") for name in ("bytes", "words")]
    command = ["tokenizer", "compare", *paths, "--data", str(folder / "texts.parquet")]
    command += ["--column", "text", "--source-column", "lang"]
    assert main([*command, "--hidden", "8"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "parameters of an embedding" in told[0]
    assert len(told) == 2 + 2 + 4  # The table stands apart, and has a heading.
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["tokenizers"]
    assert {s["source"] for each in report for s in each["sources"]} == {"en", "hard"}
    assert {each["name"] for each in report} == {*paths}


def test_arguments_are_checked(folder):
    texts = pf.parquet(folder / "texts.parquet", column="text")
    one = pf.Tokenizer(folder / "bytes.json")
    for given, options, said in [
        ([], {}, "must be tokenizers"),
        ("bytes.json", {}, "must be tokenizers"),
        (["bytes.json"], {}, "must be tokenizers"),
        ([one, one], {}, "of different names"),
        ([one], {"hidden": 0}, "hidden=0"),
        ([one], {"sample": "1 MBit"}, "sample='1 MBit'"),
        ([one], {"seed": 0.5}, "seed=0.5"),
        ([one], {"source_column": 3}, "source_column=3"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            compare_tokenizers(given, texts, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="not a dataset of texts"):
        compare_tokenizers([one], "texts.parquet")  # type: ignore[arg-type]
    empty = texts.where("lang == 'nothing'")
    with pytest.raises(InvalidArgumentError, match="there are no texts"):
        compare_tokenizers([one], empty)
