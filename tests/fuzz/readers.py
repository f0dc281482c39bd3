"""Readers of mutated files: what they read is sound, or they raise.

Each takes a job and returns whether it found nothing wrong.
"""

import functools
import random
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from saved_files import digest_of, shared_digest_of

import pagefeed as pf
from made.changed_indexes import numbers_changed
from made.chats import CHATS
from made.flat_files import opened
from made.tokenizers_made import TEXTS, tokenizer_json
from pagefeed.caches import sequence_numbers
from pagefeed.tokenizer import ChatTemplate

BATCHES = 200
MOST = 1 << 22
LOADER: dict[str, Any] = {
    "batch_size": 1,
    "memory": "16MiB",
    "num_threads": 2,
    "rank": 0,
    "world_size": 1,
}

TEXTS_TOLD = ("folder", "keep", "column", "format")

Job = dict[str, Any]


def pages(job: Job) -> bool:
    """Every page of Parquet by itself, as an array that pyarrow finds sound."""
    index = pf.PageIndex.build(job["path"], column=job["column"], **job["options"])
    rows = index.page_rows.tolist()
    for number, expected in enumerate(rows):
        page = pa.array(index.read_page(number))
        page.validate(full=len(page) < MOST)
        if len(page) != expected:
            raise AssertionError(f"page {number}: {len(page)} rows, not {expected}")
    return True


def batches(job: Job) -> bool:
    """The same through the engine: as windows, as packed rows or as columns."""
    sequences: Any = {
        "windows": pf.Windows(8),
        "packed": pf.Packed(8, eos=1),
        "documents": pf.Documents(columns=[job["column"]]),
    }[job["sequences"]]
    dataset = pf.parquet(job["path"], column=job["column"])
    for _ in islice(pf.Loader(dataset, sequences=sequences, **LOADER), BATCHES):
        pass
    return True


def saved(job: Job) -> bool:
    """By way of a cache folder with a damaged file: what is read stays the same."""
    if digest_of(job["folder"], job["kind"], job["corpus"]) != job["digest"]:
        raise AssertionError("other batches than those of a sound cache folder")
    return True


def sealed(job: Job) -> bool:
    """By way of a cache folder that was changed and sealed anew, by its owner."""
    if job["damage"] == "numbers":
        numbers_changed(Path(job["folder"]), random.Random(job["draw"]))
    try:
        return bool(digest_of(job["folder"], job["kind"], job["corpus"]))
    finally:
        sequence_numbers._HELD.clear()  # Other runs of this process would use them.


def shared(job: Job) -> bool:
    """By way of a shared index that others wrote: no other batches are delivered."""
    if shared_digest_of(job["corpus"], job["folder"]) != job["digest"]:
        raise AssertionError("other batches than by the index that was written")
    return True


@functools.cache
def _tokenizer() -> pf.Tokenizer:
    path = Path("tokenizer.json")  # In the folder of this process.
    path.write_text(tokenizer_json("gpt2"))
    return pf.Tokenizer(path)


def texts(job: Job) -> bool:
    """Through `tokenize`; what it writes must be sound, every column of it."""
    return _tokenized(**{name: job[name] for name in TEXTS_TOLD if name in job})


def _tokenized(folder: str, **options: Any) -> bool:
    output = Path("tokenized")
    shutil.rmtree(output, ignore_errors=True)
    done = pf.tokenize(
        folder,
        output,
        tokenizer=_tokenizer(),
        on_error="skip",
        max_rejected=1.0,
        num_threads=1,
        retries=0,
        **options,
    )
    for path in output.glob("*.parquet"):
        pq.read_table(path).validate(full=True)
    return not done.reasons


def warm() -> None:
    """Import what readers import; it counts for no file."""
    folder = Path("warm")
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "a", "number": 1}')
    _tokenized(str(folder), keep=["number"])


def _flat(dataset: pf.dataset.FlatDataset, **options: Any) -> bool:
    for sequences in (pf.Windows(8), pf.Packed(16)):
        loader = pf.Loader(dataset, sequences=sequences, **LOADER, **options)
        for _ in islice(loader, BATCHES):
            pass
    for row in range(min(len(dataset), 30)):
        _ = dataset[row]
    return True


def flat(job: Job) -> bool:
    """Files of a format, in a folder or with a prefix there."""
    prefix = "/corpus_text_document" if job["format"] == "megatron" else ""
    return _flat(opened(job["format"], job["folder"] + prefix))


def stream(job: Job) -> bool:
    dataset = pf.stream(job["folder"], aligned=["weight"])
    return _flat(dataset, fields=("input_ids", "metadata"))


def tokenizer(job: Job) -> bool:
    """Ids lie below the number of them."""
    [path] = Path(job["folder"]).iterdir()
    pattern = "gpt2" if path.suffix == ".tiktoken" else None
    made = pf.Tokenizer(path, pattern=pattern)
    for ids in made.encode_batch(TEXTS[:6]):
        if max(ids.tolist(), default=0) >= made.vocab_size:
            raise AssertionError(f"id {max(ids)} of {made.vocab_size} ids")
        made.decode(ids)
    return True


def chat(job: Job) -> bool:
    """Ids and labels of chats, as many of each."""
    made = pf.Tokenizer(Path(job["folder"]) / "tokenizer.json")
    template = ChatTemplate.of(made)
    for messages in CHATS:
        ids, labels = template.encode(made, messages)
        if len(ids) != len(labels):
            raise AssertionError(f"{len(ids)} ids, {len(labels)} labels")
    return True


READERS = {
    one.__name__: one
    for one in (
        *(pages, batches, saved, sealed, shared, texts, flat, stream),
        *(tokenizer, chat),
    )
}
