"""Documents with too few or too many tokens are left out of what is tokenized."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.chats import PLAIN, write_chat_tokenizer
from made.texts_made import make_texts, make_tokenizer
from pagefeed.cli import main
from pagefeed.errors import EmptySelectionError, InvalidArgumentError

TEXTS: list[str | None] = [*make_texts(), None, "", "one"]
WIDE: dict[str, Any] = {"num_threads": 2, "shard_size": "20KiB", "keep": ["id"]}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("inputs") / "in.parquet"
    table = {"text": TEXTS, "id": [*range(len(TEXTS))]}
    pq.write_table(pa.table(table), path, row_group_size=50)
    return path


def rows_of(done: pf.prepare.Tokenized) -> list[dict[str, Any]]:
    return [row for file in done.files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize("bounds", [(1, None), (None, 40), (5, 40), (5, 5)])
@pytest.mark.parametrize("text", [None, "{text}", "of a function"])
def test_documents_within_bounds_stay_as_they_are(inputs, tmp_path, bounds, text):
    if text == "of a function":
        text = _text_of
    tok = make_tokenizer()
    given: dict[str, Any] = {"tokenizer": tok, "text": text, "max_rejected": 1.0} | WIDE
    whole = rows_of(pf.tokenize(inputs, tmp_path / "whole", **given))
    least, most = bounds
    done = pf.tokenize(
        inputs, tmp_path / "some", **given, min_tokens=least, max_tokens=most
    )
    lengths = np.array([len(row["input_ids"]) for row in whole])
    short = lengths < (least or 0)
    long = lengths > (most or 1 << 40)
    kept = np.flatnonzero(~(short | long)).tolist()
    assert rows_of(done) == [whole[row] for row in kept]
    counts = {
        f"fewer than {least} tokens": int(short.sum()),
        f"more than {most} tokens": int(long.sum()),
    }
    expected = {reason: n for reason, n in counts.items() if n}
    assert done.left_out == expected
    assert done.num_documents == len(kept)
    assert done.num_tokens == lengths[kept].sum()
    assert done.num_rejected == 0
    assert json.loads(Path(done.manifest).read_text())["left_out"] == expected
    again = pf.tokenize(
        inputs, tmp_path / "some", **given, min_tokens=least, max_tokens=most
    )
    assert again == done


def _text_of(row: dict[str, Any]) -> str | None:
    return row["text"]


def test_labels_of_chats_go_with_their_tokens(tmp_path):
    chat_tokenizer = pf.Tokenizer(write_chat_tokenizer(tmp_path, PLAIN))
    chats = [
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "w " * n}]
        for n in range(30)
    ]
    with open(tmp_path / "in.jsonl", "w") as lines:
        lines.writelines(json.dumps({"messages": chat}) + "\n" for chat in chats)
    given: dict[str, Any] = {"tokenizer": chat_tokenizer, "messages": "messages"}
    whole = rows_of(pf.tokenize(tmp_path / "in.jsonl", tmp_path / "whole", **given))
    median = int(np.median([len(row["input_ids"]) for row in whole]))
    done = pf.tokenize(
        tmp_path / "in.jsonl", tmp_path / "some", **given, max_tokens=median
    )
    some = [row for row in whole if len(row["input_ids"]) <= median]
    assert 0 < len(some) < len(whole)
    assert rows_of(done) == some
    learned = [any(label != -100 for label in row["labels"]) for row in some]
    assert done.num_learned == sum(learned)


def test_texts_that_are_not_utf8_are_rejected_and_not_left_out(tmp_path):
    texts = [b"one two three", b"\xff\xfe", b"one", b"one two three four"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    done = pf.tokenize(
        tmp_path / "in.parquet",
        tmp_path / "out",
        tokenizer=make_tokenizer(),
        on_error="skip",
        max_rejected=1,
        min_tokens=2,
    )
    assert done.reasons == {"it is not UTF-8": 1}
    assert sum(done.left_out.values()) + done.num_documents == 3


def test_bounds_are_checked(inputs, tmp_path, capsys):
    given: dict[str, Any] = {"tokenizer": make_tokenizer()}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"min_tokens": 0}, "min_tokens=0"),
        ({"max_tokens": "4"}, "max_tokens='4'"),
        ({"min_tokens": 9, "max_tokens": 3}, "min_tokens=9 is more than max_tokens=3"),
    ]
    for bounds, said in wrong:
        with pytest.raises(InvalidArgumentError, match=said):
            pf.tokenize(inputs, tmp_path / "out", **given, **bounds)
    with pytest.raises(
        EmptySelectionError, match=r"are left out: .* fewer than 100000"
    ):
        pf.tokenize(inputs, tmp_path / "none", **given, min_tokens=100_000)
    (tmp_path / "t.json").write_text(make_tokenizer().to_json())
    command = ["tokenize", str(inputs), "--tokenizer", str(tmp_path / "t.json")]
    command += ["--output", str(tmp_path / "verb"), "--min-tokens", "5"]
    assert main(command) == 0
    assert "left out: fewer than 5 tokens" in capsys.readouterr().out
