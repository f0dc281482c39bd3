"""Train a tokenizer on texts of Parquet, or extend one for a domain.

For example:
  pagefeed tokenizer train web/ --column text --vocab-size 32000 --output tokenizer.json
  pagefeed tokenizer extend tokenizer.json law/ --column text --new-tokens 2000 \
--output law.json
"""

from __future__ import annotations

import argparse

from pagefeed.cli.common import add_verb
from pagefeed.cli.tokenizer import extend, train

__all__ = ["configure", "run"]

_VERBS = {
    "train": (train, "train one on texts sampled from Parquet"),
    "extend": (extend, "add what the texts of a domain are made of"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of what can be done."""
    verbs = parser.add_subparsers(
        dest="what", metavar="WHAT", required=True, help="what to do"
    )
    for name, (module, summary) in _VERBS.items():
        add_verb(verbs, name, summary, module)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    module, _ = _VERBS[options.what]
    return int(module.run(options))
