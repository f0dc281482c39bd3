"""Write the columns with whichever pyarrow is installed, in every way it knows.

Usage: write_pyarrow.py OUT. Pages are a few hundred bytes, so that 600 rows make many.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from columns import rows

VERSION = int(pa.__version__.split(".")[0])
CODECS = ["none", "snappy", "zstd", "gzip", "brotli", "lz4"]
INT32, TEXT = pa.int32(), pa.string()
TYPES = {
    "tokens_dict": pa.list_(INT32),
    "tokens_plain": pa.list_(INT32),
    "tokens_uint16": pa.list_(pa.uint16()),
    "tokens_int64": pa.list_(pa.int64()),
    "tokens_fixed": pa.list_(INT32, 16),
    "tokens_fixed_null": pa.list_(INT32, 16),
    "flat_int": INT32,
    "flat_uint16": pa.uint16(),
    "nullable_int": pa.int64(),
    "delta_int": pa.int64(),
    "all_null": INT32,
    "text_dict": TEXT,
    "text_plain": TEXT,
    "text_fallback": TEXT,
    "text_large": pa.large_string(),
    "text_delta": TEXT,
    "list_null": pa.list_(INT32),
    "list_text": pa.large_list(TEXT),
    "list_list": pa.list_(pa.list_(pa.int16())),
    "list_struct": pa.list_(pa.struct({"start": INT32, "end": INT32})),
    "nested": pa.struct(
        {
            "id": pa.int64(),
            "tokens": pa.list_(INT32),
            "inner": pa.struct({"name": TEXT, "score": pa.float64()}),
        }
    ),
    "a_map": pa.map_(TEXT, INT32),
    "flag": pa.bool_(),
    "list_flag": pa.list_(pa.bool_()),
    "single": pa.float32(),
    "double": pa.float64(),
    "money": pa.decimal128(9, 2),
    "money_wide": pa.decimal128(30, 4),
    "moment": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
    "blob": pa.binary(),
    "blob_fixed": pa.binary(7),
}
if VERSION < 26:  # the older ones refuse nulls there
    del TYPES["tokens_fixed_null"]
ENCODINGS = {"delta_int": "DELTA_BINARY_PACKED", "double": "BYTE_STREAM_SPLIT"}
if VERSION >= 22:
    ENCODINGS |= {
        "text_delta": "DELTA_LENGTH_BYTE_ARRAY",
        "text_large": "DELTA_BYTE_ARRAY",
    }
PLAIN = {"tokens_plain", "tokens_fixed", "text_plain", *ENCODINGS}


def leaf_paths(table: pa.Table) -> list[str]:
    """The columns as this pyarrow names them in its options ("element" or "item")."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(0, 0), sink)
    schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [schema.column(at).path for at in range(len(schema.names))]


def modes() -> dict[str, dict[str, Any]]:
    """Options by name of the ways to cut pages that this version knows."""
    small = {"data_page_size": 512, "write_batch_size": 64, "row_group_size": 250}
    found: dict[str, dict[str, Any]] = {"small": small}
    if VERSION >= 13:
        found["index"] = {**small, "write_page_index": True}
    if VERSION >= 22:
        chunking = {"min_chunk_size": 256, "max_chunk_size": 1024}
        checked = {**small, "write_page_checksum": True}
        found["cdc"] = {**checked, "use_content_defined_chunking": chunking}
        found["cdc-index"] = {**found["cdc"], "write_page_index": True}
    return found


def main(out: Path) -> None:
    out.mkdir(parents=True)
    values = rows()
    table = pa.table(
        {name: pa.array(values[name], kind) for name, kind in TYPES.items()}
    )
    paths = leaf_paths(table)
    pages = itertools.product(("1.0", "2.0"), modes().items())
    for shift, (page_version, (mode, options)) in enumerate(pages):
        pq.write_table(
            table,
            out / f"v{page_version[0]}-{mode}.parquet",
            data_page_version=page_version,
            compression={p: CODECS[(n + shift) % 6] for n, p in enumerate(paths)},
            use_dictionary=[path for path in paths if path.split(".")[0] not in PLAIN],
            dictionary_pagesize_limit=2048,
            column_encoding=ENCODINGS,
            version="2.6",
            **options,
        )
    pq.write_table(table, out / "defaults.parquet")


main(Path(sys.argv[1]))
