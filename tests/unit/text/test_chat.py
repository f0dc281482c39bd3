"""Chats become the text of their template, and labels of what the assistant says."""

import datetime
import json

import numpy as np
import pytest

import pagefeed as pf
from made.chats import (
    CALLS,
    CHATS,
    DEEPSEEK,
    PLAIN,
    QWEN,
    TEMPLATES,
    TOOLS,
    write_chat_tokenizer,
)
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


@pytest.mark.parametrize("template", [TEMPLATES["chatml"], PLAIN])
@pytest.mark.parametrize("answer", ["Hello 🎉", "你好", "olé", "a"])
def test_all_tokens_of_an_answer_are_learned(template, answer, make):
    said = {"role": "user", "content": "Hi"}
    answered = {"role": "assistant", "content": answer}
    _, runs = learned(make(template.replace("<|im_end|>", "")), [said, answered])
    assert [run.strip() for run in runs] == [answer]


@pytest.mark.parametrize("template", [TEMPLATES["chatml"], PLAIN, QWEN])
def test_an_assistant_that_speaks_first_learns_its_answer_alone(template, make):
    chat = [{"role": "assistant", "content": "Yes?"}, *CHATS[0][1:]]
    text, runs = learned(make(template), chat)
    assert text.index("Yes?") > 0
    assert runs[0] == "Yes?<|im_end|>"


def test_lists_of_parts_are_joined_where_the_template_takes_texts(make):
    tok = make("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    plain = [{"role": "assistant", "content": "ab"}]
    parts = [{"type": "text", "text": text} for text in "ab"]
    with pytest.warns(pf.errors.LabelWarning, match="are joined"):
        joined = learned(tok, [{"role": "assistant", "content": parts}])
    assert joined == learned(tok, plain)
    with pytest.raises(pf.errors.InvalidArgumentError, match="lists of parts"):
        learned(tok, [{"role": "user", "content": [{"type": "image"}]}])


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


def test_templates_that_drop_thoughts_are_learned(make):
    """Of DeepSeek-R1's kind, whose prompt says more than answers begin with."""
    tok = make(DEEPSEEK)
    chat = [*CHATS[0][:4], {"role": "assistant", "content": "<t>hm</think><b>Bye."}]
    text, runs = learned(tok, chat)
    assert text == (
        "<s>Be brief.<U>Hi, what's up? <|im_end|><A>Hello! 👩‍💻<|im_end|>"
        "<U>Zwölf 漢字\n\n<A><b>Bye.<|im_end|>"
    )
    assert runs == ["Hello! 👩‍💻<|im_end|>", "<b>Bye.<|im_end|>"]
    text, runs = learned(tok, CALLS)
    assert runs == ['<call>weather {"city": "Köln"}<|im_end|>', "It is dry.<|im_end|>"]


def test_templates_that_write_thoughts_of_the_last_answer_alone(make):
    """Of Qwen3's kind: an answer is rendered otherwise once another follows."""
    tok = make(QWEN)
    _, runs = learned(tok, CHATS[0])
    assert runs == [
        "Hello! 👩‍💻<|im_end|>",
        "<think>\n\n</think>\n\nBye.<|im_end|>",
    ]


@pytest.mark.parametrize("template", [TEMPLATES["chatml"], PLAIN])
def test_messages_of_weight_0_are_not_learned(template, make):
    tok = make(template)
    chat = [dict(message) for message in CHATS[0]]
    chat[2]["weight"], chat[4]["weight"] = 0, 1
    text, runs = learned(tok, chat)
    assert (text, runs) == (learned(tok, CHATS[0])[0], ["Bye.<|im_end|>"])
    chat[4]["weight"] = 0.5
    with pytest.raises(pf.errors.InvalidArgumentError, match="weight of a message"):
        learned(tok, chat)


def test_sharegpt_and_other_roles(make):
    tok = make(TEMPLATES["chatml"])
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    chat = [{"from": names[m["role"]], "value": m["content"]} for m in CHATS[0]]
    assert learned(tok, chat) == learned(tok, CHATS[0])
    other = [{**m, "role": m["role"].replace("assistant", "Model")} for m in CHATS[0]]
    assert learned(tok, other)[1] == []
    template = ChatTemplate.of(tok, roles={"Model": "assistant"})
    _ids, labels = template.encode(tok, other)
    expected = ChatTemplate.of(tok).encode(tok, CHATS[0])
    np.testing.assert_array_equal(labels, expected[1])
    assert template.fingerprint != ChatTemplate.of(tok).fingerprint
    with pytest.raises(pf.errors.InvalidArgumentError, match="not a mapping of names"):
        ChatTemplate.of(tok, roles={"a": 1})  # type: ignore[dict-item]


def test_tools_are_rendered(make):
    tok = make("{{ tools | tojson }}{% for m in messages %}{{ m.role }}{% endfor %}")
    template = ChatTemplate.of(tok)
    assert template.render(CALLS)[0].startswith("nulluser")
    for tools in (TOOLS, json.dumps(TOOLS)):
        text, _ = template.render(CALLS, tools=tools)
        assert json.loads(text.removesuffix("userassistanttoolassistant")) == TOOLS
    with pytest.raises(pf.errors.InvalidArgumentError, match="tools are a list"):
        template.render(CALLS, tools='{"a": 1}')


def test_nulls_beside_calls_are_rendered_as_transformers_does(make):
    """Left out; recorded of transformers 5.23."""
    tok = make("{% for m in messages %}{{ m | tojson }}{{ m.content }}|{% endfor %}")
    said = [CALLS[0], {**CALLS[1], "tool_calls": [{"a": None}]}]
    text, _ = ChatTemplate.of(tok).render(json.dumps(said))
    assert text == (
        '{"role": "user", "content": "Rain in Köln?"}Rain in Köln?|'
        '{"role": "assistant", "tool_calls": [{"a": null}]}|'
    )


ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ 1 / (messages | length - messages | length) }}", "ZeroDivisionError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% for a in range(10**9) %}{% endfor %}", "OverflowError"),
        (ENDLESS, "steps"),
        ("{% for a in 'x' * 9999 %}{% for b in 'x' * 9999 %}{% endfor %}{% endfor %}",
         "steps"),
        (("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
         "{% endmacro %}{{ m(60) }}"), "steps"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
        ("{{ 'x' * 10**12 }}", "parts"),
        ("{{ 9 ** 999999999 }}", "parts"),
        (("{% set n = namespace(s='x') %}{% for a in range(99) %}"
         "{% set n.s = n.s ~ n.s %}{% endfor %}"), "parts|steps"),
        (("{% set n = namespace(s='x') %}{% for a in range(99) %}"
         "{% set n.s = n.s + n.s %}{% endfor %}"), "parts|steps"),
        (("{% set n = namespace(s='x') %}{% for a in range(99) %}"
         "{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}{% endfor %}"), "parts|steps"),
        ("{% set x = 9999999999 %}" + "{% set x = x * x %}" * 20, "parts"),
        ("{{ 'a' | center(100000000) | length }}", "parts"),
        ("{{ 'a'.ljust(100000000) | length }}", "parts"),
        ("{{ ('%100000000d' % 1) | length }}", "parts"),
        ("{{ '{:100000000}'.format(1) | length }}", "parts"),
        ("{{ ('a\n' * 9999) | indent(20000) | length }}", "parts"),
        ("{{ [1] | tojson(indent=9999999) | length }}", "indents"),
        ("{% set b = 'a' * 20000 %}{{ b | replace('a', b) | length }}", "parts"),
        ("{{ (['ab' * 2000000] * 40) | join | length }}", "parts|steps"),
        ("{% set b = 'a' * 20000000 %}{{ (b ~ b ~ b ~ b) | length }}", "parts|steps"),
        ("{{ ([[0] * 9] * 9000) | sum(start=[]) | length }}", "parts|steps"),
        ("{% set x = [1] %}" + "{% set x = [x, x] %}" * 24 + "{{ x == [x] }}", "steps"),
        ("{{ ('<' * 9000) | striptags | length }}", "striptags"),
        (("{% set x = 'a' * 1000 %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 18),
         "parts|steps"),
        ("{{ [][5].x }}", "undefined|no element"),
        ("{{ messages | nothing }}", "nothing"),
        ("{" * 5000 + "% if", ""),
        ("{% if a %}" * 3000 + "{% endif %}" * 3000, ""),
    ],
)  # fmt: skip
def test_templates_that_fail_or_never_end_are_refused(template, told, make):
    tok = make(template)
    with pytest.raises(pf.errors.InvalidArgumentError, match=f"template.*({told})"):
        learned(tok, CHATS[0])


def test_long_chats_take_far_fewer_steps(make):
    chat = CHATS[0] * 500
    assert len(learned(make(TEMPLATES["chatml"]), chat)[1]) == 1000


@pytest.mark.parametrize(
    "content", ["{", "[1]", '"text"', "[" * 100_000, b"\xff", '{"chat_template": [1]}']
)
def test_configurations_that_say_nothing_are_refused(content, make, tmp_path):
    make(PLAIN)
    config = tmp_path / "tokenizer_config.json"
    config.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(pf.errors.InvalidArgumentError, match="tokenizer"):
        ChatTemplate.of(pf.Tokenizer(tmp_path / "tokenizer.json"))


_THINKING = (
    "{% for m in messages %}{{ '<|' + m.role + '|>' }}{% if m.role == 'assistant' %}"
    "{% if loop.last %}{{ '<think></think>' }}{% endif %}{{ m.content }}"
    "{{ '<|im_end|>' if loop.last else '<s>' }}{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
)
"""Of Qwen3.5's and gpt-oss' kind: the last answer begins and ends otherwise."""


def test_answers_before_the_last_may_begin_and_end_otherwise(make):
    said = ("Hi", "Hello.", "More?", "Bye.")
    chat = [
        {"role": ("user", "assistant")[n % 2], "content": text}
        for n, text in enumerate(said)
    ]
    _, runs = learned(make(_THINKING), chat)
    assert runs == ["Hello.<s>", "</think>Bye.<|im_end|>"]
    ended = PLAIN + "{% if not add_generation_prompt %}{{ bos_token }}{% endif %}"
    _, runs = learned(make(ended), chat)
    assert runs == ["Hello.<|im_end|>", "Bye.<|im_end|>\n<s>"]
