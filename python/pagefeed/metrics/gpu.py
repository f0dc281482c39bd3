"""Utilisation and memory of the accelerator of this process, by NVIDIA's library."""

from __future__ import annotations

import os
import sys
from typing import Any

from pagefeed.core._base import require
from pagefeed.errors import UnsupportedError


def gpu_numbers() -> dict[str, float]:
    """Return utilisation and used memory of the GPU that this process uses, now.

    Raises:
        MissingDependencyError: If nvidia-ml-py is not installed.
        UnsupportedError: If there is no driver, or it does not tell.
    """
    nvml: Any = require("pynvml", extra="gpu", purpose="gpu=True")
    try:
        nvml.nvmlInit()
        device = _device(nvml)
        rates = nvml.nvmlDeviceGetUtilizationRates(device)
        memory = nvml.nvmlDeviceGetMemoryInfo(device)
    except nvml.NVMLError as error:
        raise UnsupportedError(
            f"gpu=True: NVIDIA's driver does not tell of the GPU: {error}. Leave gpu "
            "out where there is none"
        ) from error
    return {
        "gpu/utilisation_fraction": rates.gpu / 100,
        "gpu/memory_bytes": float(memory.used),
        "gpu/memory_fraction": memory.used / max(1, memory.total),
    }


def _device(nvml: Any) -> Any:
    """Return the GPU that torch uses here, or else that of the local rank."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        number = torch.cuda.current_device()
    else:
        number = int(os.environ.get("LOCAL_RANK", "0"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in visible.split(",") if name.strip()]
    name = names[min(number, len(names) - 1)] if names else str(number)
    if name.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)
