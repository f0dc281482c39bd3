"""pagefeed: LLM training batches straight from Parquet.

Any page of any file at random, globally shuffled, cut into sequences, on every rank,
resumable to the exact sample. Nothing is converted, copied or cached first.
"""

import logging as _logging

from pagefeed import errors
from pagefeed._base import Progress, show_progress
from pagefeed._core import version as _version
from pagefeed.batches import Decode, Fields
from pagefeed.dataset import (
    FlatDataset,
    FolderColumn,
    MegatronDataset,
    Page,
    PageIndex,
    ParquetDataset,
    RecordedTokenizer,
    StreamDataset,
    StreamDocument,
    StreamWriter,
    TextStream,
    mds,
    megatron,
    parquet,
    stream,
    tokens,
)
from pagefeed.errors import PagefeedError
from pagefeed.loader import Loader
from pagefeed.mixture import Mixture, Stage, mix
from pagefeed.order import Permutation, Shuffle
from pagefeed.prepare import (
    Conversion,
    ExtendedEmbeddings,
    ExtendedTokenizer,
    NewToken,
    SampledSource,
    Tokenized,
    TokenRate,
    TrainedTokenizer,
    convert,
    extend_embeddings,
    extend_tokenizer,
    tokenize,
    train_tokenizer,
)
from pagefeed.reports import (
    Check,
    ColumnFacts,
    Damage,
    DatasetForecast,
    Diagnosis,
    Evidence,
    FileFacts,
    Forecast,
    Inspection,
    Leg,
    Lengths,
    MixtureForecast,
    PageSizes,
    Rewriting,
    ShuffleCost,
    Smoke,
    StageForecast,
    TracedPart,
    TracedRow,
    Verification,
    checklist,
    diagnose,
    doctor,
    facts_of_node,
    forecast,
    forecast_mixture,
    inspect,
    replay,
    report,
    smoke,
    trace,
    verify,
)
from pagefeed.run import Origin, Slot
from pagefeed.sequences import Documents, Packed, Windows
from pagefeed.tokenizer import Tokenizer
from pagefeed.view import SequenceView

__all__ = [
    "Check",
    "ColumnFacts",
    "Conversion",
    "Damage",
    "DatasetForecast",
    "Decode",
    "Diagnosis",
    "Documents",
    "Evidence",
    "ExtendedEmbeddings",
    "ExtendedTokenizer",
    "Fields",
    "FileFacts",
    "FlatDataset",
    "FolderColumn",
    "Forecast",
    "Inspection",
    "Leg",
    "Lengths",
    "Loader",
    "MegatronDataset",
    "Mixture",
    "MixtureForecast",
    "NewToken",
    "Origin",
    "Packed",
    "Page",
    "PageIndex",
    "PageSizes",
    "PagefeedError",
    "ParquetDataset",
    "Permutation",
    "Progress",
    "RecordedTokenizer",
    "Rewriting",
    "SampledSource",
    "SequenceView",
    "Shuffle",
    "ShuffleCost",
    "Slot",
    "Smoke",
    "Stage",
    "StageForecast",
    "StreamDataset",
    "StreamDocument",
    "StreamWriter",
    "TextStream",
    "TokenRate",
    "Tokenized",
    "Tokenizer",
    "TracedPart",
    "TracedRow",
    "TrainedTokenizer",
    "Verification",
    "Windows",
    "checklist",
    "convert",
    "diagnose",
    "doctor",
    "errors",
    "extend_embeddings",
    "extend_tokenizer",
    "facts_of_node",
    "forecast",
    "forecast_mixture",
    "inspect",
    "mds",
    "megatron",
    "mix",
    "parquet",
    "replay",
    "report",
    "show_progress",
    "smoke",
    "stream",
    "tokenize",
    "tokens",
    "trace",
    "train_tokenizer",
    "verify",
]
"""All that is public beside `pagefeed.torch`, `pagefeed.integrations` and the CLI."""

__version__ = _version()

# What is not asked for is not printed: whoever wants the log adds a handler.
_logging.getLogger("pagefeed").addHandler(_logging.NullHandler())

for _name in __all__:
    # Reprs and tracebacks name things as users import them.
    if callable(globals()[_name]):
        globals()[_name].__module__ = "pagefeed"
