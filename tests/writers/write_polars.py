"""Write the columns with polars. Usage: write_polars.py OUT."""

import sys
from pathlib import Path
from typing import Any

import polars as pl

from columns import rows

SCHEMA: dict[str, Any] = {
    "tokens_dict": pl.List(pl.Int32),
    "tokens_plain": pl.List(pl.Int32),
    "tokens_uint16": pl.List(pl.UInt16),
    "tokens_int64": pl.List(pl.Int64),
    "tokens_fixed": pl.Array(pl.Int32, 16),
    "tokens_fixed_null": pl.Array(pl.Int32, 16),
    "flat_int": pl.Int32,
    "flat_uint16": pl.UInt16,
    "nullable_int": pl.Int64,
    "all_null": pl.Int32,
    "text_dict": pl.Categorical,
    "text_plain": pl.String,
    "text_fallback": pl.String,
    "list_null": pl.List(pl.Int32),
    "list_text": pl.List(pl.String),
    "list_list": pl.List(pl.List(pl.Int16)),
    "list_struct": pl.List(pl.Struct({"start": pl.Int32, "end": pl.Int32})),
    "nested": pl.Struct(
        {
            "id": pl.Int64,
            "tokens": pl.List(pl.Int32),
            "inner": pl.Struct({"name": pl.String, "score": pl.Float64}),
        }
    ),
    "flag": pl.Boolean,
    "list_flag": pl.List(pl.Boolean),
    "single": pl.Float32,
    "double": pl.Float64,
    "money": pl.Decimal(9, 2),
    "moment": pl.Datetime("us", "UTC"),
    "day": pl.Date,
    "blob": pl.Binary,
}


def main(out: Path) -> None:
    out.mkdir(parents=True)
    values = rows()
    frame = pl.DataFrame(
        {name: pl.Series(name, values[name], kind) for name, kind in SCHEMA.items()}
    )
    for codec in ("uncompressed", "snappy", "zstd", "lz4", "gzip", "brotli"):
        frame.write_parquet(
            out / f"{codec}.parquet",
            compression=codec,
            row_group_size=250,
            data_page_size=512,
        )


main(Path(sys.argv[1]))
