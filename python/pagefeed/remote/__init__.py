"""Files of buckets, web servers and the hub; files that are written; shared indexes.

:class:`RemoteStorage` adds URLs to the files of this machine; the data plane sends its
requests. :class:`OutputFolder` is written to, here or in a bucket, by
:class:`FileWriter` and :class:`ObjectWriter`. :class:`SharedIndex` is an index that all
nodes read from there.
"""

from pagefeed.remote.cluster import on_ray
from pagefeed.remote.index_writing import (
    IndexDifferences,
    WrittenIndex,
    check_index,
    write_index,
)
from pagefeed.remote.options import (
    StorageOptions,
    known_options,
    library_options,
    options_as_texts,
)
from pagefeed.remote.outputs import (
    ObjectWriter,
    OutputFolder,
    Version,
    checked_output,
    output_file,
    output_folder,
)
from pagefeed.remote.own_store import OwnStore, located_in
from pagefeed.remote.paths import located_among
from pagefeed.remote.range_file import RangeFile
from pagefeed.remote.remote_storage import RemoteStorage, options_of, storage_of_options
from pagefeed.remote.shared_index import ColumnIndex, SharedIndex
from pagefeed.remote.writing import (
    FileWriter,
    locked,
    make_folder,
    remove_files,
)

__all__ = [
    "ColumnIndex",
    "FileWriter",
    "IndexDifferences",
    "ObjectWriter",
    "OutputFolder",
    "OwnStore",
    "RangeFile",
    "RemoteStorage",
    "SharedIndex",
    "StorageOptions",
    "Version",
    "WrittenIndex",
    "check_index",
    "checked_output",
    "known_options",
    "library_options",
    "located_among",
    "located_in",
    "locked",
    "make_folder",
    "on_ray",
    "options_as_texts",
    "options_of",
    "output_file",
    "output_folder",
    "remove_files",
    "storage_of_options",
    "write_index",
]
