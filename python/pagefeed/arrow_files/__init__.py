"""Arrow files, streams and datasets of Hugging Face, read as they lie.

``mapped_column`` finds record batches in a mapped file, and a column in them.
``arrow_pages`` makes pages of them: runs of integers are read like flat files, all
other columns as arrays. ``arrow_dataset`` is the dataset, ``hub_dataset`` finds the
files and rows of a ``datasets.Dataset``.
"""

from pagefeed.arrow_files.arrow_dataset import SIGNS, ArrowDataset, arrow, saved_files

__all__ = ["SIGNS", "ArrowDataset", "arrow", "saved_files"]
