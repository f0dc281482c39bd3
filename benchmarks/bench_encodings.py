"""What a token costs on disk and to write: encodings and codecs of a Parquet column.

    python benchmarks/bench_encodings.py [CORPUS.parquet] [--tokenizer tokenizer.json]

CORPUS holds a column ``text``. Its tokens are written as a list column by pyarrow in
every way that readers know. CPU time is the median of several rounds, all ways in turn,
and a ratio against the bare encoding of the same texts into tokens.
"""

import argparse
import io
import statistics
import time
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

ENCODINGS = ("PLAIN", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED")
CODECS = (("none", None), ("snappy", None), ("lz4", None), ("zstd", 1), ("zstd", 3))
COLUMN = "input_ids.list.element"


def write(table: pa.Table, encoding: str, codec: str, level: int | None) -> int:
    """Write the table into memory and return its size."""
    sink = io.BytesIO()
    with_dictionary = encoding == "RLE_DICTIONARY"
    pq.write_table(
        table,
        sink,
        compression=codec,
        compression_level=level,
        use_dictionary=with_dictionary,
        column_encoding=None if with_dictionary else {COLUMN: encoding},
        data_page_size=256 << 10,
        dictionary_pagesize_limit=1 << 20,
    )
    return sink.tell()


def main() -> None:
    """Write the tokens in every way, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    texts = pq.read_table(options.corpus, columns=["text"])["text"].to_pylist()
    texts = texts[:: max(1, len(texts) // options.documents)]
    tokenizer = pf.Tokenizer(options.tokenizer)
    begin = time.process_time()
    rows = tokenizer.encode_batch(texts)
    encoding_seconds = time.process_time() - begin
    num_tokens = sum(map(len, rows))
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    values = np.concatenate(rows).astype(np.int32)
    table = pa.table({"input_ids": pa.ListArray.from_arrays(offsets, values)})
    print(
        f"{num_tokens:,} tokens, "
        f"{1e9 * encoding_seconds / num_tokens:.0f} ns to encode one"
    )

    seconds, sizes = defaultdict(list), {}
    for _ in range(options.rounds):
        for encoding in ENCODINGS:
            for codec, level in CODECS:
                way = f"{encoding} {codec} {level or ''}".strip()
                begin = time.process_time()
                sizes[way] = write(table, encoding, codec, level)
                seconds[way].append(time.process_time() - begin)
    print(f"{'':34}{'bytes a token':>14}{'ns a token':>12}")
    for way in sorted(sizes, key=sizes.__getitem__):
        cost = 1e9 * statistics.median(seconds[way]) / num_tokens
        print(f"{way:34}{sizes[way] / num_tokens:14.2f}{cost:12.1f}")


if __name__ == "__main__":
    main()
