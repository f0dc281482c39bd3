"""pagefeed: LLM training batches straight from Parquet.

Loaders read any page of any file at random. They shuffle globally, cut rows into
sequences, serve every rank, and resume at the exact sample. Nothing is converted,
copied or cached first.

A name is imported when it is first used, so that `import pagefeed` costs little. Result
types and less common functions are in `pagefeed.reports`, `pagefeed.prepare`,
`pagefeed.dataset` and `pagefeed.run`. Policies that learn mixture weights are in
`pagefeed.mixing`.
"""

import logging as _logging
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from pagefeed._names import EXPORTS as _EXPORTS
from pagefeed._names import FACES as _FACES
from pagefeed._names import imported as _imported
from pagefeed._names import near_name as _near_name
from pagefeed.rooms import PROVIDED as _PROVIDED  # noqa: F401 - it says where they are

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
    "prepare": ("convert", "tokenize"),
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
    "uncounted": ("TextLoader",),
    "view": ("SequenceView",),
}

_EXPORTS.update({name: module for module, names in _NAMES.items() for name in names})

if _TYPE_CHECKING:  # The same names, for those who read types.
    __version__: str
    from pagefeed import errors, mixing
    from pagefeed.aligned import Aligned
    from pagefeed.balance import Balance
    from pagefeed.context_parallel import ContextParallel
    from pagefeed.core.batches import Fields
    from pagefeed.core.dataset import PageIndex
    from pagefeed.core.loader import Loader
    from pagefeed.core.order import Permutation, Shuffle
    from pagefeed.core.sequences import Packed, Windows
    from pagefeed.documents import Decode, Documents
    from pagefeed.errors import PagefeedError
    from pagefeed.flat import StreamWriter, mds, megatron, stream, tokens
    from pagefeed.images import with_images
    from pagefeed.infilling import Infill
    from pagefeed.mixture import Mixture, Stage, mix
    from pagefeed.parquet_files import parquet
    from pagefeed.prepare import convert, tokenize
    from pagefeed.progress import Progress, show_progress
    from pagefeed.reports import (
        diagnose,
        doctor,
        forecast,
        inspect,
        report,
        smoke,
        trace,
        verify,
    )
    from pagefeed.tables import delta, iceberg
    from pagefeed.tokenizer import Tokenizer
    from pagefeed.uncounted import TextLoader
    from pagefeed.view import SequenceView

__all__ = [
    "Aligned",
    "Balance",
    "ContextParallel",
    "Decode",
    "Documents",
    "Fields",
    "Infill",
    "Loader",
    "Mixture",
    "Packed",
    "PageIndex",
    "PagefeedError",
    "Permutation",
    "Progress",
    "SequenceView",
    "Shuffle",
    "Stage",
    "StreamWriter",
    "TextLoader",
    "Tokenizer",
    "Windows",
    "convert",
    "delta",
    "diagnose",
    "doctor",
    "errors",
    "forecast",
    "iceberg",
    "inspect",
    "mds",
    "megatron",
    "mix",
    "mixing",
    "parquet",
    "report",
    "show_progress",
    "smoke",
    "stream",
    "tokenize",
    "tokens",
    "trace",
    "verify",
    "with_images",
]

# What is not asked for is not printed: whoever wants the log adds a handler.
_logging.getLogger("pagefeed").addHandler(_logging.NullHandler())

if not _TYPE_CHECKING:  # Where any name would be one.

    def __getattr__(name: str) -> _Any:
        """Import what has this name, when it is first used."""
        if name not in _EXPORTS and name not in _FACES:
            from pagefeed._removed import refuse_removed

            refuse_removed(name)
            remedy = "" if name[0] == "_" else _remedy(name)
            raise AttributeError(f"module 'pagefeed' has no attribute {name!r}{remedy}")
        value = globals()[name] = _imported(name)
        return value


def _remedy(name: str) -> str:
    """Return what to do about an unknown name, as the end of a message."""
    if _find_spec(f"pagefeed.{name}") is not None:
        return f": import pagefeed.{name} first"
    return _near_name(name, __all__)


def __dir__() -> list[str]:
    """Return the public names, including those not imported yet, and no others."""
    return sorted(
        {*(name for name in globals() if name[:2] == "__"), *__all__, *_FACES}
    )
