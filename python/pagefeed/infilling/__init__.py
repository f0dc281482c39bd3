"""Documents as prefix, suffix and middle, for models that fill in the middle."""

from pagefeed._names import name_as_imported
from pagefeed.infilling.infill import Infill
from pagefeed.infilling.infilled_dataset import Infillable

__all__ = [
    "Infill",
    "Infillable",
]

name_as_imported(__name__)
