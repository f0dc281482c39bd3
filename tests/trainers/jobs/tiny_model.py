"""The model of the jobs with PyTorch, and the eyes on what it sees."""

from typing import Any

import torch

from job import LENGTH, VOCABULARY

torch.set_num_threads(1)


class Seen:
    """First tokens of the rows that a model saw while training, step by step."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.steps: list[list[int]] = []
        self._hook = model.register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if model.training:
            ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
            self.steps.append(ids.reshape(-1, LENGTH)[:, 0].tolist())

    def take(self) -> list[list[int]]:
        """The steps so far; the model is not watched any longer."""
        self._hook.remove()
        return self.steps


class Model(torch.nn.Module):
    """The smallest language model: its loss tells what it saw, and in what order."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(VOCABULARY, 8)
        self.head = torch.nn.Linear(8, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.loss(self.logits(input_ids), labels)

    def logits(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Of the token behind each: [rows, length, vocabulary]."""
        logits: torch.Tensor = self.head(self.embedding(input_ids))
        return logits

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean over labels, each at its token."""
        return torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        )
