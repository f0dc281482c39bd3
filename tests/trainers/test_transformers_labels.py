"""Labels of packed batches are those of the collators of transformers and TRL."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.integrations.dialects import flattened

REASON = "make test-trainers ARGS=transformers"
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("transformers", reason=REASON)
pytest.importorskip("trl", reason=REASON)

FIELDS = ("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen")


def packings(folder: Path, given: bool) -> list[dict[str, Any]]:
    """Joined batches of random packings; given labels are a copy of the tokens."""
    draw = random.Random(4)
    rows = [
        [draw.randrange(1, 999) for _ in range(draw.choice([1, 2, 5, 9, 30, 70]))]
        for _ in range(4_000)
    ]
    columns = {"input_ids": rows, "labels": rows}
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=500)
    loader = pf.Loader(
        pf.parquet(folder, column="input_ids", aligned=["labels"] if given else []),
        sequences=pf.Packed(32, eos=0, learn_eos=True),
        batch_size=1,
        epochs=None,
        format="torch",
        fields=pf.Fields(names=FIELDS),
    )
    return [flattened(batch) for batch, _ in zip(loader, range(1_000), strict=False)]


@pytest.mark.parametrize("given", [False, True])
def test_of_a_thousand_random_packings(tmp_path: Path, given: bool):
    from transformers import DataCollatorWithFlattening
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    of_transformers = DataCollatorWithFlattening(
        return_flash_attn_kwargs=True, return_seq_idx=True, return_tensors="pt"
    )
    of_trl = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    batches = packings(tmp_path, given)
    assert len(batches) == 1_000
    for batch in batches:
        ends = batch["cu_seq_lens_q"].tolist()
        tokens, labels = batch["input_ids"][0], batch["labels"][0]
        documents = [
            {"input_ids": tokens[a:b].tolist(), "labels": tokens[a:b].tolist()}
            for a, b in pairwise(ends)
        ]
        padding = {a for a, b in pairwise(ends) if not any(tokens[a:b])}
        is_own = torch.ones(len(tokens), dtype=torch.bool)
        for begin in padding:  # They know of no padding, whose label is -100 here.
            is_own[begin : ends[ends.index(begin) + 1]] = False
        assert (labels[~is_own] == -100).all()
        for collate in (of_transformers, of_trl):
            theirs = collate(documents)
            assert torch.equal(labels[is_own], theirs["labels"][0][is_own])
            for name in ("position_ids", "seq_idx", "cu_seq_lens_q", "cu_seq_lens_k"):
                assert torch.equal(batch[name], theirs[name]), name
                assert batch[name].dtype == theirs[name].dtype
            assert batch["max_length_q"] == int(theirs["max_length_q"])
