"""What a teacher's top-k beside each token costs: bytes a second against plain tokens.

    python benchmarks/columns/bench_teacher.py [--k 64] [--rounds 5] [--tokens 4000000]

Files of pyarrow: ids int32, log-probabilities float16. Plain tokens
are int32 in files of the same layout, delivered as int32, so that both deliver what is
stored. Epochs are read in turn, in one process; the ratio is of bytes delivered in a
second of processor time, and of wall time: the median over the pairs.
"""

import argparse
import statistics
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

LENGTH, BATCH_SIZE = 1024, 16
ROW, VOCABULARY = 512, 128_000


def write(path: str, num_tokens: int, k: int, compression: str) -> None:
    """Write rows of tokens with ``k`` ids and log-probabilities each."""
    rng, size = np.random.default_rng(0), num_tokens // ROW // 32 * 32 * ROW
    ids = (VOCABULARY * rng.random((size, k)) ** 3).astype(np.int32)
    logprobs = -np.sort(rng.exponential(4, ids.shape)).astype(np.float16)
    starts = np.arange(0, size + 1, ROW, dtype=np.int32)
    columns = {
        "input_ids": pa.array(ids[:, 0]),
        "teacher_ids": pa.FixedSizeListArray.from_arrays(ids.ravel(), k),
        "teacher_logprobs": pa.FixedSizeListArray.from_arrays(logprobs.ravel(), k),
    }
    pq.write_table(
        pa.table({n: pa.ListArray.from_arrays(starts, v) for n, v in columns.items()}),
        path,
        compression=compression,
        use_dictionary=False,
        row_group_size=(4 << 20) // (ROW * (4 + 6 * k)),
        data_page_size=4 << 20,
        write_page_checksum=True,
        write_page_index=True,
    )


def write_plain(path: str, num_tokens: int, compression: str) -> None:
    """Write rows of tokens alone, as many bytes."""
    rng = np.random.default_rng(0)
    ids = (VOCABULARY * rng.random(num_tokens) ** 3).astype(np.int32)
    offsets = np.arange(0, num_tokens + 1, ROW, dtype=np.int32)
    table = pa.table({"input_ids": pa.ListArray.from_arrays(offsets, ids)})
    pq.write_table(
        table,
        path,
        compression=compression,
        use_dictionary=False,
        row_group_size=(4 << 20) // 4 // ROW,
        data_page_size=4 << 20,
        write_page_checksum=True,
        write_page_index=True,
    )


def epoch(data: Any, cut: Any, shuffle: Any, threads: int) -> tuple[float, float]:
    """Return bytes delivered a second of processor time, and of wall time."""
    loader = pf.Loader(
        data,
        sequences=cut,
        fields=("input_ids",),
        batch_size=BATCH_SIZE,
        seed=1,
        shuffle=shuffle,
        dtype="int32",
        num_threads=threads,
    )
    begin, cpu, size = time.monotonic(), time.process_time(), 0
    for batch in loader:
        size += sum(field.nbytes for field in batch.values())
    return size / (time.process_time() - cpu), size / (time.monotonic() - begin)


def main() -> None:
    """Compare epochs with and without the teacher."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compression", default="none")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/teacher.parquet", given.tokens, given.k, given.compression)
        plain_tokens = given.tokens // 4 * (4 + 6 * given.k) // ROW * ROW
        write_plain(f"{folder}/plain.parquet", plain_tokens, given.compression)
        names = ["teacher_ids", "teacher_logprobs"]
        teacher = pf.parquet(
            f"{folder}/teacher.parquet", column="input_ids", aligned=names
        )
        plain = pf.parquet(f"{folder}/plain.parquet", column="input_ids")
        for data in (teacher, plain):
            len(data)
        for shuffle in (None, "page"):
            for cut in (pf.Windows(LENGTH), pf.Packed(LENGTH)):
                found = []
                for _ in range(given.rounds):
                    one = epoch(teacher, cut, shuffle, given.threads)
                    other = epoch(plain, cut, shuffle, given.threads)
                    found.append((*one, *other))
                cpu = statistics.median(a / c for a, _, c, _ in found)
                wall = statistics.median(b / d for _, b, _, d in found)
                best = [max(column) / 1e9 for column in zip(*found, strict=True)]
                print(
                    f"{cut}, shuffle={shuffle}: teacher {best[0]:.2f} GB per CPU s and "
                    f"{best[1]:.2f} GB/s, tokens {best[2]:.2f} and {best[3]:.2f}; "
                    f"{cpu:.2f} and {wall:.2f} of tokens"
                )


if __name__ == "__main__":
    main()
