"""Texts that are tokenized as they come, by a tokenizer of their bytes."""

import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

EOS = 256
LENGTH = 16
ROWS = 400


def encode(text):
    return list(text.encode())


LETTERS = pf.Tokenizer(encode, vocab_size=256, name="letters")


def make_text(row):
    """Texts that differ, some longer than a sequence, some empty, some null."""
    if row % 37 == 5:
        return None if row % 2 else ""
    return f"{row}:" + "äx"[row % 2] * (row * row % 23)


def write_texts(path):
    texts = [make_text(row) for row in range(ROWS)]
    table = pa.table({"text": texts, "good": [row % 3 > 0 for row in range(ROWS)]})
    for number in range(2):
        pq.write_table(
            table.slice(number * 200, 200),
            path / f"{number}.parquet",
            row_group_size=50,
            data_page_size=200,
            write_batch_size=4,
            use_dictionary=False,
        )


def open_loader(dataset, rank=0, world_size=1, tokenizer=LETTERS, **given):
    settings = {
        "sequences": pf.Windows(LENGTH, eos=EOS),
        "batch_size": 1,
        "epochs": None,
        "seed": 5,
        **given,
    }
    return pf.TextLoader(
        dataset, tokenizer, rank=rank, world_size=world_size, **settings
    )
