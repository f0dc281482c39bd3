"""A column of texts is a dataset of tokens: the same as its tokens in a file."""

import json
import subprocess
import sys
from array import array
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

import pagefeed as pf
from made.texts_made import ROWS, delivered, make_texts, make_tokenizer, write_texts
from made.tokenizers_made import tokenizer_json
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    StaleFileError,
    TokenRangeError,
    UnsupportedError,
)


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="module")
def texts():
    return make_texts()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, texts, tokenizer):
    """The texts in two files, and the same rows with their tokens."""
    path = tmp_path_factory.mktemp("text")
    write_texts(path, texts, tokenizer)
    return path


@pytest.fixture
def pair(folder, tokenizer):
    """The texts and the tokens as datasets."""
    return (
        pf.parquet(folder, column="text").tokenize(tokenizer),
        pf.parquet(folder, column="input_ids"),
    )


def rows_of(batches):
    return sorted(map(bytes, batches.reshape(-1, batches.shape[-1])))


@pytest.mark.parametrize("sequences", [pf.Windows(64, eos=0), pf.Packed(64, bos=1)])
@pytest.mark.parametrize("shuffle", [None, "page", "row", "row_group"])
def test_batches_are_those_of_the_tokens(pair, sequences, shuffle):
    texts, tokens = pair
    options: dict[str, Any] = {"sequences": sequences, "shuffle": shuffle}
    options["fields"] = ("input_ids",)
    found, expected = delivered(texts, **options), delivered(tokens, **options)
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


@pytest.mark.filterwarnings("ignore:.* joins documents")
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


@pytest.mark.filterwarnings("ignore:.* joins documents")
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


def test_counts_that_an_index_holds_cannot_shrink(folder):
    tokenizer = pf.Tokenizer(_letters, vocab_size=1 << 21, name="letters")
    texts = pf.PageIndex.build(folder, column="text").handle
    counts: Any = array("I", [7]) * texts.num_rows
    held = tokenizer.handle.tokenized(texts, 1 << 21, counts)
    with pytest.raises(BufferError):
        del counts[:]
    del held
    del counts[:]
    assert not counts


def test_bos_alone_teaches_no_end(folder, tokenizer):
    data = pf.parquet(folder, column="text").tokenize(tokenizer)

    def targets(**settings: Any) -> int:
        """How often the token that separates documents is a label."""
        loader = pf.Loader(data, batch_size=4, **settings)
        return sum(int((batch["labels"] == 1).sum()) for batch in loader)

    with pytest.warns(pf.errors.PagefeedWarning, match="says where a document ends"):
        assert targets(sequences=pf.Packed(64, bos=1), fields=["labels"]) == 0
    across = pf.Fields(names=("labels",), across_documents=True)
    assert targets(sequences=pf.Packed(64, bos=1), fields=across) > 0
    assert targets(sequences=pf.Packed(64, eos=1), fields=["labels"]) > 0
