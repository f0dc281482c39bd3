"""A column of texts is a dataset of tokens: the same as its tokens in a file."""

import json
import pickle
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

import pagefeed as pf
from pagefeed.dataset.text.counts import _Counting
from pagefeed.errors import (
    CacheWarning,
    CorruptFileError,
    InvalidArgumentError,
    StaleFileError,
    TokenRangeError,
    UnsupportedError,
)
from tokenizers_made import TEXTS, hard_texts, tokenizer_json

ROWS = 600
COUNT = "pagefeed.dataset.text.counts._Counting._count_page"


@pytest.fixture(scope="module")
def tokenizer():
    return pf.Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json("llama3")))


@pytest.fixture(scope="module")
def texts():
    made = [*hard_texts(ROWS - len(TEXTS)), *TEXTS]
    return [None if number % 50 == 7 else text for number, text in enumerate(made)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, texts, tokenizer):
    """The texts in two files, and the same rows with their tokens."""
    path = tmp_path_factory.mktemp("text")
    ids = [tokenizer.encode(text or "").astype(np.int32) for text in texts]
    quality = np.arange(ROWS) % 10 / 10
    table = pa.table({"text": texts, "input_ids": ids, "quality": quality})
    for number, rows in enumerate((table[: ROWS // 3], table[ROWS // 3 :])):
        pq.write_table(
            rows,
            path / f"{number}.parquet",
            row_group_size=150,
            data_page_size=2000,
            use_dictionary=False,
            write_page_index=True,
            write_batch_size=16,
        )
    return path


@pytest.fixture
def pair(folder, tokenizer):
    """The texts and the tokens as datasets."""
    return (
        pf.parquet(folder, column="text").tokenize(tokenizer),
        pf.parquet(folder, column="input_ids"),
    )


def delivered(dataset, **settings: Any):
    loader = pf.Loader(
        dataset,
        batch_size=1,
        seed=3,
        rank=0,
        world_size=1,
        **{"sequences": pf.Windows(64, eos=0), **settings},
    )
    return np.stack([batch["input_ids"] for batch in loader])


def rows_of(batches):
    return sorted(map(bytes, batches.reshape(-1, batches.shape[-1])))


@pytest.mark.parametrize("sequences", [pf.Windows(64, eos=0), pf.Packed(64, bos=1)])
@pytest.mark.parametrize("shuffle", [None, "page", "row", "row_group"])
def test_batches_are_those_of_the_tokens(pair, sequences, shuffle):
    texts, tokens = pair
    found = delivered(texts, sequences=sequences, shuffle=shuffle)
    expected = delivered(tokens, sequences=sequences, shuffle=shuffle)
    if shuffle is None and isinstance(sequences, pf.Windows):
        assert np.array_equal(found, expected)
    else:
        assert np.isin(found, np.arange(800)).all()
        assert abs(len(found) - len(expected)) <= 2
    if isinstance(sequences, pf.Windows):
        assert rows_of(found) == rows_of(expected)


def batches_of(dataset, sequences):
    loader = pf.Loader(
        dataset,
        sequences=sequences,
        batch_size=5,
        shuffle=None,
        rank=0,
        world_size=1,
    )
    return list(loader)


def test_documents_are_those_of_the_tokens(pair, texts):
    found, expected = (batches_of(dataset, pf.Documents()) for dataset in pair)
    rows = [pa.array(batch["text"]).to_pylist() for batch in found]
    same = [pa.array(batch["input_ids"]).to_pylist() for batch in expected]
    assert rows == same
    assert sum(map(len, rows)) == len(texts)


def test_padded_documents(pair):
    found, expected = (
        batches_of(dataset, pf.Documents(max_length=32)) for dataset in pair
    )
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one["input_ids"], other["input_ids"])


def test_what_is_known_of_the_rows(pair, texts, tokenizer):
    tokenized, tokens = pair
    index, other = tokenized.index, tokens.index
    assert (len(tokenized), index.num_values) == (ROWS, other.num_values)
    assert index.files == other.files
    lengths = [len(tokenizer.encode(text or "")) for text in texts]
    assert index.file_first_value.tolist() == [
        0,
        sum(lengths[: ROWS // 3]),
        sum(lengths),
    ]
    found = np.concatenate([np.diff(index.row_offsets(p)) for p in range(len(index))])
    assert found.tolist() == lengths
    places = index.first_values(np.arange(len(index) + 1))
    assert np.array_equal(index.pages_of_values(places[:-1]), np.arange(len(index)))
    assert len(index) > 8


def test_a_part_is_a_part_before_and_after(pair, folder, tokenizer):
    texts, tokens = pair
    plain = pf.parquet(folder, column="text")
    expected = rows_of(delivered(tokens.where("quality > 0.4")))
    assert rows_of(delivered(texts.where("quality > 0.4"))) == expected
    first = plain.where("quality > 0.4").tokenize(tokenizer)
    assert first.fingerprint == texts.where("quality > 0.4").fingerprint
    assert rows_of(delivered(first)) == expected
    by_length = texts.by_length([10, 100])
    same = tokens.by_length([10, 100])
    assert [len(part) for part in by_length.values()] == [
        len(part) for part in same.values()
    ]


def test_resumes_at_another_world_size(pair):
    texts, _ = pair
    settings: dict[str, Any] = {"sequences": pf.Packed(64), "seed": 1}
    whole = pf.Loader(texts, batch_size=4, rank=0, world_size=1, **settings)
    steps = iter(whole)
    begun = [next(steps)["input_ids"] for _ in range(3)]
    rest = np.concatenate([batch["input_ids"] for batch in steps])
    halves = []
    for rank in range(2):
        loader = pf.Loader(texts, batch_size=2, rank=rank, world_size=2, **settings)
        other = pf.Loader(texts, batch_size=4, rank=0, world_size=1, **settings)
        for _ in zip(range(len(begun)), other, strict=False):
            pass
        loader.load_state_dict(other.state_dict())
        halves.append([batch["input_ids"] for batch in loader])
    found = np.concatenate([np.concatenate(both) for both in zip(*halves, strict=True)])
    assert rows_of(found) == rows_of(rest)


def test_a_mixture_with_texts(pair):
    texts, tokens = pair
    mixed = pf.mix({"texts": (texts, 0.5), "tokens": (tokens, 0.5)}, max_steps=20)
    found = delivered(mixed)
    assert len(found) == 20


def test_a_mixture_takes_one_tokenizer(pair, folder):
    library = tokenizers.Tokenizer.from_str(tokenizer_json("gpt2"))
    other = pf.parquet(folder, column="text").tokenize(pf.Tokenizer(library))
    with pytest.raises(InvalidArgumentError, match=r"'a' is tokenized with .*'b' with"):
        pf.mix({"a": (pair[0], 1), "b": (other, 1)})


def test_a_function_on_the_threads_of_the_engine(folder):
    tokenizer = pf.Tokenizer(_letters, vocab_size=1 << 21, name="letters")
    dataset = pf.parquet(folder, column="text").tokenize(tokenizer)
    found = delivered(dataset, shuffle=None, sequences=pf.Windows(50, tail="drop"))
    texts = pq.read_table(folder, columns=["text"])["text"].to_pylist()
    letters = np.concatenate([_letters(text or "") for text in texts]).astype(int)
    assert np.array_equal(found.ravel(), letters[: found.size])


def _letters(text):
    return [ord(letter) for letter in text]


def test_ids_beyond_the_vocabulary_are_found(folder):
    tokenizer = pf.Tokenizer(_letters, vocab_size=200, name="few")
    dataset = pf.parquet(folder, column="text").tokenize(tokenizer)
    with pytest.raises(TokenRangeError, match=r"gives id \d+ .*give the right vocab"):
        delivered(dataset)


class Moody:
    """Gives one token more each time."""

    def __init__(self):
        self.calls = 0

    def __call__(self, _text):
        self.calls += 1
        return [0] * (self.calls // 1000 + 1)


def test_a_tokenizer_that_gives_others_is_found(folder):
    tokenizer = pf.Tokenizer(Moody(), vocab_size=9, name="moody")
    dataset = pf.parquet(folder, column="text").tokenize(tokenizer)
    assert len(dataset) == ROWS
    for _ in range(1000):
        tokenizer.encode("")
    with pytest.raises(StaleFileError, match="when they were counted") as caught:
        delivered(dataset)
    assert str(caught.value.file).endswith(".parquet")
    assert caught.value.column == "text"


def test_other_columns_are_refused(folder, tokenizer):
    dataset = pf.parquet(folder, column="quality").tokenize(tokenizer)
    with pytest.raises(UnsupportedError, match="texts are strings"):
        len(dataset)
    with pytest.raises(InvalidArgumentError, match="is tokenized already"):
        pf.parquet(folder, column="text").tokenize(tokenizer).tokenize(tokenizer)
    with pytest.raises(InvalidArgumentError, match=r"give pagefeed\.Tokenizer"):
        pf.parquet(folder, column="text").tokenize("tokenizer.json")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_texts_of_any_type(tmp_path, tokenizer, kind):
    values = ["one two", None, "", "drei", "one two"] * 9
    array = (
        pa.array(values).cast(pa.binary()) if kind == pa.binary() else pa.array(values)
    )
    array = array if kind == pa.binary() else array.cast(kind)
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": array}), path)
    dataset = pf.parquet(path, column="text").tokenize(tokenizer)
    expected = np.concatenate([tokenizer.encode(text or "") for text in values])
    found = delivered(dataset, shuffle=None, sequences=pf.Windows(8, tail="drop"))
    assert np.array_equal(found.ravel(), expected[: found.size].astype(int))


def test_bytes_that_are_no_text_are_named(tmp_path, tokenizer):
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": pa.array([b"fine", b"\xff\xfe"])}), path)
    dataset = pf.parquet(path, column="text").tokenize(tokenizer)
    with pytest.raises(
        CorruptFileError, match="row 1 of the page is not UTF-8"
    ) as caught:
        len(dataset)
    assert (caught.value.file, caught.value.page) == (str(path), 0)


def test_counts_are_kept_and_found_again(folder, tokenizer, tmp_path, monkeypatch):
    plain = pf.parquet(folder, column="text", cache_dir=tmp_path)
    first = plain.tokenize(tokenizer)
    expected = delivered(first)
    assert [path.name[:7] for path in tmp_path.glob("tokens-*")] == ["tokens-"]
    assert not [*tmp_path.glob("*.parts")]
    monkeypatch.setattr(COUNT, None)
    again = pf.parquet(folder, column="text", cache_dir=tmp_path).tokenize(tokenizer)
    assert np.array_equal(delivered(again), expected)
    assert np.array_equal(delivered(pickle.loads(pickle.dumps(again))), expected)
    library = tokenizers.Tokenizer.from_str(tokenizer_json("gpt2"))
    with pytest.raises(TypeError):
        len(plain.tokenize(pf.Tokenizer(library)))


def test_counting_goes_on_where_it_was_left(folder, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("pagefeed.dataset.text.counts.PART_ROWS", 50)
    plain = pf.parquet(folder, column="text", cache_dir=tmp_path)
    count: Any = _Counting._count_page
    calls: list[int] = []

    def failing(self, page):
        calls.append(page)
        if len(calls) > 15:
            raise KeyboardInterrupt
        return count(self, page)

    def counting(self, page):
        calls.append(page)
        return count(self, page)

    monkeypatch.setattr(COUNT, failing)
    with pytest.raises(KeyboardInterrupt):
        len(plain.tokenize(tokenizer))
    done = len([*tmp_path.glob("*.parts/part-*")])
    assert done > 0
    monkeypatch.setattr(COUNT, counting)
    calls.clear()
    index = plain.tokenize(tokenizer).index
    assert 0 < len(calls) < len(index)
    assert index.num_values == pf.parquet(folder, column="input_ids").index.num_values


CHILD = """
import sys, time
import pagefeed as pf
from pagefeed.dataset.text import counts
counts.PART_ROWS = 40
def slow(text):
    time.sleep(0.004)
    return list(text[:20].encode())
tokenizer = pf.Tokenizer(slow, vocab_size=256, name="slow")
folder, cache = sys.argv[1:]
dataset = pf.parquet(folder, column="text", cache_dir=cache).tokenize(tokenizer)
print(dataset.index.num_values)
"""


def test_counting_that_is_killed_loses_no_parts(folder, texts, tmp_path):
    command = [sys.executable, "-c", CHILD, str(folder), str(tmp_path)]
    before = 0
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            while child.poll() is None and parts_in(tmp_path) <= before:
                time.sleep(0.01)
            child.kill()
        assert before < parts_in(tmp_path)
        before = parts_in(tmp_path)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    found = [int(child.communicate()[0]) for child in both]
    assert found == [sum(len((text or "")[:20].encode()) for text in texts)] * 2
    [whole] = tmp_path.glob("tokens-*")
    assert {path.name for path in whole.iterdir()} == {"about.json", "numbers"}


def parts_in(folder):
    return len([*folder.glob("*.parts/part-*/about.json")])


def test_counts_without_a_folder_that_can_be_written(folder, tokenizer, tmp_path):
    (tmp_path / "file").write_text("")
    blocked = pf.parquet(folder, column="text", cache_dir=tmp_path / "file")
    with pytest.warns(CacheWarning):
        found = blocked.tokenize(tokenizer).index
    assert found.num_values == pf.parquet(folder, column="input_ids").index.num_values


def test_the_verb_counts_ahead(folder, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json("llama3"))
    verb = [sys.executable, "-m", "pagefeed", "count", str(folder), "--column", "text"]
    verb += ["--tokenizer", str(path), "--cache-dir", str(tmp_path / "cache"), "--json"]
    done = subprocess.run(verb, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    tokens = pf.parquet(folder, column="input_ids").index
    assert (report["rows"], report["tokens"]) == (ROWS, tokens.num_values)
    assert report["engine"] == "fastokens", report["why"]


def test_reports_take_texts(folder, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json("llama3"))
    for verb in ("plan", "verify"):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pagefeed",
                verb,
                str(folder),
                "--column",
                "text",
                "--tokenize",
                str(path),
                "--length",
                "64",
                "--json",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        assert json.loads(done.stdout)


def test_locate_and_trace_back(pair, texts, tokenizer):
    dataset, _ = pair
    loader = pf.Loader(
        dataset, sequences=pf.Windows(64), batch_size=2, rank=0, world_size=1
    )
    batch = next(iter(loader))["input_ids"]
    for number in range(2):
        for origin in loader.locate(step=0, row=number):
            row = origin.row + (ROWS // 3 if origin.file.endswith("1.parquet") else 0)
            ids = tokenizer.encode(texts[row])
            part = ids[origin.first_token : origin.first_token + origin.num_tokens]
            here = batch[number, origin.offset : origin.offset + origin.num_tokens]
            assert part.tolist() == here.tolist()
            assert origin.text_range is not None
            begin, end = origin.text_range
            of_text = texts[row].encode()[begin:end].decode()
            assert tokenizer.decode(part).strip("\ufffd") in of_text
