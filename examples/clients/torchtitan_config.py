"""torchtitan on pagefeed: a trainer's config whose data are texts of Parquet.

PYTHONPATH=examples/clients torchrun -m torchtitan.train --module torchtitan_config
    --config llama3 --hf_assets_path tokenizer/ --dataloader.texts corpus/web
"""

from dataclasses import dataclass, replace
from typing import Any

from torchtitan.models.llama3.config_registry import llama3_debugmodel
from torchtitan.trainer import Trainer

import pagefeed as pf
from pagefeed.integrations.torchtitan import PagefeedDataLoader

FIELDS = pf.Fields(names=("input_ids", "labels", "position_ids"), shifted=True)


class ParquetTexts(PagefeedDataLoader):
    """Texts of Parquet, tokenized by torchtitan's tokenizer as they are read."""

    @dataclass(kw_only=True, slots=True)
    class Config(PagefeedDataLoader.Config):
        """What the command line may set."""

        texts: str = "corpus/web"
        """Files or folders with a column ``text``."""
        seed: int = 1
        """Seed of the order."""

    def __init__(
        self,
        config: Config,
        *,
        tokenizer: Any,
        seq_len: int,
        local_batch_size: int,
        **others: Any,
    ) -> None:
        def make(rank: int, world_size: int) -> pf.Loader:
            texts = pf.parquet(config.texts, column="text")
            return pf.Loader(
                texts.tokenize(pf.Tokenizer(tokenizer)),
                sequences=pf.Packed(
                    seq_len,
                    bos=tokenizer.bos_id,
                    eos=tokenizer.eos_id,
                    # A part of a long document learns its first token, too.
                    repeat_bos=tokenizer.bos_id is not None,
                ),
                batch_size=local_batch_size,
                seed=config.seed,
                epochs=None,
                fields=FIELDS,
                format="torch",
                rank=rank,
                world_size=world_size,
            )

        sizes = {"seq_len": seq_len, "local_batch_size": local_batch_size}
        super().__init__(replace(config, make=make), **sizes, **others)


def llama3() -> Trainer.Config:
    """Return the settings of the small Llama 3, and of its data."""
    config = llama3_debugmodel()
    config.dataloader = ParquetTexts.Config()
    config.validator.enable = False
    return config
