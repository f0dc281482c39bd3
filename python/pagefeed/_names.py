"""The public names, and the modules that have them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__all__ = ["EXPORTS", "FACES", "imported", "name_as_imported"]

FACES = ("dataset", "errors", "mixing", "prepare", "reports", "run")
"""Modules of results, and of what few people call."""

_NAMES = {
    "_core": ("__version__",),
    "aligned": ("Aligned",),
    "balance": ("Balance",),
    "context_parallel": ("ContextParallel",),
    "core.batches": ("Fields",),
    "core.dataset": ("PageIndex",),
    "core.loader": ("Loader",),
    "core.order": ("Permutation", "Shuffle"),
    "core.sequences": ("Packed", "Windows"),
    "documents": ("Decode", "Documents"),
    "errors": ("PagefeedError",),
    "flat": ("StreamWriter", "mds", "megatron", "stream", "tokens"),
    "images": ("with_images",),
    "infilling": ("Infill",),
    "mixture": ("Mixture", "Stage", "mix"),
    "parquet_files": ("parquet",),
    "prepare": ("TeacherWriter", "convert", "tokenize"),
    "reports": (
        "diagnose",
        "doctor",
        "forecast",
        "inspect",
        "report",
        "smoke",
        "trace",
        "verify",
    ),
    "progress": ("Progress", "show_progress"),
    "tables": ("delta", "iceberg"),
    "tokenizer": ("Tokenizer",),
    "view": ("SequenceView",),
}

EXPORTS = {name: module for module, names in _NAMES.items() for name in names}
"""Module of each public name."""


def imported(name: str) -> Any:
    """Return what has a public name, or the module of that name."""
    if name in FACES:
        return import_module(f"pagefeed.{name}")
    module = import_module(f"pagefeed.{EXPORTS[name]}")
    return module.version() if name == "__version__" else getattr(module, name)


def name_as_imported(module: str) -> None:
    """Make what a module exports name the module that users import it from.

    Reprs, tracebacks and pickles say it.
    """
    exports = sys.modules[module].__dict__
    own = module.removeprefix("pagefeed.")
    for name in exports["__all__"]:
        thing, is_public = exports[name], EXPORTS.get(name) == own
        is_ours = getattr(thing, "__module__", "").startswith("pagefeed.")
        is_here = own in FACES and name not in EXPORTS
        if callable(thing) and is_ours and (is_public or is_here):
            thing.__module__ = "pagefeed" if is_public else module
