"""Arguments that describe a mixture."""

from __future__ import annotations

import argparse

from pagefeed.cli.common.formats import open_parquet
from pagefeed.cli.common.pairs import pairs_of
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import Mixture, Stage, mix

__all__ = ["configure_mixture", "make_mixture"]


def configure_mixture(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a mixture."""
    group = parser.add_argument_group("a mixture of datasets, in place of PATH")
    group.add_argument(
        "--mix",
        nargs="+",
        metavar="NAME=PATH[:WEIGHT]",
        help="datasets and their weights; without weights by size and temperature",
    )
    group.add_argument(
        "--stage",
        nargs="+",
        action="append",
        default=[],
        metavar="KEY=NUMBER",
        help="later weights: step=N or tokens=N, NAME=WEIGHT and so on, anneal=N",
    )
    group.add_argument("--temperature", type=float, help="1 is proportional (1)")
    group.add_argument("--unit", default="tokens", choices=["tokens", "sequences"])
    group.add_argument(
        "--max-epochs", nargs="+", default=[], metavar="NAME=N", help="caps"
    )
    group.add_argument("--stop", choices=["first_exhausted", "all_exhausted"])
    group.add_argument("--max-steps", type=_whole)
    group.add_argument("--max-tokens", type=_whole, metavar="N", help="such as 1e9")


def make_mixture(options: argparse.Namespace) -> Mixture:
    """Make the mixture.

    Raises:
        InvalidArgumentError: If an argument cannot be read.
    """
    parts = {}
    for name, place in pairs_of(options.mix, "--mix NAME=PATH[:WEIGHT]"):
        path, colon, weight = place.rpartition(":")
        weighted = bool(colon) and _is_number(weight)
        dataset = open_parquet(options, path if weighted else place)
        parts[name] = (dataset, float(weight)) if weighted else dataset
    caps = pairs_of(options.max_epochs, "--max-epochs NAME=N")
    return mix(
        parts,
        temperature=options.temperature,
        unit=options.unit,
        stages=[_stage(words) for words in options.stage],
        max_epochs={name: _count(count) for name, count in caps},
        stop=options.stop,
        max_steps=options.max_steps,
        max_tokens=options.max_tokens,
    )


def _stage(words: list[str]) -> Stage:
    given = dict(pairs_of(words, "--stage step=N NAME=WEIGHT ..."))
    starts = {
        name: _count(given.pop(key))
        for key, name in (("step", "start_step"), ("tokens", "start_tokens"))
        if key in given
    }
    anneal = _count(given.pop("anneal", "0"))
    weights = {name: _number(weight) for name, weight in given.items()}
    return Stage(weights=weights, anneal=anneal, **starts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(text: str) -> int:
    try:
        return _count(text)
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number(text: str) -> float:
    if not _is_number(text):
        raise InvalidArgumentError(f"{text!r} is not a number")
    return float(text)


def _count(text: str) -> int:
    number = _number(text)
    if not number.is_integer():
        raise InvalidArgumentError(f"{text!r} is not a whole number, such as 1e9")
    return int(number)
