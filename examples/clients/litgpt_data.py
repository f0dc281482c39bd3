"""litgpt on pagefeed: a data module over Parquet with texts, for ``litgpt pretrain``.

PYTHONPATH=examples/clients litgpt pretrain pythia-14m --tokenizer_dir tokenizer/
    --data litgpt_data.ParquetTexts
    --data.train corpus/web --data.validation corpus/code
"""

from operator import itemgetter
from typing import Any

from litgpt.data import DataModule
from torch.utils.data import DataLoader

import pagefeed as pf
from pagefeed.torch import as_dataset


class Batches(DataLoader):
    """Tensors [batch_size, max_seq_length + 1]; Fabric saves their position."""

    def __init__(self, loader: pf.Loader) -> None:
        tokens = itemgetter("input_ids")
        super().__init__(as_dataset(loader), batch_size=None, collate_fn=tokens)
        self.loader = loader

    def state_dict(self) -> dict[str, Any]:
        """Return the position, the same on every rank."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at a position, on any number of ranks."""
        self.loader.load_state_dict(state)


class ParquetTexts(DataModule):
    """Texts of Parquet, tokenized as they are read.

    Args:
        train: Files or folders with texts.
        validation: The same, to validate on.
        column: The column with the texts.
        seed: Seed of the order.
    """

    def __init__(
        self, train: str, validation: str, column: str = "text", seed: int = 42
    ) -> None:
        super().__init__()
        self.paths = {"train": train, "validation": validation}
        self.column, self.seed = column, seed

    def connect(
        self, tokenizer: Any = None, batch_size: int = 1, max_seq_length: int = -1
    ) -> None:
        """Keep what the trainer says."""
        self.tokenizer, self.batch_size = tokenizer, batch_size
        self.length = max_seq_length + 1  # Its targets are its inputs, one place on.

    def train_dataloader(self) -> Batches:
        """Return batches without end."""
        return Batches(self._loader("train", epochs=None, seed=self.seed))

    def val_dataloader(self) -> Batches:
        """Return one epoch, in the same order every time."""
        return Batches(self._loader("validation", shuffle=None))

    def _loader(self, part: str, **settings: Any) -> pf.Loader:
        texts = pf.parquet(self.paths[part], column=self.column)
        return pf.Loader(
            texts.tokenize(pf.Tokenizer(self.tokenizer)),
            # The last token of a window is the first of the next: a target once.
            sequences=pf.Windows(
                self.length, bos=self.tokenizer.bos_id, overlap=1, tail="drop"
            ),
            batch_size=self.batch_size,
            format="torch",
            **settings,
        )
