"""`--help` of every verb shows commands, and they are ones that the verb takes."""

import argparse
import re
import shlex
import sys
from typing import TypeVar

import pytest

from made.shared_data import ROOT
from pagefeed.cli import VERBS, main, make_parser
from pagefeed.cli.common import parameters

DTypeLike = TypeVar("DTypeLike")
"""Nothing of it can be listed, as of NumPy's alias on some Pythons."""


def examples(description):
    """The commands behind "For example:", their lines joined."""
    _, _, text = description.partition("\nFor example:\n")
    commands: list[str] = []
    for line in text.splitlines():
        if line.startswith("  pagefeed "):
            assert len(line) < 90
            commands.append(line)
        elif line.startswith("      ") and commands:
            assert commands[-1].endswith(" \\"), "a shell reads two commands"
            commands[-1] = commands[-1][:-1] + line
        else:
            assert not line.strip(), line
    return [shlex.split(command) for command in commands]


def verbs_of(parser):
    [found] = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return found.choices


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_that_the_verb_takes(verb):
    parser = make_parser()
    found = examples(verbs_of(parser)[verb].description)
    assert found
    for command in found:
        assert command[:2] == ["pagefeed", verb]
        options = parser.parse_args(command[1:])
        assert options.verb == verb


@pytest.mark.parametrize("verb", ["train", "extend"])
def test_each_verb_of_tokenizers_is_in_an_example(verb):
    found = examples(verbs_of(make_parser())["tokenizer"].description)
    assert any(command[2] == verb for command in found)


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_every_option_with_what_it_does(verb):
    for action in verbs_of(make_parser())[verb]._actions:
        assert action.help, (verb, action.option_strings or action.dest)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("inspct corpus", "pagefeed: error: .*did you mean inspect"),
        (
            "plan x --column a --lenght 512",
            "pagefeed plan: .*--lenght: did you mean --length",
        ),
        (
            "plan x --column a --lenght=512",
            "there is no --lenght: did you mean --length",
        ),
        ("plan x --column a --len 512", "there is no --len: did you mean --length"),
        ("plan x --colum=a --length 512", "there is no --colum: did you mean --column"),
        ("plan corpus --column a --shuffle pages", "did you mean page"),
        ("demo --dta corpus", "did you mean --data"),
        ("tokenizer trian corpus", "pagefeed tokenizer: .*did you mean train"),
        ("explain PF-031 PF-032", "there is no PF-032$"),
    ],
)
def test_mistyped_names_are_told_from_what_was_meant(typed, meant, capsys):
    with pytest.raises(SystemExit) as exited:
        main(typed.split())
    assert exited.value.code == 2
    said, see = capsys.readouterr().err.splitlines()
    assert re.search(meant, said), said
    assert re.fullmatch(r"See pagefeed[a-z ]* --help", see)


def test_verbs_that_take_the_arguments_of_the_run_are_those_that_the_page_names():
    page = (ROOT / "docs" / "explanation" / "tools.md").read_text()
    [sentence] = re.findall(r"^(`inspect`[^.]*\.[^.]*)\.", page, re.MULTILINE)
    names, _, settings = sentence.partition(" take the arguments of the run")
    run = {*re.findall(r"--[a-z-]+", settings)}
    assert len(run) > 5
    taken = {
        verb: {name for action in parser._actions for name in action.option_strings}
        for verb, parser in verbs_of(make_parser()).items()
    }
    assert {verb for verb in VERBS if run <= taken[verb]} == {
        *re.findall(r"`(\w+)`", names)
    }


def test_flags_do_not_ask_what_names_of_other_packages_hold():
    def write(*, dtype: "DTypeLike | None" = None, size: "int | str" = 3) -> None:
        """Write.

        Args:
            dtype: Type of what is written.
            size: Bytes.
        """

    flags = parameters(write, "dtype size")
    assert flags["--dtype"]["type"] is flags["--size"]["type"] is str


def test_version_and_help_import_no_verb(run_python):
    said = run_python(
        "import sys; from pagefeed.cli import main\n"
        "for flag in ('--version', '--help'):\n"
        "    try: main([flag])\n"
        "    except SystemExit as exit: assert not exit.code\n"
        "print(sorted(name for name in sys.modules if name.startswith('pagefeed.cli')))"
    )
    assert said.splitlines()[-1] == "['pagefeed.cli', 'pagefeed.cli.parser']"
    assert all(re.search(rf"^    {verb}\s+[A-Z]", said, re.MULTILINE) for verb in VERBS)


def test_a_verb_that_fails_says_so_and_leaves_others_alone(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pagefeed.cli.plan", None)
    assert main(["plan", "corpus"]) == 1
    said = capsys.readouterr().err
    assert "the verb 'plan' does not start with Python 3." in said
    assert "import of pagefeed.cli.plan halted" in said
    assert main(["explain", "PF-031"]) == 0
