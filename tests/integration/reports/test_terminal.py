"""What data holds does not steer the terminal: verbs show it escaped."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagefeed.cli import main

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b5m\u202e\r"
STEERING = re.compile("[^\n\x20-\x7e]")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Column names, values, a writer's record and a file name hold escapes."""
    table = pa.table(
        {
            "input_ids": pa.array([[row] * 9 for row in range(50)]),
            f"id{EVIL}": [f"{row}{EVIL}" for row in range(50)],
        }
    )
    folder = tmp_path / f"corpus{EVIL}"
    folder.mkdir()
    told = {b"pagefeed.tokenizer": EVIL.encode()}
    pq.write_table(table.replace_schema_metadata(told), folder / f"a{EVIL}.parquet")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["head", "--rows", "2", "--columns", f"id{EVIL}"],
        ["trace", "--length", "8", "--step", "0"],
        ["plan", "--length", "8"],
        ["verify", "--length", "8"],
        ["index"],
        ["head", "--columns", f"missing{EVIL}"],
        ["nothing"],
    ],
)
def test_verbs(corpus: Path, capsys, arguments: list[str]):
    verb, *rest = arguments
    try:
        main([verb, str(corpus), "--column", "input_ids", *rest])
    except SystemExit as end:
        assert end.code == 2  # noqa: PT017 - argparse: there is no such verb
    out, err = capsys.readouterr()
    assert not STEERING.findall(out + err)
    if verb not in ("verify", "plan", "index", "nothing"):
        assert r"\x1b[2J\x1b]0;owned\x07\x9b5m\u202e\r" in out + err


def test_damage(corpus: Path, capsys):
    path = next(corpus.iterdir())
    (corpus / f"b{EVIL}.parquet").write_bytes(b"PAR1" + path.read_bytes()[4:-9])
    for verb in ("inspect", "head"):
        assert main([verb, str(corpus), "--column", "input_ids"]) == 1
        out, err = capsys.readouterr()
        assert not STEERING.findall(out + err)
        assert r"DAMAGED: CorruptFileError" in err
        assert r"b\x1b[2J" in err


def test_names_that_are_no_text(corpus: Path, capsys):
    path = next(corpus.iterdir())
    path.rename(path.with_name("a\udcff.parquet"))
    run = ["--column", "input_ids", "--length", "8", "--step", "0"]
    assert main(["trace", str(corpus), *run]) == 2
    out, err = capsys.readouterr()
    assert r"a\udcff.parquet' is not a name in UTF-8" in out + err
