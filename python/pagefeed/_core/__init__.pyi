"""The data plane in Rust: page index, page reads and the engine.

Each subject has a stub. At run time this module has all names except the
types of dicts, which only annotations use.
"""

from pagefeed._core.arrow import (
    ArrowArray,
    ArrowTable,
    Buffer,
    token_rows,
)
from pagefeed._core.engine import (
    IGNORED,
    Engine,
    check_metadata,
    field_table,
)
from pagefeed._core.engine import BatchesConfig as BatchesConfig
from pagefeed._core.engine import BesideConfig as BesideConfig
from pagefeed._core.engine import DocumentsConfig as DocumentsConfig
from pagefeed._core.engine import EngineConfig as EngineConfig
from pagefeed._core.index import (
    FlatField,
    Index,
    Infilling,
    MadePages,
    Naming,
    RecordColumn,
    cut_tokens,
    expansion,
    find_ranges,
    flat_index,
    footer_value,
    list_pages,
    local_versions,
    made_index,
    reads_of_files,
)
from pagefeed._core.order import deal, mix, pack, permute
from pagefeed._core.remote import Remote
from pagefeed._core.text import ListFile, Tokenizer, json_texts, text_of

__all__ = [
    "IGNORED",
    "ArrowArray",
    "ArrowTable",
    "Buffer",
    "Engine",
    "FlatField",
    "Index",
    "Infilling",
    "ListFile",
    "MadePages",
    "Naming",
    "RecordColumn",
    "Remote",
    "Tokenizer",
    "check_metadata",
    "cut_tokens",
    "deal",
    "expansion",
    "field_table",
    "find_ranges",
    "flat_index",
    "footer_value",
    "json_texts",
    "list_pages",
    "local_versions",
    "made_index",
    "mix",
    "pack",
    "permute",
    "reads_of_files",
    "text_of",
    "token_rows",
    "version",
]

def version() -> str: ...
