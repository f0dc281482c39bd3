"""Chats become the text of their template, and labels of what the assistant says."""

import datetime
import json

import numpy as np
import pytest

import pagefeed as pf
from made.chats import CHATS, PLAIN, TEMPLATES, write_chat_tokenizer
from pagefeed.tokenizer import ChatTemplate


@pytest.fixture
def make(tmp_path):
    def made(template):
        return pf.Tokenizer(write_chat_tokenizer(tmp_path, template))

    return made


def learned(tok, messages):
    """Ids, and the text of each run of tokens that are learned."""
    ids, labels = ChatTemplate.of(tok).encode(tok, messages)
    assert ((labels == -100) | (labels == ids)).all()
    borders = np.flatnonzero(np.diff(np.pad((labels != -100).astype(int), 1)))
    runs = borders.reshape(-1, 2).tolist()
    return tok.decode(ids), [tok.decode(ids[begin:end]) for begin, end in runs]


def test_generation_blocks_are_learned(make):
    tok = make(TEMPLATES["chatml"])
    text, runs = learned(tok, CHATS[0])
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n")
    assert runs == ["Hello! 👩‍💻<|im_end|>", "Bye.<|im_end|>"]


def test_without_blocks_the_same_is_found_by_prefixes(make):
    with_blocks, without = make(TEMPLATES["chatml"]), None
    for chat in CHATS:
        blocks = learned(with_blocks, chat)
        without = make(PLAIN)
        assert learned(without, chat) == blocks


def test_templates_that_rewrite_what_was_said_are_refused(make):
    template = PLAIN.replace(
        "message.content", "(message.content if loop.last else '')"
    )
    tok = make(template)
    with pytest.raises(pf.errors.InvalidArgumentError, match="generation"):
        learned(tok, CHATS[0])


@pytest.mark.parametrize("messages", [[], "text", [1], None, {"role": "user"}])
def test_what_is_no_chat_is_refused(messages, make):
    tok = make(PLAIN)
    with pytest.raises(pf.errors.InvalidArgumentError, match="message"):
        learned(tok, messages)


def test_templates_may_refuse(make):
    tok = make("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(pf.errors.InvalidArgumentError, match="roles must alternate"):
        learned(tok, CHATS[0])


def test_templates_are_in_a_sandbox(make):
    tok = make("{{ messages.__class__.__mro__ }}{{ messages.append(1) }}")
    with pytest.raises(pf.errors.InvalidArgumentError, match="refuses"):
        learned(tok, CHATS[0])


def test_the_day_is_that_of_the_job(make):
    tok = make("{{ strftime_now('%d %B %Y') }}")
    template = ChatTemplate.of(tok).on(datetime.date(2024, 2, 29))
    assert template.render(CHATS[0]) == ("29 February 2024", [])


def test_templates_are_found_where_they_are(make, tmp_path):
    tok = make(PLAIN)
    assert ChatTemplate.of(tok).fingerprint != ChatTemplate.of(tok, "x").fingerprint
    (tmp_path / "chat_template.jinja").write_text("from the other file")
    again = pf.Tokenizer(tmp_path / "tokenizer.json")
    assert ChatTemplate.of(again).render(CHATS[0])[0] == "from the other file"
    config = tmp_path / "tokenizer_config.json"
    (tmp_path / "chat_template.jinja").unlink()
    named = [{"name": "default", "template": "named"}, {"name": "x", "template": "y"}]
    config.write_text(json.dumps({"chat_template": named}))
    again = pf.Tokenizer(tmp_path / "tokenizer.json")
    assert ChatTemplate.of(again).render(CHATS[0])[0] == "named"
    config.unlink()
    with pytest.raises(pf.errors.InvalidArgumentError, match=r"chat_template\.jinja"):
        ChatTemplate.of(pf.Tokenizer(tmp_path / "tokenizer.json"))


def test_special_tokens_must_be_tokens(make, tmp_path):
    make(PLAIN)
    as_text = pf.Tokenizer(tmp_path / "tokenizer.json", special_tokens="as_text")
    with pytest.raises(pf.errors.InvalidArgumentError, match="as_token"):
        ChatTemplate.of(as_text)
