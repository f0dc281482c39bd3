"""Warnings about a run, each given once."""

from __future__ import annotations

from collections.abc import Mapping

from pagefeed.core._base import format_bytes, warn_user
from pagefeed.core.batches import LoaderSettings
from pagefeed.core.run import Route, Run
from pagefeed.core.sequences import JoinedIndex
from pagefeed.errors import (
    BalanceWarning,
    PaddingWarning,
    PagefeedWarning,
    ReloadWarning,
)

TELLING = {"labels", "loss_mask", "attention_mask", "document_ids"}
"""Fields that mark padding, or take its loss away."""

LEAST_SHARE = 0.001
"""Less padding is not worth a word: the last window of a large dataset."""

MIN_RELOADS = 256
"""Fewer pages that are read again are not worth a word."""

RELOAD_SHARE = 0.1
"""Share of repeated reads from which on a warning is given."""

MIN_TIMES = 2
"""Loads of each page an epoch from which on a warning is given."""

TOKEN_BYTES = 2
"""Bytes of a token in a page in memory, at least."""

LEAST_ACCUMULATED = 4
"""Steps of one sequence a rank that span all lengths together."""


class Watch:
    """Warns of settings that waste a run.

    It warns of training on padding, of a loop that never ends, of pages that are read
    again and again, and of steps whose sequences are all about as long.

    Args:
        run: The run.
        settings: Settings of the loader.
    """

    def __init__(self, run: Run, settings: LoaderSettings) -> None:
        self._run, fields = run, settings.fields
        self._memory = settings.memory
        # Columns of the files may distinguish padding, or hold the lengths of rows.
        given = {column.column for column in run.datasets[0].aligned}
        tells = TELLING & ({*fields.names} | given - {"document_ids"})
        self._looks_at_padding = not tells and run.sequences.delivers == "tokens"
        self._looks_at_end = run.epochs is not None
        self._looks_at_reloads = True
        # With buckets or batches by length, the user asked for sequences of like cost.
        balance = run.balance
        self._looks_at_balance = (
            balance is not None
            and balance.bucket == run.batch_size == 1 < run.world_size
            and not run.takes_batches
        )

    def begin(self, route: Route, accumulated: int) -> None:
        """Check an iteration that begins.

        Args:
            route: The iteration.
            accumulated: Number of steps whose gradients a framework accumulates.
        """
        if self._looks_at_end and route.end is None:
            self._looks_at_end = False
            warn_user(
                "this mixture never ends, and so a loop over it does not either: give "
                "pagefeed.mix a stop, max_steps or max_tokens; or give the Loader "
                "epochs=None if an endless loop is what you want",
                PagefeedWarning,
            )
        if self._looks_at_balance and accumulated < LEAST_ACCUMULATED:
            self._looks_at_balance = False
            warn_user(
                "balance= with one sequence a rank gives the sequences of a step about "
                "equal lengths, and steps unequal ones. "
                "Frameworks tell the loader how many steps' "
                f"gradients they accumulate, here {accumulated}: accumulate four or "
                "more, give batch_size=4 or more, or leave balance out. A loop of your "
                "own that accumulates may ignore pagefeed.errors.BalanceWarning",
                BalanceWarning,
            )
        if not self._looks_at_padding:
            return
        self._looks_at_padding = False
        share = _padding_share(self._run.index, route)
        if share >= LEAST_SHARE:
            warn_user(
                f"{share:.1%} of the tokens of an epoch are padding, and no field "
                "marks it: a loss over input_ids alone learns it. Leave fields= out, "
                "or add 'labels', 'loss_mask', 'attention_mask' or 'document_ids'. "
                "Windows with tail='drop' and join='dataset' have no padding",
                PaddingWarning,
            )

    def look(self, stats: Mapping[str, float]) -> None:
        """Look at the engine's counters."""
        again, loads = stats["pages_reloaded"], stats["pages_loaded"]
        if not self._looks_at_reloads or loads < MIN_RELOADS:
            return
        if self._run.shuffle.is_exact:
            self._looks_at_reloads = False
            self._warn_of_rows()
        elif again >= max(MIN_RELOADS, RELOAD_SHARE * loads):
            self._looks_at_reloads = False
            warn_user(
                f"{again:.0f} of {loads:.0f} reads of pages so far were of pages given "
                f"up for lack of memory: memory={self._memory} bytes is too little for "
                "this order; give more, or shuffle with a smaller window (`pagefeed "
                "plan` says how much is needed, and how often pages are read)",
                ReloadWarning,
            )

    def _warn_of_rows(self) -> None:
        """Warn of an exact shuffle that loads pages many times an epoch."""
        datasets = self._run.datasets
        num_pages = sum(dataset.spans.num_pages for dataset in datasets)
        num_bytes = TOKEN_BYTES * sum(data.spans.page_values for data in datasets)
        missing = 1 - self._memory / max(1, num_bytes)
        times = missing * self._run.num_sequences / max(1, num_pages)
        if times >= MIN_TIMES:
            warn_user(
                "shuffle='row' loads a page for nearly every sequence, and so each "
                f"page about {times:.0f} times an epoch: memory={self._memory} "
                f"bytes does not hold all pages, {format_bytes(num_bytes)} or more. "
                "Give more memory; or shuffle='page', with passes=2 or more for a "
                "finer mix; or convert the data to flat files, of which a sequence is "
                "read alone",
                ReloadWarning,
            )


def _padding_share(index: JoinedIndex, route: Route) -> float:
    """Return the share of padding in the batches of an iteration, on all ranks.

    Args:
        index: The sequences.
        route: The iteration. If it never ends, the share in its sequences is returned.
    """
    if not index.num_sequences or not index.length:
        return 0.0
    in_sequence = index.num_padding_tokens / (index.num_sequences * index.length)
    if route.end is None or route.drop_last or route.end <= route.start:
        return in_sequence
    sequences = route.end - route.start
    rows = -(-sequences // route.step_sequences) * route.step_sequences
    return 1 - (1 - in_sequence) * sequences / rows
