"""Torch, for modules of which a part needs it: tests are skipped where it is absent."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("torch"), name)

    torch = _Torch()


def as_dataset(loader: Any) -> Any:
    """The dataset of torch that a loader is."""
    from pagefeed.torch import as_dataset

    return as_dataset(loader)


__all__ = ["as_dataset", "torch"]
