"""pagefeed: LLM training batches straight from Parquet.

Any page of any file at random, globally shuffled, cut into sequences, on every rank,
resumable to the exact sample. Nothing is converted, copied or cached first.
"""

from pagefeed._core import version as _version
from pagefeed.batches import Fields
from pagefeed.dataset import Page, PageIndex, ParquetDataset, parquet
from pagefeed.errors import PagefeedError
from pagefeed.loader import Loader
from pagefeed.mixture import Mixture, Stage, mix
from pagefeed.order import Permutation, Shuffle
from pagefeed.sequences import Documents, Packed, Windows
from pagefeed.view import SequenceView

__all__ = [
    "Documents",
    "Fields",
    "Loader",
    "Mixture",
    "Packed",
    "Page",
    "PageIndex",
    "PagefeedError",
    "ParquetDataset",
    "Permutation",
    "SequenceView",
    "Shuffle",
    "Stage",
    "Windows",
    "mix",
    "parquet",
]

__version__ = _version()

for _name in __all__:
    # Reprs and tracebacks name things as users import them.
    globals()[_name].__module__ = "pagefeed"
