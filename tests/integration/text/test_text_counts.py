"""The tokens of texts are counted once: kept, resumed after a kill, counted ahead."""

import json
import pickle
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import tokenizers

import pagefeed as pf
from made.texts_made import ROWS, delivered, make_texts, make_tokenizer, write_texts
from made.tokenizers_made import tokenizer_json
from pagefeed.errors import CacheWarning
from pagefeed.text.counts import _Counting

COUNT = "pagefeed.text.counts._Counting._count_page"


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


def test_counts_are_kept_and_found_again(folder, tokenizer, tmp_path, monkeypatch):
    plain = pf.parquet(folder, column="text", cache_dir=tmp_path)
    first = plain.tokenize(tokenizer)
    expected = delivered(first)
    assert [path.name[:7] for path in tmp_path.glob("tokens-*")] == ["tokens-"]
    assert not [*tmp_path.glob("*.chunks")]
    monkeypatch.setattr(COUNT, None)
    again = pf.parquet(folder, column="text", cache_dir=tmp_path).tokenize(tokenizer)
    assert np.array_equal(delivered(again), expected)
    assert np.array_equal(delivered(pickle.loads(pickle.dumps(again))), expected)
    library = tokenizers.Tokenizer.from_str(tokenizer_json("gpt2"))
    with pytest.raises(TypeError):
        len(plain.tokenize(pf.Tokenizer(library)))


def test_counting_goes_on_where_it_was_left(folder, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("pagefeed.text.counts.CHUNK_ROWS", 50)
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
    done = len([*tmp_path.glob("*.chunks/chunk-*")])
    assert done > 0
    monkeypatch.setattr(COUNT, counting)
    calls.clear()
    index = plain.tokenize(tokenizer).index
    assert 0 < len(calls) < len(index)
    assert index.num_values == pf.parquet(folder, column="input_ids").index.num_values


CHILD = """
import sys, time
import pagefeed as pf
from pagefeed.text import counts
counts.CHUNK_ROWS = 40
def slow(text):
    time.sleep(0.01)
    return list(text[:20].encode())
tokenizer = pf.Tokenizer(slow, vocab_size=256, name="slow")
folder, cache = sys.argv[1:]
dataset = pf.parquet(folder, column="text", cache_dir=cache).tokenize(tokenizer)
print(dataset.index.num_values)
"""


def test_counting_that_is_killed_loses_no_chunks(folder, texts, tmp_path):
    command = [sys.executable, "-c", CHILD, str(folder), str(tmp_path)]
    before = 0
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            while child.poll() is None and chunks_in(tmp_path) <= before:
                time.sleep(0.01)
            child.kill()
        assert before < chunks_in(tmp_path)
        before = chunks_in(tmp_path)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    found = [int(child.communicate()[0]) for child in both]
    assert found == [sum(len((text or "")[:20].encode()) for text in texts)] * 2
    [whole] = tmp_path.glob("tokens-*")
    assert {path.name for path in whole.iterdir()} == {"about.json", "numbers"}


def chunks_in(folder):
    return len([*folder.glob("*.chunks/chunk-*/about.json")])


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
