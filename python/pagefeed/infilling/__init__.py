"""Documents as prefix, suffix and middle, for models that fill in the middle."""

from pagefeed.infilling.infill import Infill
from pagefeed.infilling.infilled_index import InfilledIndex
from pagefeed.infilling.infilled_rows import arrange_numbers, arrange_spans, document_at

__all__ = [
    "Infill",
    "InfilledIndex",
    "arrange_numbers",
    "arrange_spans",
    "document_at",
]
