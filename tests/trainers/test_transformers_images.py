"""Tokens of images are those of transformers, and a small model trains on images."""

import io
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

transformers = pytest.importorskip(
    "transformers", reason="make test-trainers ARGS=transformers"
)
pytest.importorskip("PIL", reason="make test-trainers ARGS=transformers")

import torch  # noqa: E402 - likewise
from PIL import Image  # noqa: E402

import pagefeed as pf  # noqa: E402
from made import images as made  # noqa: E402
from made.shared_data import ROOT  # noqa: E402

PATCH = 16
HIDDEN = 32


def guide() -> dict:
    """The functions that the guide shows."""
    text = (ROOT / "docs/explanation/images.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [block] = [each for each in blocks if "def qwen2_vl" in each]
    names: dict = {}
    exec("from functools import lru_cache\nfrom math import ceil, floor, sqrt", names)
    exec(block, names)
    return names


def sizes(count, most):
    rng = np.random.default_rng(5)
    return (rng.beta(1, 3, (count, 2)) * (most - 12) + 12).astype(int).tolist()


def processors():
    """Of each encoder, its processor, and the tokens of what it made of an image."""
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import (
        GotOcr2ImageProcessorPil,
    )
    from transformers.models.llava.image_processing_pil_llava import (
        LlavaImageProcessorPil,
    )
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    llava = LlavaImageProcessorPil(
        size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}
    )
    tiles = GotOcr2ImageProcessorPil(
        size={"height": 448, "width": 448}, crop_to_patches=True, max_patches=12
    )
    native = Qwen2VLImageProcessorPil()
    return {
        "llava": (llava, lambda out: np.prod(out["pixel_values"].shape[-2:]) // 14**2),
        "internvl": (tiles, lambda out: 256 * int(out["num_patches"][0])),
        "qwen2_vl": (native, lambda out: int(out["image_grid_thw"].prod()) // 4),
    }


@pytest.mark.parametrize("name", ["llava", "internvl", "qwen2_vl"])
def test_tokens_are_those_of_the_image_processor(name):
    tokens, (processor, count) = guide()[name], processors()[name]
    # What the fixed grid says is of the pixels alone: the others tell counts, too.
    for width, height in sizes(1000, 300) if name == "llava" else sizes(25, 1200):
        image = Image.new("RGB", (width, height), (10, 200, 30))
        found = processor(images=[image], return_tensors="np")
        assert tokens(width, height) == count(found), (width, height)
    if name == "llava":
        return
    each = {"internvl": 256, "qwen2_vl": 1 / 4}[name]
    counts = set()
    for width, height in sizes(1000, 4000):
        patches = processor.get_number_of_image_patches(height, width, {})
        assert tokens(width, height) == each * patches, (width, height)
        counts.add(patches)
    assert len(counts) > 8


def write_pictures(folder: Path) -> None:
    """Texts that name the colour of the images before them."""
    rng = np.random.default_rng(3)
    colours = {"red": (220, 0, 0), "green": (0, 220, 0), "blue": (0, 0, 220)}
    texts, pictures = list[str](), list[list[bytes]]()
    for _ in range(240):
        chosen = rng.choice([*colours], int(rng.integers(0, 4))).tolist()
        texts.append(" ".join(f"{made.PLACEHOLDER} is {name}" for name in chosen))
        pictures.append([])
        for name in chosen:
            out = io.BytesIO()
            size = rng.integers(17, 60, 2).tolist()
            Image.new("RGB", size, colours[name]).save(out, "PNG")
            pictures[-1].append(out.getvalue())
    table = pa.table({"text": texts, "images": pictures})
    pq.write_table(table, folder / "0.parquet", row_group_size=30, write_batch_size=4)


def patches_of(data) -> np.ndarray:
    """The patches of an image, those at its ends filled up: float32 [patches, 768]."""
    pixels = np.asarray(Image.open(io.BytesIO(data)), dtype=np.float32) / 255
    high, wide = (-(-side // PATCH) for side in pixels.shape[:2])
    whole = np.zeros((high * PATCH, wide * PATCH, 3), dtype=np.float32)
    whole[: pixels.shape[0], : pixels.shape[1]] = pixels
    parts = whole.reshape(high, PATCH, wide, PATCH, 3).swapaxes(1, 2)
    return parts.reshape(high * wide, -1)


class SmallModel(torch.nn.Module):
    """A Llama that sees patches of images in the place of their tokens."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
        )
        self.eyes = torch.nn.Linear(PATCH * PATCH * 3, HIDDEN)
        self.llama = transformers.LlamaForCausalLM(config)

    def forward(self, batch):
        embedded = self.llama.get_input_embeddings()(batch["input_ids"])
        images = batch["images"]
        places = zip(images["sequence"], images["first_token"], strict=True)
        for (sequence, first), patches in zip(places, images["data"], strict=True):
            seen = self.eyes(torch.from_numpy(patches))
            embedded[sequence, first : first + len(seen)] = seen
        return self.llama(inputs_embeds=embedded, labels=batch["labels"]).loss


def train(data, steps, saved=None):
    """Train some steps; return losses, and what a checkpoint holds."""
    torch.set_num_threads(1)
    loader = pf.Loader(
        data,
        sequences=pf.Packed(128, eos=0, split="never"),
        batch_size=8,
        seed=1,
        epochs=None,
        fields=("input_ids", "labels"),
        format="torch",
    )
    model = SmallModel(data.tokenizer.vocab_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    losses = []
    for batch in loader:
        loss = model(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == steps:
            break
    checkpoint = {
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
    }
    loader.close()
    return losses, checkpoint


def test_a_small_model_trains_and_resumes_with_equal_losses(tmp_path):
    write_pictures(tmp_path)
    data = made.dataset(tmp_path, decode=patches_of)
    whole, _ = train(data, 24)
    before, checkpoint = train(data, 9)
    after, _ = train(data, 15, checkpoint)
    assert before + after == whole
    assert np.mean(whole[-4:]) < 0.6 * np.mean(whole[:4])
