"""Places of tokens told by their bytes are those that the library tells."""

import pytest
import tokenizers

import pagefeed as pf
from made.tokenizers_made import MADE, hard_texts, tokenizer_json
from pagefeed.tokenizer import token_places
from pagefeed.tokenizer.token_places import TokenPlaces


def trimmed(name):
    """A tokenizer whose library leaves spaces out of the places."""
    made = tokenizers.Tokenizer.from_str(tokenizer_json(name))
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True)
    made.add_special_tokens(["<|im_end|>"])
    return made


def told(tok, text, place):
    byte = len(text[:place].encode())
    pairs = enumerate(tok.places(text).tolist())
    return next((n for n, (begin, end) in pairs if begin <= byte < end), None)


def check(tok):
    for text in [*hard_texts(40), "", " a  b \n <|im_end|> c"]:
        places = TokenPlaces(tok, text, tok.encode(text))
        for place in range(0, len(text), max(1, len(text) // 20)):
            assert places.token(place) == told(tok, text, place), (text, place)


@pytest.mark.parametrize("name", MADE)
def test_places_are_the_same(name, monkeypatch):
    monkeypatch.setattr(token_places, "TRIED", 0)
    check(pf.Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json(name))))


@pytest.mark.parametrize("name", ["gpt2", "llama3"])
def test_spaces_that_are_left_out_are_so_here(name, monkeypatch):
    monkeypatch.setattr(token_places, "TRIED", 0)
    check(pf.Tokenizer(trimmed(name)))


def test_what_differs_once_is_never_believed_again(monkeypatch):
    tok = pf.Tokenizer(trimmed("gpt2"))
    known = token_places._bytes_of(tok)
    assert known is not None
    monkeypatch.setattr(known, "before", known.before + 1)
    check(tok)
    assert known.is_refuted
