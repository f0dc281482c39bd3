"""The public names, each from the module that is imported when it is first used."""

from pagefeed import dataset as dataset
from pagefeed import errors as errors
from pagefeed import launch as launch
from pagefeed import mixing as mixing
from pagefeed import prepare as prepare
from pagefeed import reports as reports
from pagefeed import run as run
from pagefeed.aligned import Aligned as Aligned
from pagefeed.arrow_files import arrow as arrow
from pagefeed.balance import Balance as Balance
from pagefeed.context_parallel import ContextParallel as ContextParallel
from pagefeed.core.batches import Fields as Fields
from pagefeed.core.dataset import PageIndex as PageIndex
from pagefeed.core.loader import Loader as Loader
from pagefeed.core.order import Permutation as Permutation
from pagefeed.core.order import Shuffle as Shuffle
from pagefeed.core.sequences import Packed as Packed
from pagefeed.core.sequences import Windows as Windows
from pagefeed.documents import Decode as Decode
from pagefeed.documents import Documents as Documents
from pagefeed.errors import PagefeedError as PagefeedError
from pagefeed.flat import StreamWriter as StreamWriter
from pagefeed.flat import mds as mds
from pagefeed.flat import megatron as megatron
from pagefeed.flat import stream as stream
from pagefeed.flat import tokens as tokens
from pagefeed.images import with_images as with_images
from pagefeed.infilling import Infill as Infill
from pagefeed.mixture import Mixture as Mixture
from pagefeed.mixture import Stage as Stage
from pagefeed.mixture import mix as mix
from pagefeed.own_rows import rows as rows
from pagefeed.parquet_files import parquet as parquet
from pagefeed.prepare import convert as convert
from pagefeed.prepare import export as export
from pagefeed.prepare import tokenize as tokenize
from pagefeed.progress import Progress as Progress
from pagefeed.progress import show_progress as show_progress
from pagefeed.prompts import Curriculum as Curriculum
from pagefeed.prompts import PromptQueue as PromptQueue
from pagefeed.reports import diagnose as diagnose
from pagefeed.reports import doctor as doctor
from pagefeed.reports import forecast as forecast
from pagefeed.reports import inspect as inspect
from pagefeed.reports import report as report
from pagefeed.reports import smoke as smoke
from pagefeed.reports import trace as trace
from pagefeed.reports import verify as verify
from pagefeed.tables import delta as delta
from pagefeed.tables import iceberg as iceberg
from pagefeed.tokenizer import Tokenizer as Tokenizer
from pagefeed.uncounted import TextLoader as TextLoader
from pagefeed.view import SequenceView as SequenceView

__all__: list[str]  # noqa: PYI035 - the names above, which are written once
__version__: str
