"""Write columns with fastparquet. Usage: write_fastparquet.py OUT.

It has no lists; nested values become JSON.
"""

import sys
from pathlib import Path
from typing import Any

import fastparquet
import pandas as pd

from columns import rows

TYPES: dict[str, Any] = {
    "flat_int": "int32",
    "flat_uint16": "uint16",
    "nullable_int": "Int64",
    "delta_int": "int64",
    "text_dict": "category",
    "text_plain": "str",
    "text_fallback": "str",
    "list_text": object,
    "flag": "boolean",
    "single": "float32",
    "double": "float64",
    "moment": "datetime64[us]",
    "blob": object,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "uncompressed": {},
    "snappy-groups": {"compression": "SNAPPY", "row_group_offsets": 250},
    "zstd": {"compression": "ZSTD", "stats": False},
    "gzip-int96": {"compression": "GZIP", "times": "int96"},
}


def main(out: Path) -> None:
    out.mkdir(parents=True)
    values = rows()
    frame = pd.DataFrame(
        {name: pd.Series(values[name], dtype=kind) for name, kind in TYPES.items()}
    )
    encodings = {"list_text": "json", "blob": "bytes"}
    for name, settings in SETTINGS.items():
        path = str(out / f"{name}.parquet")
        fastparquet.write(
            path,
            frame,
            object_encoding={one: encodings.get(one, "utf8") for one in TYPES},
            **settings,
        )


main(Path(sys.argv[1]))
