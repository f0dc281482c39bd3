"""Documents as prefix, suffix and middle, for models that fill in the middle."""

from pagefeed.infilling.infill import Infill
from pagefeed.infilling.infilled_index import InfilledIndex

__all__ = ["Infill", "InfilledIndex"]
