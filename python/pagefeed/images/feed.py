"""Batches of tokens with the images that lie in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
)
from pagefeed.core._base import Int64Array, UInt64Array, distinct
from pagefeed.core.batches import ProcessEngine, make_converter
from pagefeed.core.sequences import numbers_of
from pagefeed.errors import DataError, InvalidArgumentError
from pagefeed.images.columns import Images, images_of, pyarrow
from pagefeed.images.decoding import Decoder
from pagefeed.images.engine import Begun, Documents, ImageEngine, ImagePlan
from pagefeed.images.survey import check_cut, check_images, rows_of

__all__ = ["ImageFeed"]

TOKENS_SHARE = 3
"""Part of the memory that is for tokens; the rest is for images."""
_NOTHING = {
    **dict.fromkeys(("num_tokens", "row", "number"), np.zeros(0, np.int64)),
    "size": np.zeros((0, 2), np.int64),
}


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
        [self._image_id, *others] = {part.image_id for part in self._parts.values()}
        if others:
            raise InvalidArgumentError(
                f"datasets have unlike placeholders, tokens {[self._image_id, *others]}"
                ": give all of them the same"
            )
        decodes = {id(part.decode): part.decode for part in self._parts.values()}
        [self._decode, *different] = decodes.values()
        if different:
            raise InvalidArgumentError(
                "datasets of a mixture have unlike decode=: give all of them the same"
            )
        check_cut(settings)
        of_tokens = replace(settings, memory=settings.memory // TOKENS_SHARE)
        memory = settings.engine_bytes - of_tokens.engine_bytes
        check_images(settings, run, self._parts, memory)
        self._tokens: Feed = make(of_tokens, run)
        self._convert = make_converter(settings.format, pin_memory=False)
        sources = [part.numbers.source for part in self._parts.values()]
        sizes = np.cumsum([0, *map(len, sources)]).tolist()
        self._first_page = dict(zip(self._parts, sizes, strict=False))
        start = partial(
            _core.Engine,
            [],
            columns=[source.handle for source in sources],
            names=["images"],
            num_threads=settings.num_threads,
            memory=memory,
            batch_rows=1,  # So that no more waits than is needed.
            verify_checksums=[part.verify_checksums for part in self._parts.values()],
        )
        self._engine = ProcessEngine(lambda: self._started(start))

    def _started(self, start: Callable[[], _core.Engine]) -> ImageEngine:
        """Start all threads."""
        tokens, decoder = cast("_core.Engine", self._tokens.engine()), None
        if self._decode is not None:
            decoder = Decoder(self._decode, self._settings.num_threads)
        return ImageEngine(tokens, start(), self._made, decoder)

    def close(self) -> None:
        """End this process's engines, and all threads."""
        super().close()
        self._tokens.close()

    def dataset_ids(self, made: Batch, of_sequences: Any) -> Any:
        """Return the dataset of each row of a batch, by those of its sequences."""
        return self._tokens.dataset_ids(made, of_sequences)

    def plan(self, sequences: Int64Array) -> ImagePlan:  # type: ignore[override]
        """Plan whole batches of ``sequences``, in their order."""
        found = self._documents_of(sequences.reshape(-1))
        num_batches, rows = sequences.shape
        borders = np.searchsorted(found.place, np.arange(num_batches + 1) * rows)
        each = [
            Documents(*(column[begin:end] for column in found))
            for begin, end in pairwise(borders)
        ]
        page, row = self._cells(found)
        images = BatchPlan(
            num_batches=len(page),
            page=page,
            row=row,
            first_token=None,
            num_tokens=None,
            destination=np.arange(len(page)),
            destination_offset=np.zeros(len(page), dtype=np.uint32),
        )
        return ImagePlan(self._tokens.plan(sequences), images, each)

    def batch(self, delivered: Begun) -> Batch:
        """Return a batch with its images, decoded if that is asked for."""
        if delivered.decoding is not None:
            images = delivered.batch["images"]

            def refuse(number: int, problem: Exception) -> DataError:
                return self._refused(images, number, problem)

            images["data"] = Decoder.finish(delivered.decoding, refuse)
        return delivered.batch

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
        arrays = {name: [nothing] for name, nothing in _NOTHING.items()}
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
            arrays["num_tokens"].append(known.tokens[images])
            arrays["row"].append(np.full(len(images), of_file))
            arrays["number"].append(np.arange(len(images)))
            arrays["size"].append(known.shapes(images))
        joined = {
            name: np.concatenate(values).astype(np.int64)
            for name, values in arrays.items()
        }
        places, count = np.flatnonzero(is_image), joined["num_tokens"]
        if count.sum() != len(places):
            raise DataError(
                f"a batch has {len(places)} tokens of images, and {count.sum()} were "
                "counted: texts of a dataset without images have the placeholder"
            )
        first = places[np.cumsum(count) - count]
        joined["sequence"] = first // is_image.shape[1]
        joined["first_token"] = first % is_image.shape[1]
        made = {name: self._convert(values) for name, values in joined.items()}
        return {**made, "file": files, "data": data}

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
        numbers = numbers_of(sequences[places])
        part = self._run.dataset_of(numbers)
        nothing = np.empty(0, dtype=np.int64)
        found = [Documents(nothing, nothing, nothing)]
        for number in distinct(part).tolist():
            if number not in self._parts:
                continue
            here, index = part == number, self._run.indexes[number]
            local = numbers[here] - self._run.index.first_sequence[number]
            rows, which = rows_of(index, local)
            first = self._parts[number].numbers.first
            has = first[rows + 1] > first[rows]
            rows, which = rows[has], which[has]
            found.append(
                Documents(places[here][which], np.full(len(rows), number), rows)
            )
        joined = Documents(*map(np.concatenate, zip(*found, strict=True)))
        order = np.argsort(joined.place, kind="stable")
        return Documents(*(column[order] for column in joined))

    def _cells(self, documents: Documents) -> tuple[UInt64Array, Any]:
        """Return page, numbered through, and row in it, of the column of images."""
        page = np.empty(len(documents.row), dtype=np.int64)
        row = np.empty(len(documents.row), dtype=np.uint32)
        for number, part in self._parts.items():
            here = documents.part == number
            source, rows = part.numbers.source, documents.row[here]
            pages = source.pages_of_rows(rows)
            row[here] = rows - source.first_rows(pages)
            page[here] = pages + self._first_page[number]
        return page.view(np.uint64), row
