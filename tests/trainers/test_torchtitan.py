"""torchtitan: its contract since August 2026, and what does not fit."""

from typing import Any

import pytest

pytest.importorskip("torchtitan", reason="make test-trainers ARGS=torchtitan")

import pagefeed as pf
from pagefeed.integrations.torchtitan import PagefeedDataLoader
from trainers.running import LENGTH, make_loader, refuses_all

FIELDS = pf.Fields(names=("input_ids", "labels", "position_ids"), shifted=True)


def build(made=None, *, make=None, **sizes):
    config = PagefeedDataLoader.Config(make=make or (lambda *_: made))
    sizes = sizes or {"local_batch_size": 4, "seq_len": LENGTH}
    return config.build(dp_rank=0, dp_world_size=1, **sizes)


def test_newer_releases_get_tokens_in_one_row(folder):
    joined = build(make_loader(folder, fields=FIELDS), num_tokens_per_batch=4 * LENGTH)
    inputs, labels = next(iter(joined))
    assert [*inputs["input"].shape] == [*labels.shape] == [4 * LENGTH]


def test_wrong_arguments_are_refused(folder):
    fits = make_loader(folder, fields=FIELDS)
    assert build(fits).loader is fits
    wrong = {
        "make=": lambda: build(make=fits),
        "not a pagefeed Loader": lambda: build("tokens/"),
        "shifted=True": lambda: build(make_loader(folder)),
        "needs labels": lambda: build(make_loader(folder, fields=("input_ids",))),
        "batch_size=4": lambda: build(fits, local_batch_size=8, seq_len=LENGTH),
        "ContextParallel(rank=0, size=2": lambda: build(
            make_loader(
                folder, fields=FIELDS, context_parallel=pf.ContextParallel(0, 2)
            )
        ),
        "set both to the same length": lambda: build(
            fits, local_batch_size=4, seq_len=64
        ),
        "rank 0 of 1": lambda: build(
            make_loader(folder, fields=FIELDS, rank=1, world_size=2)
        ),
        "make=None must be a function": lambda: PagefeedDataLoader.Config().build(
            dp_rank=0, dp_world_size=1
        ),
    }
    config: Any = PagefeedDataLoader.Config
    refuses_all(wrong)
    refuses_all(
        {
            "make=4 must be a function": lambda: config(make=4),
            "start='hre' is unknown": lambda: config(start="hre"),
            "grown='later' is unknown": lambda: config(grown="later"),
            "policy={'web': 1}": lambda: config(policy={"web": 1}),
            "every=0 must be": lambda: config(every=0),
        }
    )
