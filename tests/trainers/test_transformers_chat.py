"""Chats give the ids and the mask that transformers gives."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

REASON = "make test-trainers ARGS=transformers"
transformers = pytest.importorskip("transformers", reason=REASON)
trl = pytest.importorskip("trl", reason=REASON)

import pagefeed as pf  # noqa: E402 - likewise
from made.chats import (  # noqa: E402
    CALLS,
    CHATS,
    DEEPSEEK,
    QWEN,
    TEMPLATES,
    TOOLS,
    write_chat_tokenizer,
)
from made.tokenizers_made import hard_texts  # noqa: E402
from pagefeed.tokenizer import ChatTemplate  # noqa: E402


def chats():
    """Those made by hand, and some of hard texts."""
    texts = [*hard_texts(60)]
    roles = ("user", "assistant")
    made = [
        [{"role": roles[n % 2], "content": text} for n, text in enumerate(part)]
        for part in (
            texts[:4],
            *(texts[begin : begin + 5] for begin in range(4, 60, 5)),
        )
    ]
    return [*CHATS, *made]


def theirs(library, chat):
    found = library.apply_chat_template(
        chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, mask = (np.array(found[name]) for name in ("input_ids", "assistant_masks"))
    return ids.tolist(), np.where(mask == 1, ids, -100).tolist()


@pytest.mark.parametrize("template", TEMPLATES)
def test_ids_and_mask_are_those_of_transformers(template, tmp_path):
    path = write_chat_tokenizer(tmp_path, TEMPLATES[template])
    library = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    tok = pf.Tokenizer(path)
    for one in (tok, pf.Tokenizer(library)):
        chat_template = ChatTemplate.of(one)
        for chat in chats():
            ids, labels = chat_template.encode(one, chat)
            assert (ids.tolist(), labels.tolist()) == theirs(library, chat)
    assert pf.Tokenizer(library).fingerprint == tok.fingerprint


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_files_hold_the_same(kind, tmp_path):
    path = write_chat_tokenizer(tmp_path, TEMPLATES["chatml"])
    library = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    given = chats()
    source = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        lines = [json.dumps({"messages": chat}) for chat in given]
        source.write_text("\n".join(lines))
    else:
        pq.write_table(pa.table({"messages": given}), source)
    done = pf.tokenize(
        source, tmp_path / "out", tokenizer=pf.Tokenizer(path), messages="messages"
    )
    table = pq.read_table(done.files[0])
    expected = [theirs(library, chat) for chat in given]
    assert table["input_ids"].to_pylist() == [ids for ids, _ in expected]
    assert table["labels"].to_pylist() == [labels for _, labels in expected]


SHOWN = "{% for m in messages %}{{ m | tojson }}{{ m.content }}|{% endfor %}{{ tools }}"


@pytest.mark.parametrize("template", [DEEPSEEK, QWEN, SHOWN])
@pytest.mark.parametrize("tools", [None, TOOLS])
def test_what_is_rendered_is_what_transformers_renders(template, tools, tmp_path):
    """Where it renders: it leaves out the content beside calls that is null."""
    path = write_chat_tokenizer(tmp_path, template)
    library = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    ours = ChatTemplate.of(pf.Tokenizer(path))
    given = [*CHATS, CALLS] if template is SHOWN else CHATS
    for chat in given:
        text = library.apply_chat_template(chat, tokenize=False, tools=tools)
        assert ours.render(chat, tools=tools)[0] == text


SHIPPED = {
    path.stem: path.read_text()
    for path in sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
}
"""Templates that TRL ships, and its variants of these with generation blocks."""
TRAINING = [name for name in SHIPPED if name.endswith("_training")]
CALL = {"function": {"name": "weather", "arguments": {"place": "Rome"}}}
PARTS: Any = {
    None: [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Bye"}],
    "reasoning": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "reasoning_content": "A greeting."},
        {"role": "user", "content": "More?"},
        {"role": "assistant", "content": "Bye", "reasoning_content": "They leave."},
    ],
    "tool_calls": [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "Bye"},
    ],
}
LEFT = {"reasoning": ("leave", "think>\n", "<channel"), "tool_calls": ("Rome",)}


def learned_of(tok, template, chat, **settings):
    """Labels, and the text of what is learned; None where a template refuses it."""
    try:
        ids, labels = ChatTemplate.of(tok, template, **settings).encode(tok, chat)
    except pf.errors.InvalidArgumentError:
        return None, None, ""
    return ids, labels, tok.decode(labels[labels != -100].astype(np.uint32))


def test_masks_of_shipped_templates_are_those_of_transformers(tmp_path):
    tok = pf.Tokenizer(write_chat_tokenizer(tmp_path, ""))
    library = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    same = set()
    for name in TRAINING:
        library.chat_template = SHIPPED[name]
        for chat in PARTS.values():
            ids, labels, _ = learned_of(tok, SHIPPED[name], chat)
            if ids is not None:
                assert (ids.tolist(), labels.tolist()) == theirs(library, chat), name
                same.add(name)
    assert len(same) >= 20


TURNS: Any = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "More please"},
    {"role": "assistant", "content": "Bye"},
]


def test_turns_by_weight_of_shipped_templates(tmp_path):
    tok = pf.Tokenizer(write_chat_tokenizer(tmp_path, ""))
    answers, prompts = set(), set()
    for name, template in SHIPPED.items():
        for turn, message in enumerate(TURNS):
            chat = [{**each, "weight": int(each is message)} for each in TURNS]
            _, expected, _ = learned_of(tok, template, chat)
            _, labels, text = learned_of(tok, template, chat, train_on="weighted")
            if labels is None or expected is None:
                continue
            others = [each["content"] for each in TURNS if each is not message]
            assert message["content"] in text, (name, turn, text)
            assert not any(other in text for other in others), (name, turn, text)
            if message["role"] == "assistant":
                assert labels.tolist() == expected.tolist(), (name, turn)
                answers.add(name)
            else:
                assert text.lstrip().startswith(message["content"]), (name, text)
                prompts.add(name)
    assert min(len(answers), len(prompts)) >= 20


def test_parts_of_shipped_templates_are_not_learned(tmp_path):
    tok = pf.Tokenizer(write_chat_tokenizer(tmp_path, ""))
    removed: dict[str, set[str]] = {part: set() for part in LEFT}
    for name, template in SHIPPED.items():
        for part, words in LEFT.items():
            _, _, whole = learned_of(tok, template, PARTS[part])
            if not any(word in whole for word in words):
                continue
            _, labels, text = learned_of(tok, template, PARTS[part], mask=[part])
            if labels is None:
                continue
            assert not any(word in text for word in words), (name, text)
            assert "Bye" in text, (name, text)
            removed[part].add(name)
    assert min(map(len, removed.values())) >= 20
