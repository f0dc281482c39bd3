"""Batches of tokens together with their images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    Sequences,
)
from pagefeed.core._base import Int64Array, format_bytes, warn_user
from pagefeed.core.batches import ProcessEngine, make_converter
from pagefeed.core.sequences import Segments
from pagefeed.documents import AheadEngine, Keys, row_keys
from pagefeed.errors import DataError, InvalidArgumentError, PagefeedWarning
from pagefeed.images.columns import images_of, pyarrow
from pagefeed.images.engine import Delivered, ImageEngine, ImagePlan
from pagefeed.images.survey import check_images, check_images_uncut

TOKENS_SHARE = 3
"""One part in this many of the memory is for tokens, the rest for images."""


class ImageFeed(Feed):
    """Makes batches of tokens that also have ``images``.

    Args:
        settings: The settings of the loader.
        run: The run of the loader, with at least one dataset that has images.
        make: Returns the feed of tokens, from settings and run.

    Raises:
        InvalidArgumentError: If sequences would cut images, if images do not fit into
            the memory, or if datasets have different placeholders or decoders.
    """

    def __init__(self, settings: LoaderSettings, run: Run, make: Any) -> None:
        self._settings, self._run = settings, run
        datasets: Any = enumerate(run.datasets)
        self._datasets = {n: data for n, data in datasets if hasattr(data, "image_id")}
        """The datasets that have images, by their numbers in the run."""
        given = [(data.image_id, data.decode) for data in self._datasets.values()]
        self._image_id, self._decode = given[0]
        if given != given[:1] * len(given):
            raise InvalidArgumentError(
                "datasets of a mixture have different placeholder= or decode=: give "
                "with_images() equal ones for all of them"
            )
        many = len(given) > 1
        self._columns = {
            n: _bytes_of(data) if many else data.numbers.source
            for n, data in self._datasets.items()
        }
        check_images_uncut(settings)
        of_tokens = replace(settings, memory=settings.memory // TOKENS_SHARE)
        memory = settings.engine_bytes - of_tokens.engine_bytes
        self._memory = check_images(settings, run, self._datasets, memory)
        self._tokens: Feed = make(of_tokens, run)
        self._convert = make_converter(settings.format, pin_memory=False)
        self._engine = ProcessEngine(self._started)

    def _started(self) -> Any:
        """Start the engines and their threads."""
        threads, (memory, ahead, of_step) = self._settings.num_threads, self._memory
        datasets = self._datasets.values()
        images = _core.Engine(
            {
                "columns": [column.handle for column in self._columns.values()],
                "names": ["images"],
                "num_threads": threads,
                "memory": memory,
                "batch_rows": 1,  # A document; so the fewest bytes wait.
                "verify_checksums": [data.verify_checksums for data in datasets],
            }
        )
        engine = ImageEngine(self._tokens.engine(), images, self._made)
        if self._decode is None:
            return engine
        return AheadEngine(
            *(engine, self._decode, self._sized, threads),
            most_bytes=ahead,
            of_step=of_step,
        )

    def close(self) -> None:
        """Stop the engines of this process and their threads."""
        super().close()
        self._tokens.close()

    def dataset_ids(self, batch: Batch, of_sequences: Any) -> Any:
        """Return the number of the dataset of each row of a batch."""
        return self._tokens.dataset_ids(batch, of_sequences)

    def plan(self, sequences: Sequences) -> ImagePlan:
        """Plan batches of ``sequences``: [batches, rows]."""
        numbers = sequences.numbers.reshape(-1)
        positions = np.flatnonzero(numbers != NO_SEQUENCE)
        documents = self._run.index.documents_of(numbers[positions])
        has, page, row_in_page = np.zeros((3, len(documents.row)), dtype=np.int64)
        pages_before = 0  # The engine numbers the pages of all datasets through.
        for member, dataset in self._datasets.items():
            sizes, source = dataset.numbers, self._columns[member]
            here = np.flatnonzero(documents.dataset == member)
            rows = documents.row[here]
            has[here] = sizes.first[rows + 1] > sizes.first[rows]
            pages = source.pages_of_rows(rows)
            row_in_page[here] = rows - source.first_rows(pages)
            page[here] = pages_before + pages
            pages_before += len(source)
        chosen = np.flatnonzero(has & documents.is_left)
        count = len(chosen)
        images = BatchPlan(
            segments=Segments(
                sequence=np.arange(count),
                page=page[chosen],
                row=row_in_page[chosen].astype(np.uint32),
                first_token=np.zeros(count, dtype=np.uint32),
                num_tokens=np.ones(count, dtype=np.uint32),
                offset=np.zeros(count, dtype=np.uint32),
            ),
            num_batches=count,
        )
        batch = positions[documents.which[chosen]] // sequences.numbers.shape[1]
        ends = np.searchsorted(batch, np.arange(1, len(sequences)))
        rows = np.stack([documents.dataset, documents.row], axis=1)[chosen]
        by_batch, keys = np.split(rows, ends), list[Keys]()
        if self._decode is not None and self._decode.draws:
            given = sequences.reshape(-1)[positions[documents.which[chosen]]]
            keys = self._keys_of(by_batch, given)
            sequences = self._as_read(sequences)
        return ImagePlan(
            **vars(self._tokens.plan(sequences)),
            images=images,
            documents=by_batch,
            sequences=sequences.numbers,
            keys=keys,
        )

    def _as_read(self, sequences: Sequences) -> Sequences:
        """Return sequences with an epoch only where documents are infilled."""
        numbers, epochs, run = sequences.numbers, sequences.epochs, self._run
        infilled = np.array([dataset.index.is_infilled for dataset in run.datasets])
        if epochs is None or not infilled.any():
            return Sequences(numbers)
        return Sequences(numbers, epochs * infilled[run.index.dataset_of(numbers)])

    def _keys_of(self, by_batch: list[Int64Array], given: Sequences) -> list[Keys]:
        """Return the keys of the images in each batch: those of rows, and a number.

        Args:
            by_batch: The documents of each batch: dataset and row.
            given: The sequence of each document.
        """
        begin, keys = 0, []
        for rows in by_batch:
            of_rows = given[begin : begin + len(rows)]
            begin += len(rows)
            of_batch = []
            dataset, row = rows.T
            both = row_keys(self._settings.seed, self._run, dataset, row, of_rows)
            for key, (n, image_row) in zip(both, rows.tolist(), strict=True):
                first, end = self._datasets[n].numbers.first[image_row : image_row + 2]
                of_batch += [(*key, number) for number in range(end - first)]
            keys.append(of_batch)
        return keys

    def batch(self, delivered: Any) -> Batch:
        """Return a batch with its images, decoded if ``decode`` was given."""
        if self._decode is None:
            return cast("Batch", delivered[0])
        images = delivered.into

        def refuse(_: str, image: int, problem: Exception) -> DataError:
            file, row = images["file"][image], int(images["row"][image])
            column = next(iter(self._datasets.values())).images
            return DataError(
                f"{file}, row {row} of the file, column {column!r}, image "
                f"{int(images['number'][image])}: decode failed: "
                f"{type(problem).__name__}: {problem}"
            ).at(file=file, column=column)

        batch: Batch = delivered.finished(refuse)
        self._measure(bytes_of(images["data"]), delivered.sizes[1])
        return batch

    def _sized(self, delivered: Delivered) -> tuple[Batch, Any, tuple[int, int]]:
        """Return a batch, its images, and their bytes as stored and decoded."""
        batch, documents = delivered
        decoded = [
            self._datasets[dataset].numbers.of_rows("decoded", np.array([row]))[0]
            for dataset, row in documents.tolist()
        ]
        images = batch["images"]
        return batch, images, (bytes_of(images["data"]), int(sum(decoded)))

    def _measure(self, measured: int, promised: int) -> None:
        """Plan with the measured size of decoded images; warn if it is larger."""
        engine = cast("Any", self.engine())
        if promised and measured > engine.scale * promised:
            if engine.scale == 1:
                warn_user(
                    f"decode returned {format_bytes(measured)} for the images of a "
                    f"step, and decoded_bytes {format_bytes(promised)}: the loader "
                    "exceeds memory= unless with_images(decoded_bytes=) says as much",
                    PagefeedWarning,
                )
            engine.scale = measured / promised

    def _made(
        self,
        tokens: Any,
        images: list[_core.Buffer],
        documents: Int64Array,
        sequences: Int64Array,
    ) -> Batch:
        """Make a batch of what both engines delivered; images are not decoded."""
        batch = self._tokens.batch(tokens)
        is_image = np.asarray(batch["input_ids"]) == self._image_id
        self._take_loss(batch, is_image)
        batch["images"] = self._joined(images, documents, is_image, sequences)
        return batch

    def _joined(
        self,
        columns: list[_core.Buffer],
        documents: Int64Array,
        is_image: Any,
        sequences: Int64Array,
    ) -> dict[str, Any]:
        """Return the images of all documents, and where their tokens are."""
        numbers = [np.zeros((0, 5), dtype=np.int64)]
        files, data = list[str](), list[memoryview | None]()
        for (dataset, row), column in zip(documents.tolist(), columns, strict=True):
            _, stored = images_of(pyarrow().array(*column.take_columns()))
            sizes = self._datasets[dataset].numbers
            images = np.arange(*sizes.first[row : row + 2])
            file, row_of_file = sizes.file_of(row)
            if len(stored) != len(images):
                raise DataError(
                    f"{file}, row {row_of_file} of the file, has {len(stored)} "
                    f"images, and {len(images)} sizes in the column sizes="
                ).at(file=file)
            data += stored
            files += [file] * len(images)
            of_file = np.full(len(images), row_of_file), np.arange(len(images))
            shapes = sizes.shapes(images).T
            numbers.append(np.stack([sizes.tokens[images], *of_file, *shapes], axis=1))
        num_tokens, row, image_of_row, *shape = np.concatenate(numbers).T.copy()
        positions = np.flatnonzero(is_image)
        if num_tokens.sum() != len(positions):
            raise self._misplaced(is_image, sequences)
        first = positions[np.cumsum(num_tokens) - num_tokens]
        arrays = {
            "sequence": first // is_image.shape[1],
            "first_token": first % is_image.shape[1],
            "num_tokens": num_tokens,
            "row": row,
            "number": image_of_row,
            "size": np.stack(shape, axis=1),
        }
        converted = {name: self._convert(values) for name, values in arrays.items()}
        return {**converted, "file": files, "data": data}

    def _misplaced(self, is_image: Any, sequences: Int64Array) -> DataError:
        """Return the error of a placeholder in a dataset without images."""
        names = {self._run.names[number] for number in self._datasets}
        numbers = sequences.tolist() if len(sequences) == len(is_image) else ()
        for of_row, sequence in zip(is_image, numbers, strict=False):
            origins = [] if sequence == NO_SEQUENCE else self._run.origins(sequence)
            for part in origins:
                end = part.offset + part.num_tokens
                if part.dataset not in names and of_row[part.offset : end].any():
                    return DataError(
                        f"{part.file}, row {part.row} of the file, holds the "
                        "placeholder of images, and its dataset has none: remove it "
                        "from the text, or give the dataset with_images(), too"
                    ).at(file=part.file)
        return DataError(
            f"a batch has {int(is_image.sum())} tokens of images, more than its images "
            "have: texts of a dataset without images hold the placeholder. Remove it "
            "from them, or give them with_images(), too"
        )

    def _take_loss(self, batch: Batch, is_image: Any) -> None:
        """Set labels and loss mask of image tokens to no loss, in place."""
        fields = self._settings.fields
        if "labels" in fields.names:
            labels = np.asarray(batch["labels"])
            labels[labels == self._image_id] = fields.ignore_index
        if "loss_mask" in fields.names:
            mask = np.asarray(batch["loss_mask"])
            if fields.shifted:  # A token's mask is one position ahead.
                mask, is_image = mask[:, :-1], is_image[:, 1:]
            mask[is_image] = 0


def _bytes_of(dataset: Any) -> Any:
    """Return the column of images; of structs their bytes alone."""
    name, file = dataset.images, dataset.storage.open_arrow(dataset.files[0])
    schema = pyarrow("pyarrow.parquet").ParquetFile(file).schema
    paths = [schema.column(number).path for number in range(len(schema))]
    inner = [p for p in paths if p.startswith(f"{name}.") and p.endswith(".bytes")]
    return dataset.column_index(inner[0]) if inner else dataset.numbers.source


def bytes_of(value: Any) -> int:
    """Return the bytes of an array, tensor or image of Pillow, or of a list of them."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        return sum(map(bytes_of, value))
    if isinstance(value, bytes | bytearray):
        return len(value)
    if hasattr(value, "getbands"):
        return int(value.width * value.height * len(value.getbands()))
    return int(getattr(value, "nbytes", 0))
