"""Files of data: listed, told apart by versions, read by ranges of bytes, written.

:func:`located` finds files and their storage. :class:`Storage` reads files of this
machine, and its module is the only one of Python that opens files of data.
:class:`RemoteStorage` adds URLs, whose requests the data plane sends.
:class:`OutputFolder` is written to, here or in a bucket, by :class:`FileWriter` and
:class:`ObjectWriter`.
"""

from pagefeed.storage.arrow_files import open_renamed
from pagefeed.storage.locating import (
    Located,
    located,
    located_among,
    located_exactly,
)
from pagefeed.storage.options import StorageOptions, library_options
from pagefeed.storage.outputs import (
    ObjectWriter,
    OutputFolder,
    Version,
    checked_output,
    output_file,
    output_folder,
)
from pagefeed.storage.paths import (
    MANIFEST,
    PARQUET,
    UNFINISHED,
    PathLike,
    Paths,
    local_path,
    plain_paths,
    roots_of,
)
from pagefeed.storage.remote import (
    RemoteStorage,
    options_of,
    storage_of_options,
)
from pagefeed.storage.storage import Storage, names_in
from pagefeed.storage.urls import is_url, matches
from pagefeed.storage.writing import (
    FileWriter,
    SummedWriter,
    locked,
    make_folder,
    remove_files,
)

__all__ = [
    "MANIFEST",
    "PARQUET",
    "UNFINISHED",
    "FileWriter",
    "Located",
    "ObjectWriter",
    "OutputFolder",
    "PathLike",
    "Paths",
    "RemoteStorage",
    "Storage",
    "StorageOptions",
    "SummedWriter",
    "Version",
    "checked_output",
    "is_url",
    "library_options",
    "local_path",
    "located",
    "located_among",
    "located_exactly",
    "locked",
    "make_folder",
    "matches",
    "names_in",
    "open_renamed",
    "options_of",
    "output_file",
    "output_folder",
    "plain_paths",
    "remove_files",
    "roots_of",
    "storage_of_options",
]
