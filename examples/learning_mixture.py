"""A mixture that learns: the weights follow what the model still learns from.

    python examples/learning_mixture.py --folder run [--steps 120]

Two datasets are written: one with a pattern that takes time to learn, and one of random
tokens, from which nothing is learned. A small model is trained under Adaptive Data
Optimization, which takes more of the first. The training is stopped, resumed from its
state, and at last the whole run is dealt again without its losses.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from policies.ado import ADO
from torch.nn import functional

import pagefeed as pf

VOCABULARY, LENGTH, BATCH_SIZE = 64, 32, 16
PRIOR = {"noise": 0.5, "pattern": 0.5}


def write(folder: Path, rng: np.random.Generator) -> None:
    """Write a pattern, where each token is a function of the last, and noise."""
    successor = rng.permutation(VOCABULARY)
    rows: dict[str, list[list[int]]] = {"noise": [], "pattern": []}
    for _ in range(2000):
        rows["noise"].append(rng.integers(0, VOCABULARY, LENGTH).tolist())
        row = [int(rng.integers(0, VOCABULARY))]
        while len(row) < LENGTH:
            row.append(int(successor[row[-1]]))
        rows["pattern"].append(row)
    for name, values in rows.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        table = pa.table({"input_ids": pa.array(values, pa.list_(pa.int32()))})
        pq.write_table(table, folder / name / "a.parquet", row_group_size=200)


def make_loader(folder: Path, steps: int) -> pf.Loader:
    """The mixture, with the number of each sequence's dataset in its batches."""
    parts = {
        name: (pf.parquet(folder / name, column="input_ids"), weight)
        for name, weight in PRIOR.items()
    }
    return pf.Loader(
        pf.mix(parts, max_steps=steps),
        sequences=pf.Windows(LENGTH),
        batch_size=BATCH_SIZE,
        seed=1,
        format="torch",
        fields=("input_ids", "labels", "dataset_ids"),
    )


def train(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: pf.Loader,
    stop: int,
) -> list[int]:
    """Train up to a step under the policy; return the datasets of all sequences."""
    policy = ADO(PRIOR, warmup=5, least=0.05)
    learner = pf.mixing.Learner(loader, policy, every=5)
    dealt: list[int] = []
    for batch in loader:
        logits = model(batch["input_ids"])
        loss = functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner.add(batch["dataset_ids"], batch["labels"], logits=logits)
        learner.step()
        dealt += batch["dataset_ids"].tolist()
        if loader.step % 20 == 0:
            means = ", ".join(
                f"{name} {mean:.2f}" for name, mean in learner.means().items()
            )
            print(f"step {loader.step:4}: {means}")
        if loader.step == stop:
            break
    return dealt


def main() -> None:
    """Train, stop, resume, and deal the run again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="where to write")
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    torch.manual_seed(1)
    write(options.folder, np.random.default_rng(1))

    model = torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, 32), torch.nn.Linear(32, VOCABULARY)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = make_loader(options.folder, options.steps)
    dealt = train(model, optimizer, loader, stop=options.steps // 2)
    path = options.folder / "state.json"
    path.write_text(json.dumps(loader.state_dict()))
    print(f"stopped at step {loader.step}, with {path.stat().st_size} bytes")

    loader = make_loader(options.folder, options.steps)
    loader.load_state_dict(json.loads(path.read_text()))
    dealt += train(model, optimizer, loader, stop=options.steps)
    for name, begin in (("first", 0), ("last", -20 * BATCH_SIZE)):
        part = dealt[begin : begin + 20 * BATCH_SIZE or None]
        share = part.count(loader.dataset_names.index("pattern")) / len(part)
        print(f"pattern in the {name} 20 steps: {share:.0%}")

    again = make_loader(options.folder, options.steps)
    again.load_state_dict(loader.state_dict(), replay=True)
    repeated = [number for batch in again for number in batch["dataset_ids"].tolist()]
    print(f"dealt again without losses: {repeated == dealt}")


if __name__ == "__main__":
    main()
