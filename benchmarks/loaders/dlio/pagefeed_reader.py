"""Readers and a loader for DLIO that decode Parquet.

DLIO 2.0 has no reader of Parquet. Its options take classes by their names:

    ++workload.reader.reader_classname=pagefeed_reader.PagefeedReader

`PagefeedReader` gives a sample by its number, as DLIO's torch loader asks for it.
`PagefeedLoader` replaces the loader too (`data_loader_classname`), so that pages are
read ahead in the order of the epoch. `PyarrowReader` is what one would write without
pagefeed. A record is one row of ``input_ids``; ``record_length`` is its size in bytes.
"""
# ruff: noqa: D102 - methods are those that DLIO calls.

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
from dlio_benchmark.common.enumerations import DataLoaderType
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader
from dlio_benchmark.reader.reader_handler import FormatReader

import pagefeed as pf

__all__ = ["PagefeedLoader", "PagefeedReader", "PyarrowReader"]

TOKEN_BYTES = 4
COLUMN = "input_ids"


class _ByIndex(FormatReader):  # type: ignore[misc]  # has no types
    """What both readers share: DLIO calls `read_index` alone."""

    def open(self, filename: str) -> Any:
        return super().open(filename)

    def close(self, filename: str) -> None:
        self.open_file_map[filename] = None

    def next(self) -> Iterator[Any]:
        yield from super().next()

    def read_index(self, global_sample_idx: int, step: int) -> Any:
        return super().read_index(global_sample_idx, step)

    def finalize(self) -> None:
        self.open_file_map.clear()

    def is_index_based(self) -> bool:
        return True

    def is_iterator_based(self) -> bool:
        return False


class PagefeedReader(_ByIndex):
    """Samples by number: of a file, only the page that holds one is read."""

    def __init__(self, dataset_type: Any, thread_index: int, epoch: int) -> None:  # noqa: ARG002
        super().__init__(dataset_type, thread_index)
        self._view = _view(self._file_list, self._args.record_length)

    def read_index(self, global_sample_idx: int, step: int) -> Any:
        self.step, self.image_idx = step, global_sample_idx
        tokens = self._view[global_sample_idx][COLUMN]
        assert tokens.nbytes == self._args.record_length
        return self.preprocess(tokens)

    def get_sample(self, filename: str, sample_index: int) -> None:
        raise NotImplementedError("samples are read by their numbers")


def _view(files: list[str], record_length: int) -> pf.SequenceView:
    length = record_length // TOKEN_BYTES
    data = pf.parquet(files, column=COLUMN)
    return pf.SequenceView(data, pf.Windows(length), dtype="int32", num_threads=1)


class PyarrowReader(_ByIndex):
    """Samples by number: the row group that holds one is read."""

    def __init__(self, dataset_type: Any, thread_index: int, epoch: int) -> None:  # noqa: ARG002
        super().__init__(dataset_type, thread_index)
        self._sample: Any = None

    def open(self, filename: str) -> tuple[pq.ParquetFile, list[int]]:
        file = pq.ParquetFile(filename)
        begins = [0]
        for number in range(file.num_row_groups):
            begins.append(begins[-1] + file.metadata.row_group(number).num_rows)
        return file, begins

    def get_sample(self, filename: str, sample_index: int) -> None:
        file, begins = self.open_file_map[filename]
        group = bisect_right(begins, sample_index) - 1
        rows = file.read_row_group(group, columns=[COLUMN]).column(0)
        tokens = rows[sample_index - begins[group]].values
        self._sample = tokens.to_numpy(zero_copy_only=False)

    def preprocess(self, a: Any = None) -> Any:
        super().preprocess(a)
        return self._sample

    def read_index(self, global_sample_idx: int, step: int) -> Any:
        super().read_index(global_sample_idx, step)
        assert self._sample.nbytes == self._args.record_length
        return self._sample


class PagefeedLoader(BaseDataLoader):  # type: ignore[misc]  # has no types
    """Batches by pagefeed's own loader."""

    def __init__(self, format_type: Any, dataset_type: Any, epoch: int) -> None:
        super().__init__(format_type, dataset_type, epoch, DataLoaderType.PYTORCH)

    def read(self) -> None:
        self._loader = pf.Loader(
            pf.parquet(self._args.file_list_train, column=COLUMN),
            sequences=pf.Windows(self._args.record_length // TOKEN_BYTES),
            fields=("input_ids",),
            batch_size=self.batch_size,
            seed=self._args.seed,
            format="torch",
            rank=self._args.my_rank,
            world_size=self._args.comm_size,
        )

    def next(self) -> Iterator[Any]:
        for batch in self._loader:
            yield batch[COLUMN]

    def finalize(self) -> None:
        del self._loader
