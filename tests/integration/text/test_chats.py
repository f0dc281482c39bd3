"""Chats rendered as they are read are what `tokenize --messages` writes of them."""

import datetime
import json
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.chats import CHATS, PLAIN, TEMPLATES, TOOLS, write_chat_tokenizer
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LabelWarning,
    StateMismatchError,
    UnsupportedError,
)

MADE = [
    [
        {"role": "user" if turn % 2 == 0 else "assistant", "content": f"{n} {turn} 漢"}
        for turn in range(1 + n % 5)
    ]
    for n in range(60)
]
GIVEN = [*CHATS, *MADE]


@pytest.fixture(params=["lists", "json"])
def source(request, tmp_path):
    chats = GIVEN
    if request.param == "json":
        chats = [json.dumps(chat) for chat in GIVEN]
    table = pa.table({"messages": chats, "number": range(len(chats))})
    path = tmp_path / "chats.parquet"
    pq.write_table(table, path, row_group_size=16, data_page_size=500)
    return path


@pytest.fixture
def tok(tmp_path):
    return pf.Tokenizer(write_chat_tokenizer(tmp_path, TEMPLATES["chatml"]))


def on_the_fly(source, tok, **options):
    data = pf.parquet(source, column="messages")
    return data.tokenize(tok, messages="messages", **options)


def batches(data, sequences=None, **options):
    given = {"shuffle": None, "batch_size": 2, "rank": 0, "world_size": 1} | options
    sequences = sequences or pf.Windows(64, eos=2)
    return [*pf.Loader(data, sequences=sequences, **given)]


def same(left, right):
    assert len(left) == len(right) > 0
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name], name)


@pytest.mark.parametrize(
    "sequences",
    [pf.Windows(64, eos=2), pf.Packed(256), pf.Documents(max_length=48)],
    ids=repr,
)
def test_batches_are_those_of_the_offline_way(sequences, source, tok, tmp_path):
    done = pf.tokenize(
        source, tmp_path / "out", tokenizer=tok, messages="messages", page_size="1MiB"
    )
    offline = pf.parquet(done.folder, column="input_ids", aligned=["labels"])
    fields = ("input_ids", "loss_mask")
    made, expected = (
        batches(data, sequences, fields=fields)
        for data in (on_the_fly(source, tok), offline)
    )
    if isinstance(sequences, pf.Packed):  # What lies together depends on pages.
        made, expected = ([in_any_order(batches)] for batches in (made, expected))
    same(made, expected)
    assert made[0]["labels"].dtype == np.int32


def in_any_order(batches):
    """The numbers of all batches, sorted."""
    names = ("input_ids", "labels", "loss_mask")
    joined = {n: np.concatenate([b[n] for b in batches], axis=None) for n in names}
    return {name: np.sort(values) for name, values in joined.items()}


def test_rows_and_numbers_are_told(source, tok):
    data = on_the_fly(source, tok)
    assert data.aligned[0].column == "labels"
    row = data[0]
    ids, labels = row["messages"], row["labels"]
    assert len(ids) == len(labels) > 0
    assert {label for label in labels if label != -100} <= {*ids}
    assert data.index.num_values == sum(len(one["messages"]) for one in data)
    loader = pf.Loader(
        data, sequences=pf.Windows(64), batch_size=2, rank=0, world_size=1
    )
    [origin, *_] = loader.locate(0, 0)
    assert origin.text_range is None


def test_parts_resumes_and_pickles_are_the_same(source, tok, tmp_path):
    data = pf.parquet(source, column="messages", cache_dir=tmp_path / "cache")
    data = data.tokenize(tok, messages="messages").where("number >= 5")

    def made():
        given = {"rank": 0, "world_size": 1, "batch_size": 2, "seed": 3}
        return pf.Loader(data, sequences=pf.Windows(64), shuffle="row", **given)  # type: ignore[arg-type]

    expected = [*made()]
    half = iter(again := made())
    begun = [next(half) for _ in range(3)]
    rest = [*pickle.loads(pickle.dumps(again))]
    same([*begun, *rest], expected)


def test_a_mixture_takes_both_ways(source, tok, tmp_path):
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, messages="messages")
    offline = pf.parquet(done.folder, column="input_ids", aligned=["labels"])
    parts = {"a": (offline, 1), "b": (on_the_fly(source, tok), 1)}
    mixed = pf.mix(parts, max_steps=9)
    windows = pf.Windows(64)
    loader = pf.Loader(mixed, sequences=windows, batch_size=8, rank=0, world_size=1)
    batch = next(iter(loader))
    assert (batch["labels"] >= 0).any()
    assert (batch["labels"] == -100).any()


def test_a_state_of_another_template_is_refused_as_such(source, tok):
    first, second = (
        pf.Loader(
            on_the_fly(source, tok, chat_template=template),
            sequences=pf.Windows(64),
            batch_size=2,
        )
        for template in (TEMPLATES["chatml"], f"{TEMPLATES['chatml']} ")
    )
    with pytest.raises(StateMismatchError, match="or its chat template, is another"):
        second.load_state_dict(first.state_dict())


def test_a_row_that_is_no_chat_is_named(tok, tmp_path):
    chats = [json.dumps(CHATS[0]), None, "[1]"]
    pq.write_table(pa.table({"messages": chats}), tmp_path / "a.parquet")
    data = on_the_fly(tmp_path / "a.parquet", tok)
    with pytest.raises(
        CorruptFileError, match=r"a\.parquet.*row 2 .*a message is an obj"
    ):
        batches(data)
    pq.write_table(pa.table({"messages": chats[:2]}), tmp_path / "a.parquet")
    assert on_the_fly(tmp_path / "a.parquet", tok)[1]["labels"] == []


def test_what_holds_no_chats_is_refused(tok, tmp_path):
    pq.write_table(pa.table({"messages": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(UnsupportedError, match=r"messages.*Int64"):
        batches(on_the_fly(tmp_path / "a.parquet", tok))


def test_arguments_are_told_early(source, tok):
    data = pf.parquet(source, column="messages")
    with pytest.raises(InvalidArgumentError, match="another column"):
        data.tokenize(tok, messages="mesages")
    with pytest.raises(InvalidArgumentError, match="give messages="):
        data.tokenize(tok, chat_template=PLAIN)
    with pytest.raises(InvalidArgumentError, match="no chat template"):
        data.tokenize(tok, messages="messages", chat_template="{% if %}")
    with pytest.raises(InvalidArgumentError, match="must be a datetime"):
        data.tokenize(tok, messages="messages", today="today")  # type: ignore[arg-type]


def test_the_date_is_said(source, tok):
    dated = "{{ strftime_now('%Y') }} " + TEMPLATES["chatml"]
    with pytest.raises(InvalidArgumentError, match=r"today=datetime\.date"):
        on_the_fly(source, tok, chat_template=dated)
    one, other = (
        on_the_fly(source, tok, chat_template=dated, today=datetime.date(year, 1, 1))
        for year in (2024, 2025)
    )
    assert tok.decode(one[0]["messages"]).startswith("2024 ")
    assert one.fingerprint != other.fingerprint


@pytest.fixture
def both(tok, tmp_path):
    """Ids and labels of rows, on the fly and offline, which are the same."""

    def made(path, column, tok=tok, **options):
        data = pf.parquet(path, column=column).tokenize(tok, **options)
        column = {} if "messages" in options else {"column": column}
        folder = tmp_path / f"out{len([*tmp_path.iterdir()])}"
        done = pf.tokenize(path, folder, tokenizer=tok, **column, **options)
        rows = pq.read_table(done.files[0]).to_pylist()
        names = ["input_ids", "labels"] if data.aligned else ["input_ids"]
        found = [{**row, "input_ids": row[data.column]} for row in data]
        found = [{name: row[name] for name in names} for row in found]
        assert found == rows
        return rows

    return made


def test_tools_and_roles_both_ways(both, tok, tmp_path):
    template = (
        "{% if tools %}{{ tools[0].function.name }}{% endif %}" + TEMPLATES["chatml"]
    )
    named = [{"from": "human", "value": "hi"}, {"from": "model", "value": "yes"}]
    rows = {
        "conversations": [named, named, None],
        "tools": [json.dumps(TOOLS), None, None],
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    options: dict[str, Any] = {
        "messages": "conversations",
        "tools": "tools",
        "roles": {"model": "assistant"},
        "chat_template": template,
    }
    first, second, third = both(tmp_path / "a.parquet", "conversations", **options)
    assert tok.decode(first["input_ids"]).startswith("weather<|im_start|>user")
    assert tok.decode(second["input_ids"]).startswith("<|im_start|>user")
    assert tok.decode([n for n in first["labels"] if n >= 0]) == "yes<|im_end|>"
    assert third == {"input_ids": [], "labels": []}
    records = [{"conversations": named, "tools": TOOLS}, {"conversations": named}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    done = pf.tokenize(
        tmp_path / "a.jsonl", tmp_path / "lines", tokenizer=tok, **options
    )
    assert pq.read_table(done.files[0]).to_pylist() == [first, second]


@pytest.mark.parametrize("role", ["Assistant", "model", "user"])
def test_chats_that_teach_nothing_are_refused(role, tok, tmp_path):
    said = [{"role": "user", "content": "hi"}, {"role": role, "content": "yes"}]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"messages": [said] * 3}), path)
    data = on_the_fly(path, tok)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="3 of 3 chats teach nothing"):
            len(data.index)
    options: dict[str, Any] = {"tokenizer": tok, "messages": "messages"}
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="roles="):
            pf.tokenize(path, tmp_path / "out", **options)
    with pytest.warns(LabelWarning, match="3 of 3 chats teach nothing"):
        assert len(on_the_fly(path, tok, require_labels=False).index)
    with pytest.warns(LabelWarning, match="3 of 3 chats teach nothing"):
        done = pf.tokenize(path, tmp_path / "out", **options, require_labels=False)
    assert (done.num_documents, done.num_learned) == (3, 0)


def test_some_chats_that_teach_nothing_are_warned_of(source, tok, tmp_path):
    silent = sum(all(m["role"] != "assistant" for m in chat) for chat in GIVEN)
    told = f"{silent} of {len(GIVEN)} chats teach nothing"
    data = pf.parquet(source, column="messages", cache_dir=tmp_path / "cache")
    for _ in range(2):  # Counted, and as it was kept.
        with pytest.warns(LabelWarning, match=told):
            len(data.tokenize(tok, messages="messages").index)
    with pytest.warns(LabelWarning, match=told):
        done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, messages="messages")
    assert done.num_learned == len(GIVEN) - silent


SEPARATED = [pf.Packed(256, eos=7), pf.Windows(64, eos=7), pf.Packed(256, eos=7, bos=5)]


@pytest.mark.parametrize("sequences", SEPARATED, ids=repr)
def test_eos_behind_chats_is_learned_if_asked_for(sequences, source, tok, tmp_path):
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, messages="messages")
    offline = pf.parquet(done.folder, column="input_ids", aligned=["labels"])
    options: dict[str, Any] = {"fields": ("input_ids", "loss_mask"), "drop_last": False}
    for data in (on_the_fly(source, tok), offline):
        with pytest.warns(LabelWarning, match="eos=7 .* learn_eos"):
            plain = batches(data, sequences, **options)
        no, yes = (
            batches(data, replace(sequences, learn_eos=learned), **options)
            for learned in (False, True)
        )
        same(no, plain)
        num_ends = 0
        for one, other in zip(no, yes, strict=True):
            is_end = (one["input_ids"] == 7) & (one["labels"] == -100)
            num_ends += is_end.sum()
            expected = np.where(is_end, 7, one["labels"])
            np.testing.assert_array_equal(other["labels"], expected)
            np.testing.assert_array_equal(other["loss_mask"], expected != -100)
        assert num_ends == len(GIVEN)


def test_eos_of_the_template_is_not_warned_of(source, tok):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=LabelWarning, message=".*eos.*")
        batches(on_the_fly(source, tok), pf.Windows(64, eos=tok.eos))
        batches(on_the_fly(source, tok), pf.Windows(64))


def test_learn_eos_is_checked(source, tok):
    with pytest.raises(InvalidArgumentError, match="give eos="):
        pf.Packed(64, learn_eos=True)
    with pytest.raises(InvalidArgumentError, match="learn_eos"):
        pf.Windows(64, eos=2, learn_eos="yes")  # type: ignore[arg-type]
    plain = pf.parquet(source, column="messages").tokenize(tok, text="{number}")
    with pytest.raises(InvalidArgumentError, match="data that have labels"):
        batches(plain, pf.Windows(8, eos=2, learn_eos=False))
