"""State machines of whole runs of texts with images."""

import functools
import json
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

import pagefeed as pf
from made import images
from models.machines import PADDING, SIZES, Fuse
from models.run_model import RunModel
from models.runs import EpochMachine, folder

COUNT = 160

CUTS: dict[str, Any] = {
    "packed": pf.Packed(256, eos=0, split="never"),
    "documents": pf.Documents([], max_length=300),
}


@functools.cache
def made() -> list[images.Row]:
    return images.rows(COUNT)


@functools.cache
def data() -> Any:
    place = folder() / "images"
    place.mkdir()
    images.write(place, made(), row_group_size=20, data_page_size=500)
    return images.dataset(place, folder() / "of images")


def told_of(batch: dict[str, Any]) -> list[str | int]:
    """What tells each sequence of a batch: its tokens, and its images."""
    ids, found = batch["input_ids"], batch["images"]
    rows: list[list[Any]] = [[] for _ in ids]
    for number, image in enumerate(found["data"]):
        place = (found[name][number] for name in ("sequence", "first_token"))
        sequence, first = map(int, place)
        size, tokens = found["size"][number].tolist(), int(found["num_tokens"][number])
        row, of_row = json.loads(bytes(image)[len(images.png(1, 1)) :])
        assert of_row == found["number"][number]
        assert size == [*made()[row].sizes[of_row]]
        assert tokens == images.tokens(*size)
        assert (ids[sequence, first : first + tokens] == data().image_id).all()
        rows[sequence].append([row, of_row, first])
    spots = (ids == data().image_id).sum()
    assert spots == found["num_tokens"].sum()
    return [
        json.dumps([row[row >= 0].tolist(), beside]) if (row >= 0).any() else PADDING
        for row, beside in zip(ids, rows, strict=True)
    ]


class Tell(Fuse):
    """Leaves of a batch what tells its sequences."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"told": told_of(super().__call__(batch))}


def loader(kind: str, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": CUTS[kind],
        "batch_size": 1,
        "seed": 3,
        "padding": PADDING,
        "num_threads": 2,
        "memory": "32MiB",
        "rank": 0,
        "world_size": 1,
    }
    return pf.Loader(data(), **settings | options)


@functools.cache
def epoch_told(kind: str, epoch: int) -> list[Any]:
    """What tells the sequences of an epoch, one by one on a single rank."""
    one = loader(kind, transform=Tell())
    one.set_epoch(epoch)
    return [told for batch in one for told in batch["told"]]


class ImageMachine(EpochMachine):
    """Texts with images, packed."""

    kind: ClassVar[str] = "packed"

    @initialize(sizes=SIZES, epochs=st.sampled_from([1, 1, 2]), drop_last=st.booleans())
    def start(self, sizes: tuple[int, int], epochs: int, drop_last: bool) -> None:
        self.begin(
            RunModel(
                batch_size=sizes[0],
                world_size=sizes[1],
                epoch_size=len(epoch_told(self.kind, 0)),
                epochs=epochs,
                drop_last=drop_last,
            )
        )

    @classmethod
    def tokens(cls, epoch: int) -> list[Any]:  # type: ignore[override]
        return epoch_told(cls.kind, epoch)

    @staticmethod
    def tell(batch: dict[str, Any]) -> list[Any]:
        told: list[Any] = batch["told"]
        return told

    def make(self, rank: int, world_size: int, batch_size: int) -> pf.Loader:
        return loader(
            self.kind,
            rank=rank,
            world_size=world_size,
            batch_size=batch_size,
            epochs=self.model.epochs,
            drop_last=self.model.drop_last,
            transform=Tell(),
        )

    def token(self, position: int) -> Any:
        epoch, place = divmod(position, len(self.tokens(0)))
        return self.tokens(epoch)[place]

    def check_origins(self, origins: list[Any], told: Any) -> None:
        """The rows with images of a sequence are among those that are located."""
        rows = [row for row, _, _ in json.loads(told)[1]]
        half = -(-COUNT // 2)
        located = {half * int(o.file[-len("0.parquet")]) + o.row for o in origins}
        assert {*rows} <= located
        assert len(located) == len(origins)


class DocumentsMachine(ImageMachine):
    """The same, a row each."""

    kind = "documents"


def rows_in(kind: str, epoch: int = 0) -> list[tuple[list[int], list[list[int]]]]:
    """Tokens, and images with their row, number and first token, of all sequences."""
    return [json.loads(told) for told in epoch_told(kind, epoch)]


def tokens_of(row: images.Row) -> list[int]:
    """The tokens that a row should have."""
    found: list[int] = []
    sizes = iter(row.sizes)
    for token in images.tokenizer().encode(row.text).tolist():
        is_image = token == data().image_id
        found += [token] * (images.tokens(*next(sizes)) if is_image else 1)
    return found
