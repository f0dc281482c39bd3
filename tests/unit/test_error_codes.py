"""Every error has a code of its own, and its code leads to causes and remedies."""

import json
import pickle

import pytest

from pagefeed import errors
from pagefeed.cli import main
from pagefeed.errors import CorruptFileError, InvalidArgumentError, PagefeedError

KINDS = [
    kind
    for name in errors.__all__
    if issubclass(kind := getattr(errors, name), PagefeedError)
]
LEAVES = [kind for kind in KINDS if kind is not PagefeedError]


def test_codes_differ():
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes) > 20


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_each_has_causes_and_remedies(kind, capsys):
    assert "code" in vars(kind)
    assert main(["explain", f"[{kind.code}]"]) == 0
    printed = capsys.readouterr().out
    assert kind.__name__ in printed
    cause, _, remedy = printed.partition("Cause:")[2].partition("Remedy:")
    assert cause.strip()
    assert remedy.strip()


def test_messages_end_with_the_code_of_what_was_raised():
    inner = CorruptFileError("a.parquet: no footer")
    assert str(inner) == "a.parquet: no footer [PF-031]"
    outer = InvalidArgumentError(f"nothing to read: {inner}")
    assert str(outer) == "nothing to read: a.parquet: no footer [PF-010]"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_message_ends_with_its_code(kind):
    assert str(kind("what was found")) == f"what was found [{kind.code}]"


def test_names_are_codes_too(capsys):
    assert main(["explain", "stalefileerror", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "PF-041"


def test_all_are_listed(capsys):
    assert main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(KINDS)


@pytest.mark.parametrize(
    ("code", "near"),
    [("PF-31", "PF-031"), ("StaleFileEror", "StaleFileError"), ("", "PF-010 to")],
)
def test_others_are_refused(code, near, capsys):
    assert main(["explain", code]) == 2
    assert f"expected {near}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_message_holds_a_key_or_steers_a_terminal(kind):
    url = "https://host/a.parquet?signature=hidden%2F=&more=hidden"
    sent = kind(f"{url}: no \x1b[2J\u202e\a; see '{url}', ({url}).", "a\nb\tc")
    error = pickle.loads(pickle.dumps(sent.at(file=url)))
    assert str(error) == (
        "https://host/a.parquet: no \\x1b[2J\\u202e\\x07; "
        "see 'https://host/a.parquet', "
        f"(https://host/a.parquet).\na\\nb\\tc [{kind.code}]"
    )
    assert error.file == "https://host/a.parquet"
    assert "hidden" not in repr(error)


def test_local_names_are_shown_whole():
    assert (
        str(CorruptFileError("/a?b/c: bad").at(file="/a?b")) == "/a?b/c: bad [PF-031]"
    )
