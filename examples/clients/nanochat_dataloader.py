"""nanochat on pagefeed: copy this file over ``nanochat/dataloader.py``.

Every row begins with BOS, no document is cropped, and a resume continues at the next
sequence, on any number of ranks.
"""

import os
from collections.abc import Iterator
from typing import Any

import torch
from nanochat.common import get_base_dir, get_dist_info
from nanochat.dataset import list_parquet_files

import pagefeed as pf

FIELDS = pf.Fields(
    names=("input_ids", "labels"), shifted=True, across_documents=True, ignore_index=-1
)


def tokenizing_distributed_data_loader_with_state_bos_bestfit(
    tokenizer: Any,
    batch_size: int,
    length: int,
    split: str,
    device: Any = "cuda",
    resume_state_dict: dict[str, Any] | None = None,
) -> Iterator[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
    """Yield inputs, targets, each [batch_size, length], and a state.

    A loader that resumes at the state begins with this batch.
    """
    files = list_parquet_files()
    files = files[:-1] if split == "train" else files[-1:]
    cache = os.path.join(get_base_dir(), "pagefeed")
    texts = pf.parquet(files, column="text", cache_dir=cache)
    bos = tokenizer.get_bos_token_id()
    _, rank, _, world_size = get_dist_info()
    loader = pf.Loader(
        texts.tokenize(pf.Tokenizer(tokenizer)),
        sequences=pf.Packed(length, bos=bos, repeat_bos=True),
        batch_size=batch_size,
        epochs=None,
        seed=1,
        dtype="int64",
        fields=FIELDS,
        format="torch",
        pin_memory="cuda" in str(device),
        rank=rank,
        world_size=world_size,
    )
    if resume_state_dict is not None:
        loader.load_state_dict(resume_state_dict["pagefeed"])
    batches = iter(loader)
    while True:
        # Before next: the training loop saves the state of the batch it has not used.
        state = {"pagefeed": loader.state_dict(), "epoch": loader.epoch + 1}
        state |= {"pq_idx": "any", "rg_idx": "any"}  # The loop prints these.
        batch = next(batches)
        inputs, targets = batch["input_ids"], batch["labels"]
        yield (
            inputs.to(device, non_blocking=True),
            targets.to(device, non_blocking=True),
            state,
        )


def tokenizing_distributed_data_loader_bos_bestfit(
    *args: Any, **kwargs: Any
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield inputs and targets alone."""
    loader = tokenizing_distributed_data_loader_with_state_bos_bestfit(*args, **kwargs)
    for inputs, targets, _ in loader:
        yield inputs, targets
