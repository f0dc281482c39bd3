"""Writes the sequences of a loader as files, in the order of all ranks.

``job`` plans shards, which are ranges of steps, and writes them on threads or a Ray
cluster. ``shards`` writes the files of a shard.
"""

from pagefeed.prepare.exporting.job import Exported, export

__all__ = ["Exported", "export"]
