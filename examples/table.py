"""Train from an Iceberg table that gets rows, and loses some, while the run goes on.

    python examples/table.py FOLDER

The catalog is SQLite in the folder. The run stops in the middle of an epoch; rows are
appended, and mixed into what remains of it. Then a document must go: it is erased, and
the epoch goes on with every other sequence in its place. When it has ended, rows are
deleted from the table, and the next epoch has them no more.
"""

import argparse
from pathlib import Path

import pyarrow as pa
import torch
from pyiceberg.catalog.sql import SqlCatalog

import pagefeed as pf

LENGTH, BATCH_SIZE = 64, 8


def rows(source: str, words: str, count: int) -> pa.Table:
    """Documents of some bytes, as tokens."""
    texts = [f"{n} {words} " * (1 + n % 5) for n in range(count)]
    tokens = [list(text.encode()) for text in texts]
    column = pa.array(tokens, pa.list_(pa.int32()))
    urls = [f"{source}/{n}" for n in range(count)]
    return pa.table({"source": [source] * count, "url": urls, "tokens": column})


def loader_of(catalog: SqlCatalog, *erased: str) -> pf.Loader:
    """Name the current snapshot without some documents, cut and shuffled."""
    data = pf.iceberg("corpus.web", catalog=catalog, column="tokens")
    for url in erased:
        data = data.erase(where=f"url == '{url}'")
    print(f"{data}: {len(data)} rows")
    sequences = pf.Windows(LENGTH, eos=0, tail="drop")
    return pf.Loader(
        data,
        sequences=sequences,
        batch_size=BATCH_SIZE,
        seed=1,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=True),
        format="torch",
    )


def main() -> None:
    """Train three epochs, each over another snapshot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(
        "example",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=folder.as_uri(),
    )
    catalog.create_namespace("corpus")
    first = rows("news", "the quick brown fox", 400)
    table = catalog.create_table("corpus.web", schema=first.schema)
    table.append(first)

    model = torch.nn.Embedding(256, 256)  # The next byte, by the last one.
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def train(loader: pf.Loader, steps: int | None = None) -> float:
        losses = []
        for batch in loader:
            logits = model(batch["input_ids"]).flatten(0, 1)
            labels = batch["labels"].flatten()
            loss = torch.nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
        return losses[-1]

    loader = loader_of(catalog)
    train(loader, steps=10)
    state = loader.state_dict()
    table.append(rows("web", "jumps over the lazy dog", 200))

    loader = loader_of(catalog)
    loader.load_state_dict(state, grown="next-epoch")
    print(f"epoch {loader.epoch} goes on at step {loader.step}")
    train(loader, steps=10)
    state = loader.state_dict()

    loader = loader_of(catalog, "news/4")
    loader.load_state_dict(state, grown="next-epoch")
    print(f"erased: {loader.state_dict()['erased']}")
    print(f"epoch {loader.epoch} has {loader.num_steps_left} steps left")
    train(loader)

    table.delete("source == 'web' or url == 'news/4'")
    loader = loader_of(catalog)
    loader.set_epoch(1)
    print(f"epoch {loader.epoch} has {loader.num_steps_left} steps")
    print(f"loss {train(loader):.2f}")
    catalog.close()


if __name__ == "__main__":
    main()
