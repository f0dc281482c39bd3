"""Ids that a table gives its rows; they stay when files are rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError

__all__ = ["ICEBERG_ROW_ID", "RowIds"]

FIELD_ID = b"PARQUET:field_id"
ICEBERG_ROW_ID = 2147483540
"""Field id of the column that holds ids of rows, as Iceberg reserves it."""


@dataclass(frozen=True)
class RowIds:
    """Ids of the rows of some files.

    A rewritten file holds the ids of its rows. Otherwise the table gives the id of the
    first row, and the others follow.
    """

    first: Mapping[str, int]
    """Id of the first row of each file that has one."""
    column: int | str | None
    """The column of ids in files that hold them: its field id, or its name."""

    def of(self, storage: Storage, file: str) -> Any | None:
        """Return the ids of the rows of a file, an Arrow array; None if it has none.

        Raises:
            CorruptFileError: If pyarrow cannot read it.
        """
        import pyarrow as pa
        from pyarrow import compute, parquet

        try:
            opened = parquet.ParquetFile(storage.open_arrow(file))
            held = next(filter(self._is_it, opened.schema_arrow), None)
            first, ids = self.first.get(file), None
            if first is not None:
                numbers = np.arange(first, first + opened.metadata.num_rows)
                ids = pa.array(numbers, pa.int64())
            if held is not None:
                stored = opened.read([held.name], use_threads=False)[held.name]
                stored = stored.combine_chunks().cast(pa.int64())
                ids = stored if ids is None else compute.coalesce(stored, ids)
        except (pa.ArrowException, OSError) as problem:
            storage.size(file)  # If it is gone, that is what to tell.
            raise CorruptFileError(f"{file}: pyarrow cannot read it: {problem}").at(
                file=file
            ) from None
        return None if ids is None or ids.null_count else ids

    def _is_it(self, field: Any) -> bool:
        if isinstance(self.column, str):
            return bool(field.name == self.column)
        number = (field.metadata or {}).get(FIELD_ID)
        return number is not None and int(number) == self.column
