"""Images beside text: their tokens, places and bytes, in every batch.

:func:`with_images` says which column has the images of a row, and how many tokens each
becomes. ``headers`` reads sizes, ``numbers`` keeps them beside the index, ``rows``
writes the tokens of images into those of the text: from there on the core cuts, packs
and balances them as any others. ``survey`` refuses what would cut images. ``feed``
and ``engine`` bring the images of a batch, ``decoding`` runs the user's function ahead.
"""

from pagefeed._names import name_as_imported
from pagefeed.images.dataset import ImageDataset, with_images
from pagefeed.images.headers import size_of

__all__ = ["ImageDataset", "size_of", "with_images"]

name_as_imported(__name__)
