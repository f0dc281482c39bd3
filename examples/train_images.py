"""Train on images and texts: PNG bytes in Parquet, decoded ahead of the model.

    python examples/train_images.py FOLDER

Learns which caption of a batch belongs to which picture.
"""

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import nn

import pagefeed as pf

COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (20, 40, 210)}
SIZE, BATCH, LETTERS, STEPS = 16, 12, 6, 60


def write(folder: Path, count: int = 600) -> None:
    """Write rows of a PNG, its caption, and the tokens of this."""
    rows = []
    for number in range(count):
        name, color = [*COLORS.items()][number % len(COLORS)]
        shade = tuple(value + number % 7 for value in color)
        png = io.BytesIO()
        Image.new("RGB", (SIZE, SIZE), shade).save(png, "PNG")
        caption = f"a {name} one"
        ids = [ord(letter) for letter in caption[:LETTERS]]
        rows.append({"image": png.getvalue(), "caption": caption, "input_ids": ids})
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "pairs.parquet")


def decode(png: memoryview) -> torch.Tensor:
    """Return pixels [3, SIZE, SIZE]; called for each row, on threads."""
    with Image.open(io.BytesIO(png)) as image:
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(SIZE, SIZE, 3).permute(2, 0, 1) / 255


folder = Path(sys.argv[1])
write(folder)
loader = pf.Loader(
    pf.parquet(folder, column="input_ids"),
    sequences=pf.Documents(columns=["image", "caption"], max_length=LETTERS),
    batch_size=BATCH,
    shuffle="row",
    format="torch",
    epochs=None,
    decode={"image": decode},
)
torch.manual_seed(0)
images = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 16))
texts = nn.Sequential(nn.Embedding(128, 8), nn.Flatten(), nn.Linear(8 * LETTERS, 16))
weights = [*images.parameters(), *texts.parameters()]
optimizer = torch.optim.AdamW(weights, lr=3e-3)
for step, batch in zip(range(STEPS), loader, strict=False):
    scores = images(torch.stack(batch["image"])) @ texts(batch["input_ids"]).T
    captions = batch["caption"]
    belong = torch.tensor([[one == other for other in captions] for one in captions])
    loss = nn.functional.binary_cross_entropy_with_logits(scores, belong.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (0, STEPS - 1):
        print(f"step {step}: loss {loss:.3f}")
