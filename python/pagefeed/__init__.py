"""pagefeed: LLM training batches straight from Parquet.

Any page of any file at random, globally shuffled, cut into sequences, on every rank,
resumable to the exact sample. Nothing is converted, copied or cached first.

Results, and what few people call, lie in `pagefeed.reports`, `pagefeed.prepare`,
`pagefeed.dataset` and `pagefeed.run`; mixtures that learn in `pagefeed.mixing`.
"""

import logging as _logging

from pagefeed import dataset as _dataset
from pagefeed import errors, mixing
from pagefeed import prepare as _prepare
from pagefeed import reports as _reports
from pagefeed import run as _run
from pagefeed._base import Progress, show_progress
from pagefeed._core import version as _version
from pagefeed.batches import ContextParallel, Decode, Fields
from pagefeed.dataset import (
    Aligned,
    Infill,
    PageIndex,
    StreamWriter,
    delta,
    iceberg,
    mds,
    megatron,
    parquet,
    stream,
    tokens,
)
from pagefeed.errors import PagefeedError
from pagefeed.loader import Loader
from pagefeed.mixture import Mixture, Stage, mix
from pagefeed.order import Balance, Permutation, Shuffle
from pagefeed.prepare import TeacherWriter, convert, tokenize
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
from pagefeed.sequences import Documents, Packed, Windows
from pagefeed.tokenizer import Tokenizer
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
    "TeacherWriter",
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
]

__version__ = _version()

# What is not asked for is not printed: whoever wants the log adds a handler.
_logging.getLogger("pagefeed").addHandler(_logging.NullHandler())

# Reprs and tracebacks name things as users import them.
for _face in (_dataset, _run, mixing, _reports, _prepare):
    for _name in _face.__all__:
        if getattr(getattr(_face, _name), "__module__", "").startswith("pagefeed."):
            getattr(_face, _name).__module__ = _face.__name__
for _name in __all__:
    if callable(globals()[_name]):
        globals()[_name].__module__ = "pagefeed"
