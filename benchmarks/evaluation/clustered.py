"""A corpus in the order of its sources, as crawls lie, in pages of a few documents."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

import pagefeed as pf

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "benchmarks" / ".data" / "evaluation"
VALIDATION = 0.05


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How much of the texts is used, and how it lies."""

    documents: int | None
    """At most as many, evenly from all over the texts."""
    characters: int
    """At most as many of each."""
    vocabulary: int
    page_documents: int
    group_documents: int


CUTS = {
    "full": Cut(
        documents=None,
        characters=4000,
        vocabulary=4096,
        page_documents=32,
        group_documents=1024,
    ),
    "medium": Cut(
        documents=3200,
        characters=1200,
        vocabulary=1024,
        page_documents=8,
        group_documents=128,
    ),
    "small": Cut(
        documents=150,
        characters=4000,
        vocabulary=1024,
        page_documents=8,
        group_documents=32,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Tokens to train on and to be judged by."""

    train: pf.dataset.ParquetDataset
    """In the order of its sources."""
    validation: pf.dataset.ParquetDataset
    """Documents from all over it, never trained on."""
    end: int
    """Token behind every document."""
    vocab_size: int
    """Tokens are below it."""


def shared_corpus() -> Path:
    """The folder of the shared corpus: columns ``source`` and ``text``.

    Raises:
        SystemExit: If it is not there.
    """
    shared = os.environ.get("PAGEFEED_SHARED") or ROOT.parent / "shared"
    folder = Path(shared) / "data" / "corpus"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is absent: PAGEFEED_SHARED names its folder")
    return folder


def make_corpus(folder: Path, cut: Cut) -> Corpus:
    """Tokenize texts once, with a small vocabulary that a small model can learn."""
    key = hashlib.blake2b(
        json.dumps([str(folder), asdict(cut)]).encode(), digest_size=6
    )
    path = CACHE / f"{key.hexdigest()}.parquet"
    tokenizer_path = path.with_suffix(".json")
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        texts = _texts(folder, cut)
        tokenizer = _trained(texts, cut.vocabulary)
        tokenizer.save(str(tokenizer_path))
        _write(texts, tokenizer, path, cut)
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    end = tokenizer.token_to_id("<|end|>")
    assert end is not None
    index = pf.PageIndex.build(path, "input_ids")
    assert len(index) <= -(-index.num_rows // cut.page_documents) * 1.5
    parts = pf.parquet(path, column="input_ids").split(
        train=1 - VALIDATION, validation=VALIDATION, seed=1
    )
    return Corpus(
        train=parts["train"],
        validation=parts["validation"],
        end=end,
        vocab_size=tokenizer.get_vocab_size(),
    )


def _texts(folder: Path, cut: Cut) -> list[str]:
    """Texts of all sources in their order; some evenly if there are too many."""
    table = pq.read_table(sorted(folder.glob("*.parquet")), columns=["text"])
    if cut.documents is not None and cut.documents < len(table):
        places = np.linspace(0, len(table) - 1, cut.documents).astype(np.int64)
        table = table.take(places)
    return [text[: cut.characters] for text in table["text"].to_pylist()]


def _trained(texts: list[str], vocabulary: int) -> Tokenizer:
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts[::8], trainer)
    return tokenizer


def _write(texts: list[str], tokenizer: Tokenizer, path: Path, cut: Cut) -> None:
    rows = [encoded.ids for encoded in tokenizer.encode_batch_fast(texts)]
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    partial = path.with_suffix(".partial")
    pq.write_table(
        table,
        partial,
        row_group_size=cut.group_documents,
        max_rows_per_page=cut.page_documents,
        use_dictionary=False,
        compression="zstd",
        write_page_index=True,
    )
    partial.rename(path)
