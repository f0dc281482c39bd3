"""Places of tokens told by their bytes are those that the library tells."""

import pytest
import tokenizers

import pagefeed as pf
from made.tokenizers_made import MADE, hard_texts, tokenizer_json
from pagefeed.tokenizer import token_offsets
from pagefeed.tokenizer.token_offsets import TokenOffsets


def trimmed(name):
    """A tokenizer whose library leaves spaces out of the offsets."""
    made = tokenizers.Tokenizer.from_str(tokenizer_json(name))
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True)
    made.add_special_tokens(["<|im_end|>"])
    return made


def by_engine(tok, text, character):
    byte = len(text[:character].encode())
    stop = byte + len(text[character].encode())
    pairs = enumerate(tok.offsets(text).tolist())
    tokens = [n for n, (begin, end) in pairs if end > byte and begin < stop]
    return (tokens[0], tokens[-1] + 1) if tokens else (0, 0)


def check(tok):
    for text in [*hard_texts(40), "", " a  b \n <|im_end|> c"]:
        offsets = TokenOffsets(tok, text, tok.encode(text))
        for character in range(0, len(text), max(1, len(text) // 20)):
            found = offsets.tokens(character, character + 1)
            assert found == by_engine(tok, text, character), (text, character)


@pytest.mark.parametrize("name", MADE)
def test_offsets_are_the_same(name, monkeypatch):
    monkeypatch.setattr(token_offsets, "TRIED", 0)
    check(pf.Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json(name))))


@pytest.mark.parametrize("name", ["gpt2", "llama3"])
def test_spaces_that_are_left_out_are_so_here(name, monkeypatch):
    monkeypatch.setattr(token_offsets, "TRIED", 0)
    check(pf.Tokenizer(trimmed(name)))


def test_what_differs_once_is_never_believed_again(monkeypatch):
    tok = pf.Tokenizer(trimmed("gpt2"))
    known = token_offsets._bytes_of(tok)
    assert known is not None
    monkeypatch.setattr(known, "after", known.after + 1)
    check(tok)
    assert known.is_refuted
