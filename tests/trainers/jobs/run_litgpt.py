"""litgpt on ranks of the CPU: DDP in place of its FSDP, which needs GPUs."""

from typing import Any

import litgpt.pretrain
from lightning.fabric.strategies import DDPStrategy
from litgpt.__main__ import main


class OnCpus:
    """What litgpt makes in place of its strategy, and does not take for it."""

    def __new__(cls, **_settings: Any) -> Any:
        """Return the strategy that runs without GPUs."""
        return DDPStrategy(process_group_backend="gloo")


litgpt.pretrain.FSDPStrategy = OnCpus

if __name__ == "__main__":
    main()
