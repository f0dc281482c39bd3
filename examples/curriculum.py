"""A curriculum in two stages: general text, then a cooldown on one good source.

    pagefeed demo --data corpus
    python examples/curriculum.py corpus --folder run [--steps 120]

A small language model is trained on a mixture of ``corpus/web`` and ``corpus/code``,
stopped in the middle of the cooldown, and goes on there with other weights.
"""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional

import pagefeed as pf
from pagefeed.reports import forecast, report

LENGTH = 32
BATCH_SIZE = 8


class Model(torch.nn.Module):
    """A language model that trains in seconds."""

    def __init__(self, vocabulary: int, width: int = 32) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.recurrent = torch.nn.GRU(width, width, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the loss of predicting each token from those before it."""
        hidden, _ = self.recurrent(self.embedding(ids[:, :-1]))
        logits = hidden @ self.embedding.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def make_loader(corpus: Path, steps: int, cooldown: dict[str, float]) -> pf.Loader:
    """The curriculum: for two thirds mostly general text, then the cooldown."""
    general = pf.parquet(corpus / "web", column="input_ids")
    good = pf.parquet(corpus / "code", column="input_ids")
    mixture = pf.mix(
        {"general": (general, 0.9), "good": (good, 0.1)},
        stages=[pf.Stage(start_step=2 * steps // 3, weights=cooldown, anneal=5)],
        max_steps=steps,
    )
    return pf.Loader(
        mixture,
        sequences=pf.Windows(LENGTH, tail="drop"),
        batch_size=BATCH_SIZE,
        seed=1,
        format="torch",
    )


def train(
    model: Model, optimizer: torch.optim.Optimizer, loader: pf.Loader, stop: int
) -> dict[str, object]:
    """Train up to a step and return the state there."""
    state = loader.state_dict()
    for batch in loader:
        loss = model(batch["input_ids"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = loader.state_dict()
        if state["step"] % 20 == 0:
            print(f"step {state['step']:4}: loss {loss.item():.3f}")
        if state["step"] == stop:
            break
    return state


def main() -> None:
    """Tokenize, train, stop, and go on with other weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="where to write")
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    corpus, folder, steps = options.corpus, options.folder, options.steps
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)

    tokenizer = Tokenizer.from_file(str(corpus / "tokenizer.json"))
    model = Model(tokenizer.get_vocab_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = make_loader(corpus, steps, {"general": 0.3, "good": 0.7})
    state = train(model, optimizer, loader, stop=5 * steps // 6)
    (folder / "state.json").write_text(json.dumps(state))
    print(f"stopped at step {state['step']}, with {len(json.dumps(state))} bytes")

    # In the middle of the cooldown: nothing but the good source from here on.
    loader = make_loader(corpus, steps, {"good": 1})
    loader.load_state_dict(json.loads((folder / "state.json").read_text()))
    plan = forecast(loader)
    (folder / "report.html").write_text(report(loader))
    train(model, optimizer, loader, stop=steps)
    for stage in plan.stages:
        shares = ", ".join(f"{name} {part:.1%}" for name, part in stage.shares.items())
        print(f"from step {stage.first_step:4} on: {shares}")
    print(f"see {folder / 'report.html'}")


if __name__ == "__main__":
    main()
