"""Batches of tokens with the images that lie in them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from pagefeed import _core
from pagefeed.contract import (
    NO_SEQUENCE,
    Batch,
    BatchPlan,
    Feed,
    LoaderSettings,
    Run,
    provided,
)
from pagefeed.core._base import Int64Array, format_bytes
from pagefeed.core.batches import ProcessEngine, make_converter
from pagefeed.core.sequences import Segments, numbers_of
from pagefeed.errors import DataError, InvalidArgumentError, PagefeedWarning
from pagefeed.images.columns import Images, images_of, pyarrow
from pagefeed.images.engine import Delivered, Documents, ImageEngine, ImagePlan
from pagefeed.images.survey import check_cut, check_images

__all__ = ["ImageFeed"]

TOKENS_SHARE = 3
"""Part of the memory that is for tokens; the rest is for images."""


class ImageFeed(Feed):
    """Adds images to the batches of tokens.

    Args:
        settings: Of the loader.
        run: What it delivers; some of its datasets have images.
        make: Returns what makes batches of tokens.

    Raises:
        InvalidArgumentError: If images would be cut, or do not fit into the memory.
    """

    def __init__(
        self, settings: LoaderSettings, run: Run, make: Callable[[Any, Any], Any]
    ) -> None:
        self._settings, self._run = settings, run
        self._parts = {
            number: cast("Any", dataset)
            for number, dataset in enumerate(run.datasets)
            if hasattr(dataset, "image_id")
        }
        """The datasets that have images, by their numbers."""
        first, *others = self._parts.values()
        for other in others:
            if other.image_id != first.image_id or other.decode != first.decode:
                raise InvalidArgumentError(
                    "datasets of a mixture have unlike placeholder= or decode=: give "
                    "all of them the same"
                )
        self._image_id, self._decode = first.image_id, first.decode
        check_cut(settings)
        of_tokens = replace(settings, memory=settings.memory // TOKENS_SHARE)
        memory = settings.engine_bytes - of_tokens.engine_bytes
        self._room = check_images(settings, run, self._parts, memory)
        self._tokens: Feed = make(of_tokens, run)
        self._convert = make_converter(settings.format, pin_memory=False)
        pages = [len(part.numbers.source) for part in self._parts.values()]
        sizes = np.cumsum([0, *pages]).tolist()
        self._first_page = dict(zip(self._parts, sizes, strict=False))
        self._engine = ProcessEngine(self._started)

    def _started(self) -> Any:
        """Start all threads."""
        threads, (memory, ahead, of_step) = self._settings.num_threads, self._room
        images = _core.Engine(
            [],
            columns=[part.numbers.source.handle for part in self._parts.values()],
            names=["images"],
            num_threads=threads,
            memory=memory,
            batch_rows=1,  # So that no more waits than is needed.
            verify_checksums=[part.verify_checksums for part in self._parts.values()],
        )
        made = ImageEngine(self._tokens.engine(), images, self._made)
        if self._decode is None:
            return made
        return provided("engine that decodes ahead")(
            made,
            self._decode,
            self._sized,
            threads,
            most_bytes=ahead,
            of_step=of_step,
        )

    def close(self) -> None:
        """End this process's engines, and all threads."""
        super().close()
        self._tokens.close()

    def dataset_ids(self, made: Batch, of_sequences: Any) -> Any:
        """Return the dataset of each row of a batch, by those of its sequences."""
        return self._tokens.dataset_ids(made, of_sequences)

    def plan(self, sequences: Int64Array) -> ImagePlan:
        """Plan whole batches of ``sequences``, in their order."""
        found = self._documents_of(sequences.reshape(-1))
        num_batches, rows = sequences.shape
        borders = np.searchsorted(found.place, np.arange(num_batches + 1) * rows)
        each = [
            Documents(*(column[begin:end] for column in found))
            for begin, end in pairwise(borders)
        ]
        count = len(found.page)
        images = BatchPlan(
            segments=Segments(
                sequence=np.arange(count),
                page=found.page,
                row=found.of_page.astype(np.uint32),
                first_token=np.zeros(count, dtype=np.uint32),
                num_tokens=np.ones(count, dtype=np.uint32),
                offset=np.zeros(count, dtype=np.uint32),
            ),
            num_batches=count,
        )
        tokens = vars(self._tokens.plan(sequences))
        return ImagePlan(**tokens, images=images, documents=each)

    def batch(self, delivered: Any) -> Batch:
        """Return a batch with its images, decoded if that is asked for."""
        if self._decode is None:
            made: Batch = delivered[0]
            return made
        images = delivered.into

        def refuse(_: str, number: int, problem: Exception) -> DataError:
            return self._refused(images, number, problem)

        made = delivered.finished(refuse)
        self._measure(bytes_of(images["data"]), delivered.sizes[1])
        return made

    def _sized(self, made: Delivered) -> tuple[Batch, Any, tuple[int, int]]:
        """Return a batch, its images, and their bytes as stored and decoded."""
        (batch, documents), said = made, 0.0
        for number, part in self._parts.items():
            rows = documents.row[documents.part == number]
            said += part.numbers.of_rows("decoded", rows).sum()
        images = batch["images"]
        return batch, images, (bytes_of(images["data"]), int(said))

    def _measure(self, made: int, said: int) -> None:
        """Count images as large as they turn out to be; warn that they are larger."""
        engine = cast("Any", self.engine())
        if said and made > engine.scale * said:
            if engine.scale == 1:
                warnings.warn(
                    f"decode made {format_bytes(made)} of the images of a step, and "
                    f"decoded_bytes says {format_bytes(said)}: memory= is exceeded "
                    "unless with_images(decoded_bytes=) says as much",
                    PagefeedWarning,
                    stacklevel=2,
                )
            engine.scale = made / said

    def _made(
        self, tokens: Any, images: list[_core.Buffer], documents: Documents
    ) -> Batch:
        """Make a batch of what both engines delivered; images are not decoded."""
        batch = self._tokens.batch(tokens)
        is_image = np.asarray(batch["input_ids"]) == self._image_id
        self._take_loss(batch, is_image)
        each = [images_of(pyarrow().array(*one.take_columns())) for one in images]
        batch["images"] = self._placed(each, documents, is_image)
        return batch

    def _placed(
        self, given: list[Images], documents: Documents, is_image: Any
    ) -> dict[str, Any]:
        """Return the images of documents, and where their tokens are."""
        told = [np.zeros((0, 5), dtype=np.int64)]
        files, data = list[str](), list[memoryview | None]()
        both = zip(documents.part.tolist(), documents.row.tolist(), strict=True)
        for (part, row), found in zip(both, given, strict=True):
            known = self._parts[part].numbers
            images = np.arange(*known.first[row : row + 2])
            file, of_file = known.place(row)
            if len(found.data) != len(images):
                raise DataError(
                    f"{file}, row {of_file} of the file, has {len(found.data)} images, "
                    f"and its column of sizes tells of {len(images)}"
                ).at(file=file)
            data += found.data
            files += [file] * len(images)
            number, rows = np.arange(len(images)), np.full(len(images), of_file)
            sides = known.shapes(images).T
            told.append(np.stack([known.tokens[images], rows, number, *sides], axis=1))
        count, row_of, number, *sides = np.concatenate(told).T.copy()
        places = np.flatnonzero(is_image)
        if count.sum() != len(places):
            raise DataError(
                f"a batch has {len(places)} tokens of images, and {count.sum()} were "
                "counted: texts of a dataset without images have the placeholder"
            )
        sequence, first = divmod(places[np.cumsum(count) - count], is_image.shape[1])
        made = {
            "sequence": sequence,
            "first_token": first,
            "num_tokens": count,
            "row": row_of,
            "number": number,
            "size": np.stack(sides, axis=1),
        }
        converted = {name: self._convert(values) for name, values in made.items()}
        return {**converted, "file": files, "data": data}

    def _take_loss(self, batch: Batch, is_image: Any) -> None:
        """Leave tokens of images out of labels and loss mask, in place."""
        fields = self._settings.fields
        if "labels" in fields.names:
            labels = np.asarray(batch["labels"])
            labels[labels == self._image_id] = fields.ignore_index
        if "loss_mask" in fields.names:
            mask = np.asarray(batch["loss_mask"])
            if fields.shifted:
                mask[:, :-1][is_image[:, 1:]] = 0
            else:
                mask[is_image] = 0

    def _refused(self, images: Any, number: int, problem: Exception) -> DataError:
        file, row = images["file"][number], int(images["row"][number])
        column = next(iter(self._parts.values())).images
        return DataError(
            f"{file}, row {row} of the file, column {column!r}, image "
            f"{int(images['number'][number])}: decode failed: "
            f"{type(problem).__name__}: {problem}"
        ).at(file=file, column=column)

    def _documents_of(self, sequences: Int64Array) -> Documents:
        """Return the documents with images of sequences, without erased ones."""
        places = np.flatnonzero(sequences != NO_SEQUENCE)
        given = self._run.index.documents_of(numbers_of(sequences[places]))
        has, page, of_page = np.zeros((3, len(given.row)), dtype=np.int64)
        for number, part in self._parts.items():
            here = np.flatnonzero(given.dataset == number)
            rows, known = given.row[here], part.numbers
            has[here] = known.first[rows + 1] > known.first[rows]
            pages = known.source.pages_of_rows(rows)
            of_page[here] = rows - known.source.first_rows(pages)
            page[here] = pages + self._first_page[number]
        found = Documents(places[given.which], given.dataset, given.row, page, of_page)
        chosen = np.flatnonzero(has & given.is_left)
        return Documents(*(column[chosen] for column in found))


def bytes_of(value: Any) -> int:
    """Return the bytes of arrays, tensors, images of Pillow, and lists of such."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        return sum(map(bytes_of, value))
    if isinstance(value, bytes | bytearray):
        return len(value)
    if hasattr(value, "getbands"):
        return int(value.width * value.height * len(value.getbands()))
    return int(getattr(value, "nbytes", 0))
