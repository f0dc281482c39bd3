"""Rows whose pages Python makes: an index like any other, and Parquet pages on demand.

:class:`MadePages` says which pages a column has, and makes the Arrow array of a page
when the data plane reads it. The data plane writes the array as a Parquet page, so that
it decodes, aligns, tokenizes and checks it like a page of a file.
"""

from pagefeed.made.made_pages import (
    Layout,
    MadePages,
    MadeRecipe,
    MadeStorage,
    is_list,
    num_leaves,
)

__all__ = ["Layout", "MadePages", "MadeRecipe", "MadeStorage", "is_list", "num_leaves"]
