"""Files: listed, identified by versions, read by ranges of bytes.

:func:`located` finds files and their storage. :class:`Storage` reads files of this
machine; its module is the only one of the core that opens data files. The room
``remote`` reads URLs.
"""

from pagefeed.core.storage.paths import (
    MANIFEST,
    PARQUET,
    SHARED_INDEX,
    UNFINISHED,
    PathLike,
    Paths,
    advice_on_format,
    check_files_given,
    check_finished,
    is_hidden,
    is_url,
    local_path,
    nothing_listed,
    plain_path,
    plain_paths,
    tell_of_index,
)
from pagefeed.core.storage.storage import (
    Located,
    Storage,
    located,
    located_exactly,
    names_in,
    write_errors,
)

__all__ = [
    "MANIFEST",
    "PARQUET",
    "SHARED_INDEX",
    "UNFINISHED",
    "Located",
    "PathLike",
    "Paths",
    "Storage",
    "advice_on_format",
    "check_files_given",
    "check_finished",
    "is_hidden",
    "is_url",
    "local_path",
    "located",
    "located_exactly",
    "names_in",
    "nothing_listed",
    "plain_path",
    "plain_paths",
    "tell_of_index",
    "write_errors",
]
