r"""Try a run before it begins: some steps of the real plan and a tiny model.

Checks the rate, token ids, labels, the first loss against ln(vocabulary), whether the
loss falls, NaN, the ranks' plans and token counts, a stop and resume, and memory. With
--tokenizer, it checks that this tokenizer made the tokens. --plan compares the plan
with the one that another machine printed. Needs torch for the loss.

Exits with 0, or with 1 if something is wrong or cannot be read.

For example:
  pagefeed smoke train.py:make_loader --world-size 8 --steps 50
  pagefeed smoke corpus/ --column input_ids --length 2048 --vocab-size 32000 \
      --tokenizer tokenizer.json --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pagefeed.cli.common import (
    RUN,
    TEXT_TOKENIZER,
    arg,
    make_sound_loader,
    make_text_tokenizer,
    named_function,
    parameters,
    same_named,
    tell,
)
from pagefeed.core.batches import Fields
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports import smoke as try_run

ARGUMENTS = RUN | {
    **parameters(
        try_run, "steps vocab_size plan target_rate flops_per_token peak_flops"
    ),
    **TEXT_TOKENIZER,
    "--rank": arg(0, "the rank whose batches are tried"),
    "--model": arg(str, "makes a torch module from vocab_size", metavar="FILE.py:NAME"),
}


def run(options: argparse.Namespace) -> int:
    """Try and report; 1 if something is wrong."""
    fields = Fields(names=("input_ids", "labels"), shifted=True)
    loader, damage = make_sound_loader(options, fields=fields, vocab_size=None)
    tokenizer = make_text_tokenizer(options, loader.dataset)
    vocab_size: int | None = options.vocab_size
    if vocab_size is None and tokenizer is not None:
        vocab_size = tokenizer.vocab_size
    model = _model(options.model, vocab_size) if options.model else None
    given = {"vocab_size": vocab_size, "tokenizer": tokenizer, "model": model}
    trial = try_run(loader, **same_named(options, try_run) | given)
    damage += trial.damage
    ok = trial.ok and not damage
    report = asdict(trial) | {"ok": ok}
    return tell(options, report, [trial], damage, ok=ok)


def _model(name: str, vocab_size: int | None) -> Any:
    if vocab_size is None:
        raise InvalidArgumentError(f"--model {name} needs --vocab-size")
    return named_function(name, "--model")(vocab_size)
