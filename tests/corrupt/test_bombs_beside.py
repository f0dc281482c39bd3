"""Small files that stand for very much: bounded in what pyarrow reads, too."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.files import ParquetBytes
from made.handmade import (
    BYTE_ARRAY,
    INT64,
    REQUIRED,
    RLE_DICTIONARY,
    ZSTD,
    data_page,
    dictionary_page,
    element,
    one_column,
    rle_run,
)
from made.thrift import varint, zigzag
from made.tokenizers_made import tokenizer_json
from pagefeed.selection import expansion

MANY = (1 << 31) - 1
TEXT = b"x" * (1 << 20)
ROWS, SHARED = 70_000, 100_001
ONE = b"\1" + rle_run(ROWS, 0, 1)


def column(pages: list, *, kind: int = BYTE_ARRAY, rows: int = ROWS, codec: int = 0):
    converted = 0 if kind == BYTE_ARRAY else None
    leaf = element("text", kind=kind, repetition=REQUIRED, converted=converted)
    return one_column([leaf], pages, num_rows=rows, codec=codec)


def shared() -> bytes:
    """A text of 64 KiB, and as many as there are that share all of it."""
    size, count = 1 << 16, SHARED
    begin = varint(128) + varint(4) + varint(count)
    prefixes = (
        begin + zigzag(0) + zigzag(0) + b"\x11\0\0\0" + size.to_bytes(68, "little")
    )
    others = sum(size << (at * 17) for at in range(1, 128)).to_bytes(272, "little")
    suffixes = begin + zigzag(size) + zigzag(-size) + b"\x11" * 4 + others
    zeros = b"\0" * 5 * ((count - 2) // 128)
    return prefixes + zeros + suffixes + zeros + b"x" * size


def bombs() -> dict[str, ParquetBytes]:
    text = dictionary_page(1, len(TEXT).to_bytes(4, "little") + TEXT)
    entries = dictionary_page(MANY, bytes(16))
    return {
        "dictionary": column([text, data_page(ROWS, ONE, encoding=RLE_DICTIONARY)]),
        "shared": column([data_page(SHARED, shared(), encoding=7)], rows=SHARED),
        "entries": column(
            [entries, data_page(9, ONE, encoding=RLE_DICTIONARY)], rows=9
        ),
        "numbers": column(
            [entries, data_page(9, ONE, encoding=RLE_DICTIONARY)], kind=INT64, rows=9
        ),
        "claim": column([data_page(9, bytes(16), raw_size=MANY)], rows=9, codec=ZSTD),
    }


READ = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
import pyarrow.dataset, pyarrow.parquet
import pagefeed as pf
from pagefeed.cli import main
limit = 6 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
path, tokenizer, out, predicate = sys.argv[1:5]
uses = {
    "where": lambda: len(pf.parquet(path, column="text").where(predicate)),
    "tokenize": lambda: pf.tokenize(path, out, column="text", tokenizer=tokenizer,
        retries=0),
    "row": lambda: pf.parquet(path, column="text")[0],
    "inspect": lambda: repr(pf.inspect(pf.parquet(path, column="text"))),
}
said = {}
for name, use in uses.items():
    try:
        use()
        said[name] = "done"
    except pf.errors.PagefeedError as error:
        said[name] = type(error).__name__
    except BaseException as error:
        said[name] = f"raw {error!r:.200}"
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps([said, peak]))
"""


@pytest.mark.parametrize("name", bombs())
def test_what_a_file_stands_for_is_known_before_it_is_read(tmp_path: Path, name: str):
    (tmp_path / "bomb.parquet").write_bytes(bombs()[name].encode())
    (tmp_path / "tokenizer.json").write_text(tokenizer_json("llama3"))
    done = subprocess.run(
        [sys.executable, "-c", READ]
        + [tmp_path / part for part in ("bomb.parquet", "tokenizer.json", "out")]
        + ["text > 1" if name == "numbers" else "text > 'a'"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-600:]
    said, peak = json.loads(done.stdout)
    assert not [what for what in said.values() if what.startswith("raw")], said
    refused = {"LimitExceededError", "CorruptFileError"}
    assert {said["where"], said["row"]} <= refused, said
    assert peak < 1200, (said, peak)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", None])
def test_large_texts_are_read_a_few_at_a_time(tmp_path, monkeypatch, encoding):
    rows = [f"{row % 3}" * (1 + row * 37 % 9000) for row in range(700)]
    table = pa.table({"tokens": [[row] for row in range(700)], "text": rows})
    options = {} if encoding is None else {"column_encoding": {"text": encoding}}
    pq.write_table(
        table, tmp_path / "a.parquet", use_dictionary=encoding is None, **options
    )
    wanted = [row for row, text in enumerate(rows) if text.startswith("1")]
    found = []
    for most in (expansion.BATCH_BYTES, 100_000, 1):
        monkeypatch.setattr(expansion, "BATCH_BYTES", most)
        data = pf.parquet(tmp_path, column="tokens").where(
            pa.compute.starts_with(pa.compute.field("text"), "1")
        )
        found.append([data[row]["tokens"][0] for row in range(len(data))])
    assert found == [wanted] * 3
