"""The rooms of this package, wired into the core.

A room is imported when the core first calls a function of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pagefeed.core import wiring

if TYPE_CHECKING:
    from pagefeed.core.run import StatePart

__all__ = ["STATE_PARTS", "state_part"]

STATE_PARTS = {
    "cuts": ("pagefeed.mixture", "CUTS"),
    "erased": ("pagefeed.erasure.erased", "ERASED"),
    "learning": ("pagefeed.mixing.memory", "LEARNING"),
    "mixture": ("pagefeed.mixture", "MIXTURE"),
}
"""Parts that rooms add to states, by name."""


def state_part(name: str) -> StatePart | None:
    """Return how a part of states is written and read; None for an unknown name."""
    if name not in STATE_PARTS:
        return None
    module, attribute = STATE_PARTS[name]
    part: StatePart = getattr(import_module(module), attribute)
    return part


wiring.check_settings.provide("pagefeed.checks:check_options")
wiring.check_unlearned.provide("pagefeed.mixing.memory:check_unlearned")
wiring.explain.provide("pagefeed.checks:explain")
wiring.warn_of_accelerator.provide("pagefeed.launch:warn_of_accelerator")
wiring.rank_of_process.provide("pagefeed.launch:rank_of_process")
wiring.container_limits.provide("pagefeed.launch:container_limits")
wiring.make_watch.provide("pagefeed.checks:Watch")
wiring.make_meter.provide("pagefeed.metrics:Meter")
wiring.watch_waits.provide("pagefeed.checks:watch_waits")
wiring.check_ranks.provide("pagefeed.launch:check_ranks")
wiring.parse_balance.provide("pagefeed.balance:Balance.parse")
wiring.parse_context_parallel.provide("pagefeed.context_parallel:ContextParallel.parse")
wiring.parse_decode.provide("pagefeed.documents:Decode.parse")
wiring.parse_fleet.provide("pagefeed.elastic:Fleet.parse")
wiring.cached_index.provide("pagefeed.caches:cached_index")
wiring.stored_counts.provide("pagefeed.caches:stored_counts")
wiring.make_storage.provide("pagefeed.remote:storage_of_options")
wiring.make_metadata.provide("pagefeed.aligned.metadata:Metadata.of")
wiring.make_erased.provide("pagefeed.erasure.erased:ErasedRows")
wiring.state_part.provide("pagefeed.rooms:state_part")
wiring.rest_of_run.provide("pagefeed.growth:rest_of_run")
wiring.records_after.provide("pagefeed.erasure.erased:records_after")
