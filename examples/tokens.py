"""Real text as a column of tokens, for the other examples.

    python examples/tokens.py CORPUS tokens/ [--limit 60000]

CORPUS is a folder with ``tokenizer.json`` and Parquet files with a column ``text``, as
``pagefeed demo --data corpus`` writes it.
"""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer


def main() -> None:
    """Tokenize documents, until there are enough tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=60_000, help="tokens")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.corpus / "tokenizer.json"))
    rows: list[list[int]] = []
    count = 0
    for path in sorted(options.corpus.rglob("*.parquet")):
        for text in pq.read_table(path, columns=["text"])["text"].to_pylist():
            rows.append(tokenizer.encode(text[:4000]).ids)
            count += len(rows[-1])
            if count >= options.limit:
                break
        if count >= options.limit:
            break
    options.folder.mkdir(parents=True, exist_ok=True)
    tokens = pa.array(rows, pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": tokens}), options.folder / "a.parquet")
    print(f"{len(rows)} documents, {count} tokens")


if __name__ == "__main__":
    main()
