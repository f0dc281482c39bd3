"""torchtitan's own trainer and command line, on the CPU.

Its kernels need a GPU, so two stand in for them: a device module that says what the
trainer asks of CUDA, and attention by torch's own kernel with the same mask.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import _utils
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import scaled_dot_product_attention


class Processor(ModuleType):
    """``torch.cpu`` with what the trainer asks of a GPU."""

    def __getattr__(self, name):
        return getattr(torch.cpu, name)

    def device_count(self):
        return 1

    def current_device(self):
        return 0

    def get_device_name(self, *_):
        return "cpu"

    def get_device_properties(self, *_):
        return SimpleNamespace(total_memory=1 << 30, name="cpu")

    def reset_peak_memory_stats(self, *_):
        pass

    def empty_cache(self):
        pass

    def memory_stats(self, *_):
        return {}


def attend(query, key, value, *, block_mask, scale, enable_gqa, **_):
    sizes = (query.shape[0], 1, query.shape[2], key.shape[2])
    mask = create_mask(block_mask.mask_mod, *sizes, device="cpu")
    out = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scale, enable_gqa=enable_gqa
    )
    return out, None


def main():
    # Before torchtitan is imported: it asks once.
    patches: Any = _utils
    patches._get_available_device_type = lambda: "cpu"
    patches._get_device_module = lambda _: Processor("cpu")
    from torchtitan.models.common.attention import FlexAttention
    from torchtitan.train import main as train

    FlexAttention._compiled_flex_attn = staticmethod(attend)
    train()


if __name__ == "__main__":
    main()
