"""Tokenizers extended for a domain: other ids stay, and embeddings get their rows."""

import json
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pagefeed as pf
from made.extended import KINDS, WORDS, law, open_tokenizer
from made.shared_data import shared
from made.tokenizers_made import TEXTS, hard_texts, tokenizer_json
from pagefeed.errors import (
    InvalidArgumentError,
    UnsupportedError,
)
from pagefeed.prepare.vocabulary.embeddings import pieces_of
from pagefeed.prepare.vocabulary.segmentation import best_joins


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
    done = pf.prepare.extend_tokenizer(
        old,
        pf.parquet(domain, column="text"),
        tmp_path / "new.json",
        new_tokens=60,
        held_out=0.1,
    )
    assert done.fingerprint == extended["gpt2"][0].fingerprint
    new = pf.Tokenizer(tmp_path / "new.json")
    assert pieces_of(old, new) == known_pieces("gpt2", extended["gpt2"][1])


@pytest.mark.parametrize("kind", ["unigram", "llama2"])
def test_characters_that_no_piece_has(tmp_path, kind):
    path = tmp_path / "snow.parquet"
    texts = [f"estoppel \u26c4\u26c4 {row % 7} \u26c4estoppel" for row in range(200)]
    pq.write_table(pa.table({"text": texts}), path)
    old = open_tokenizer(kind)
    data = pf.parquet(path, column="text")
    done = pf.prepare.extend_tokenizer(old, data, tmp_path / "new.json", new_tokens=9)
    assert any("estop" in new.text for new in done.new_tokens)
    assert not any("\u26c4" in new.text for new in done.new_tokens)


def test_corpus_with_two_thousand_tokens_more(tmp_path):
    corpus = pf.parquet(shared("data", "corpus"), column="text")
    old = pf.Tokenizer(shared("data", "corpus", "tokenizer.json"))
    domain = corpus.where("source == 'scipy/scipy'")
    done = pf.prepare.extend_tokenizer(
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
    known = best_joins(words, 1, joined=joined, existing=["ab"])
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
    done = pf.prepare.extend_tokenizer(
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
            pf.prepare.extend_tokenizer(tokenizer, texts, tmp_path / "law.json")
    assert [*tmp_path.iterdir()] == []
