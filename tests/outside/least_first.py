"""A policy: the dataset with the largest loss gets the largest weight."""

from collections.abc import Mapping


class LargestLoss:
    """Weights in proportion to the last losses; remembers how often it was asked."""

    def __init__(self) -> None:
        self.num_updates = 0

    def update(self, step: int, losses: Mapping[str, float]) -> dict[str, float]:
        assert step > 0
        self.num_updates += 1
        return dict(losses)

    def state_dict(self) -> dict[str, int]:
        return {"num_updates": self.num_updates}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.num_updates = state["num_updates"]
