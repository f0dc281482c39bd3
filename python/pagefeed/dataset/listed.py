"""Files as they are listed, before anything of them is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pagefeed.dataset.folders import FolderColumn
from pagefeed.storage import Storage

__all__ = ["Listed"]


class Listed(NamedTuple):
    """Files before they are indexed, as their schema is read."""

    storage: Storage
    files: Sequence[str]
    folder_columns: Mapping[str, FolderColumn]
