"""Names, verbs and flags that earlier versions had, and what to use instead."""

from __future__ import annotations

import sys
from typing import Any

from pagefeed.errors import InvalidArgumentError

REMOVED = {
    "reports.order_statistics": "`benchmarks/order_statistics` of the repository",
    "integrations.ray.PagefeedDatasource": "`map_batches` over a `SequenceView`",
    "TeacherWriter": "pyarrow, as docs/explanation/distillation.md shows",
    "mixing.ADO": "`examples/policies/ado.py` of the repository",
    "mixing.FixedSchedule": "`Stage`, or `examples/policies/fixed_schedule.py`",
    "mixing.ExcessLoss": "`examples/policies/excess_loss.py` of the repository",
    "tokenizer extend --checkpoint": "`pagefeed.prepare.extend_embeddings`",
    "trace --steps": "`pagefeed.reports.replay(loader, steps)`",
    "dataset.StreamDocument": "`dataset[n]`, a row with the numbers and spans",
    "StreamDataset.document": "`dataset[n]`, a row with the numbers and spans",
    "StreamDataset.payload": "the function that undoes `serialize=` of your writer",
    "StreamDataset.check_contents": "checksums of the files, which you keep yourself",
    "verify --statistics": "`benchmarks/order_statistics` of the repository",
    "pagefeed bench": "`pagefeed doctor`, which measures the loader on this storage",
    "reports.bench_storage": "`doctor`, which measures the loader on this storage",
    "pagefeed checklist": "`pagefeed check`",
    "reports.checklist": "`reports.check_nodes`",
    "plan --plot": "`pagefeed report`, which draws the mixture",
    "reports.plot_mixture": "`report`, which draws the mixture",
    "report --metrics": "a tracker, such as Weights & Biases, for a run's metrics",
}
"""Replacement of a public name, a verb, or a flag of a verb."""


def refuse_removed(name: str) -> None:
    """Check that a public name was not removed.

    Raises:
        InvalidArgumentError: If it was; the message says what to use instead.
    """
    if name in REMOVED:
        raise InvalidArgumentError(f"pagefeed has no {name} now: use {REMOVED[name]}")


def refuse_removed_of(module: str) -> None:
    """Let a public module refuse the names that were removed from it."""

    def find(name: str) -> Any:
        refuse_removed(f"{module.removeprefix('pagefeed.')}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    vars(sys.modules[module])["__getattr__"] = find
