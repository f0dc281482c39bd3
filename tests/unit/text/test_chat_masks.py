"""Parts of answers that are not learned: reasoning, calls, results, earlier turns."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.chats import QWEN, write_chat_tokenizer
from pagefeed.errors import InvalidArgumentError
from pagefeed.tokenizer import ChatTemplate

CALL = {"function": {"name": "weather", "arguments": {"place": "Rome"}}}
THOUGHT: list[Any] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello.", "reasoning_content": "They greet."},
    {"role": "user", "content": "More?"},
    {"role": "assistant", "content": "Bye", "thinking": "They leave."},
]
CALLED: list[Any] = [
    {"role": "user", "content": "Rain?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "content": "sunny"},
    {"role": "assistant", "content": "No."},
]
MARKED = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}"
    "{% generation %}{% if m.thinking %}{{ '<T>' + m.thinking + '</T>' }}{% endif %}"
    "{{ m.content }}{% for one in m.tool_calls or [] %}<call>{{ one.function.name }}"
    "</call>{% endfor %}<|im_end|>{% endgeneration %}{% endif %}{% endfor %}"
)
"""Marks what tools say, too."""
PLAIN = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.thinking %}"
    "{{ '[[' + m.thinking + ']]' }}{% endif %}{{ m.content }}"
    "{% for one in m.tool_calls or [] %}<call>{{ one.function.name }}</call>"
    "{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture
def learned(tmp_path):
    def read(template, chat, **settings):
        tok = pf.Tokenizer(write_chat_tokenizer(tmp_path, template))
        ids, labels = ChatTemplate.of(tok, **settings).encode(tok, chat)
        borders = np.flatnonzero(np.diff(np.pad((labels != -100).astype(int), 1)))
        runs = borders.reshape(-1, 2).tolist()
        return [tok.decode(ids[begin:end]) for begin, end in runs]

    return read


BOTH = ["Hello.<|im_end|>", "Bye<|im_end|>"]


@pytest.mark.parametrize("template", [QWEN, MARKED, PLAIN])
def test_reasoning_is_not_learned(learned, template):
    assert "They leave." in "".join(learned(template, THOUGHT))
    assert learned(template, THOUGHT, mask=["reasoning"]) == BOTH


def test_nor_are_blocks_without_any(learned):
    bare = [{"role": m["role"], "content": m["content"]} for m in THOUGHT]
    assert "<think>" in "".join(learned(QWEN, bare))
    assert learned(QWEN, bare, mask="reasoning") == BOTH


@pytest.mark.parametrize("template", [MARKED, PLAIN])
def test_nor_is_reasoning_within_the_content(learned, template):
    chat = [THOUGHT[0], {"role": "assistant", "content": "<think>x\n</think>\n\nHi"}]
    assert learned(template, chat, mask=["reasoning"]) == ["Hi<|im_end|>"]


def test_calls_and_results_of_tools_are_not_learned(learned):
    kept = learned(PLAIN, CALLED, mask=["tool_calls"])
    assert kept == ["I look.", "<|im_end|>", "No.<|im_end|>"]
    kept = learned(MARKED, CALLED, mask=["tool_calls"])
    assert kept == ["I look.", "<|im_end|>sunny<|im_end|>No.<|im_end|>"]
    kept = learned(MARKED, CALLED, mask=["tool_results", "tool_calls"])
    assert kept == ["I look.", "<|im_end|>", "<|im_end|>No.<|im_end|>"]


@pytest.mark.parametrize("template", [QWEN, PLAIN])
def test_the_last_turn_alone(learned, template):
    assert learned(template, THOUGHT, train_on="last", mask=["reasoning"]) == BOTH[1:]
    assert len(learned(template, CALLED, train_on="last")) == 2
    silent = [THOUGHT[0], {**THOUGHT[1], "weight": 0}, *THOUGHT[2:]]
    assert learned(template, silent, mask=["reasoning"]) == BOTH[1:]


WEIGHTED: list[Any] = [
    {"role": "user", "content": "Hi", "weight": 1},
    {"role": "assistant", "content": "Hello.", "weight": 0},
    {"role": "user", "content": "More?"},
    {"role": "assistant", "content": "Well", "weight": 1},
    {"role": "user", "content": "And?", "weight": 1},
    {"role": "assistant", "content": "Bye"},
]


@pytest.mark.parametrize(
    ("template", "end"),
    [(PLAIN, "<|im_end|>"), (QWEN, "<|im_end|>"), (MARKED, "")],
)
def test_the_turns_that_have_a_weight(learned, template, end):
    kept = learned(template, WEIGHTED, train_on="weighted")
    turns = [f"Hi{end}", "Well<|im_end|>", f"And?{end}"]
    # Neighbours without anything between them are one run of labels.
    assert "|".join(kept) in ("|".join(turns), f"{turns[0]}|{turns[1]}{turns[2]}")
    bare = [{**message, "weight": 0} for message in WEIGHTED]
    assert learned(template, bare, train_on="weighted") == []
    unsaid = [{k: v for k, v in m.items() if k != "weight"} for m in WEIGHTED]
    assert learned(template, unsaid, train_on="weighted") == []


def test_results_of_tools_may_have_a_weight(learned):
    chat = [*CALLED[:2], {**CALLED[2], "weight": 1}, CALLED[3]]
    assert learned(PLAIN, chat, train_on="weighted") == ["sunny<|im_end|>"]


def test_weighted_messages_that_a_template_hides_are_refused(learned):
    hidden = "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}"
    hidden += "<|im_end|>{% endif %}{% endfor %}"
    late = "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}"
    late += "<|im_end|>{% endif %}{% endfor %}{{ messages[0].content }}"
    chat = [{"role": "system", "content": "Be brief.", "weight": 1}, WEIGHTED[2]]
    with pytest.raises(InvalidArgumentError, match="message 1 cannot be"):
        learned(hidden, chat, train_on="weighted")
    assert learned(late, chat, train_on="weighted") == ["Be brief."]


def test_what_cannot_be_told_is_refused(learned):
    needy = "{% for m in messages %}{% if m.role == 'tool' and not messages[1]."
    needy += "tool_calls %}{{ raise_exception('no') }}{% endif %}{% endfor %}" + PLAIN
    with pytest.raises(InvalidArgumentError, match="calls of tools of message 2"):
        learned(needy, CALLED, mask=["tool_calls"])


def test_a_template_that_shows_no_content_is_refused(learned):
    of_parts = "{% for m in messages %}{{ m.role }}:{% for part in m.content %}"
    of_parts += "{{ part.text }}{% endfor %}<|im_end|>{% endfor %}"
    with pytest.raises(InvalidArgumentError, match="content of no message"):
        learned(of_parts, WEIGHTED)
    as_json = "{% for m in messages %}{{ m.content | tojson }}<|im_end|>{% endfor %}"
    lines = [{**each, "content": f'Say\n"{each["content"]}"'} for each in THOUGHT[:2]]
    assert learned(as_json, lines) == [r'"Say\n\"Hello.\""<|im_end|>']
    parts = [
        {"role": each["role"], "content": [{"type": "text", "text": each["content"]}]}
        for each in THOUGHT[:2]
    ]
    assert learned(of_parts, parts) == ["assistant:Hello.<|im_end|>"]


def test_settings_are_checked_and_kept(tmp_path):
    tok = pf.Tokenizer(write_chat_tokenizer(tmp_path, PLAIN))
    made = ChatTemplate.of(tok, train_on="last", mask=["tool_calls", "reasoning"])
    assert made.fingerprint != ChatTemplate.of(tok).fingerprint
    again = pickle.loads(pickle.dumps(made))
    assert (again.encode(tok, THOUGHT)[1] == made.encode(tok, THOUGHT)[1]).all()
    assert again.fingerprint == made.fingerprint
    for wrong in ({"train_on": "first"}, {"mask": ["thoughts"]}):
        with pytest.raises(InvalidArgumentError, match="is unknown"):
            ChatTemplate.of(tok, **wrong)


def test_files_and_batches_have_the_labels(tmp_path):
    tok = pf.Tokenizer(write_chat_tokenizer(tmp_path, PLAIN))
    source = tmp_path / "chats.parquet"
    pq.write_table(pa.table({"messages": [THOUGHT]}), source)
    asked: Any = {"messages": "messages", "train_on": "last", "mask": ["reasoning"]}
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, **asked)
    [written] = pq.read_table(done.files[0])["labels"].to_pylist()
    chats = pf.parquet(source, column="messages")
    loader = pf.Loader(
        chats.tokenize(tok, **asked),
        sequences=pf.Documents(max_length=99),
        batch_size=1,
    )
    [read] = next(iter(loader))["labels"].tolist()
    assert read[: len(written)] == written
    learned = [token for token in written if token != -100]
    assert tok.decode(learned) == "Bye<|im_end|>"
    with pytest.raises(InvalidArgumentError, match="mask is for chats"):
        chats.tokenize(tok, mask=["reasoning"])
