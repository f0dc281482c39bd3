"""Images in texts: their tokens, places and bytes, in every batch.

:func:`with_images` says which column has the images of a row, and how many tokens each
image takes. ``headers`` reads sizes, ``numbers`` stores them with the index, and
``rows`` inserts the tokens of images into the text. The core then cuts, packs and
balances them like other tokens. ``survey`` refuses settings that would cut images.
``feed`` and ``engine`` add the images to a batch.
"""

from pagefeed.images.dataset import ImageDataset, with_images
from pagefeed.images.headers import size_of

__all__ = ["ImageDataset", "size_of", "with_images"]
