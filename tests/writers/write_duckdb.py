"""Write columns of DuckDB's own with DuckDB. Usage: write_duckdb.py OUT.

Row groups hold at least 2048 rows and a chunk is one page, whatever one asks for.
"""

import sys
from pathlib import Path

import duckdb

QUERY = """
SELECT
  list_transform(range(n * 7 % 60), lambda x: (x * 31 + n) % 50)::INTEGER[]
    AS tokens_dict,
  list_transform(range(n * 3 % 40), lambda x: hash(x + n) % 65536)::USMALLINT[]
    AS tokens_uint16,
  list_transform(range(n % 30), lambda x: (hash(n, x) >> 20)::BIGINT) AS tokens_int64,
  [n, n + 1, n + 2]::INTEGER[3] AS tokens_fixed,
  (hash(n) >> 34)::INTEGER AS flat_int,
  CASE WHEN n % 5 = 0 THEN NULL ELSE n * 1000 END AS nullable_int,
  NULL::INTEGER AS all_null,
  'word' || (n % 20) AS text_dict,
  'text ' || repeat(md5(n::VARCHAR), (n % 9)::INTEGER) AS text_plain,
  CASE WHEN n % 7 = 0 THEN NULL WHEN n % 7 = 1 THEN [] ELSE [n, NULL, n % 3] END
    AS list_null,
  CASE WHEN n % 4 = 0 THEN [] ELSE [[n], [], NULL, [n, NULL]] END AS list_list,
  CASE WHEN n % 6 = 0 THEN NULL
    ELSE {'id': n, 'tokens': range(n % 5), 'inner': {'name': 'x' || n}} END AS nested,
  CASE WHEN n % 9 = 0 THEN MAP {} ELSE MAP {'a' || n: n, 'b': NULL} END AS a_map,
  n % 3 = 0 AS flag,
  (n / 7)::FLOAT AS single,
  n / 7 AS double,
  (n / 100)::DECIMAL(9, 2) AS money,
  (n * 1000003)::DECIMAL(30, 4) AS money_wide,
  TIMESTAMP '2020-02-29 01:02:03.000004' + INTERVAL (n) SECOND AS moment,
  DATE '2020-02-29' + n::INTEGER AS day,
  encode('blob' || n) AS blob
FROM range(2500) AS numbers(n) ORDER BY n
"""


def main(out: Path) -> None:
    out.mkdir(parents=True)
    for version in ("V1", "V2"):
        codecs = ["uncompressed", "snappy", "zstd", "gzip", "lz4_raw"]
        for codec in codecs + ["brotli"] * (version == "V2"):  # seconds for a megabyte
            path = out / f"{version.lower()}-{codec}.parquet"
            duckdb.sql(
                f"COPY ({QUERY}) TO '{path}' (FORMAT parquet, CODEC '{codec}', "
                f"PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)"
            )


main(Path(sys.argv[1]))
