"""The table of rooms: which module provides which public name or core extension.

The table is static and read when :mod:`pagefeed` is imported. A room is imported when
it is first used.
"""

from pagefeed.core.wiring import provide

__all__ = ["PROVIDED"]

PROVIDED = {
    "room documents": "pagefeed.documents",
    "room launch": "pagefeed.launch",
    # What is refused, warned of, told and measured.
    "check of settings": "pagefeed.checks:check_options",
    "notes on errors": "pagefeed.checks:explain",
    "warnings of texts": "pagefeed.checks:warn_of_texts",
    "watch over a run": "pagefeed.checks:Watch",
    "warning of accelerators": "pagefeed.launch:warn_of_accelerator",
    "check of learning": "pagefeed.mixing.memory:check_unlearned",
    "meter": "pagefeed.metrics:Meter",
    # Arguments of a loader.
    "balance": "pagefeed.balance:Balance.parse",
    "context_parallel": "pagefeed.context_parallel:ContextParallel.parse",
    "decode": "pagefeed.documents:Decode.parse",
    "global_batch_size": "pagefeed.elastic:Fleet.parse",
    "engine that decodes ahead": "pagefeed.documents:AheadEngine",
    # Columns beside the tokens.
    "aligned columns": "pagefeed.aligned.columns:AlignedColumns.of",
    "check of aligned columns": "pagefeed.aligned:check_aligned_index",
    "metadata columns": "pagefeed.aligned.metadata:Metadata.of",
    # What rows there are.
    "erased rows": "pagefeed.erasure.erased:ErasedRows",
    # Where files lie.
    "storage of URLs": "pagefeed.remote:storage_of_options",
    # What delivers a kind of source.
    "order of balanced ranks": "pagefeed.balance:BalancedOrder",
    "rest of a dataset": "pagefeed.growth:rest_of_dataset",
    "rest of a mixture": "pagefeed.growth.grown_mixture:rest_of_mixture",
    "run of a mixture": "pagefeed.mixture:MixtureRun",
    # What they add to states.
    "records of erased rows": "pagefeed.erasure.erased:records_after",
    "state part cuts": "pagefeed.mixture:CUTS",
    "state part erased": "pagefeed.erasure.erased:ERASED",
    "state part learning": "pagefeed.mixing.memory:LEARNING",
    "state part mixture": "pagefeed.mixture:MIXTURE",
}

provide(PROVIDED)
