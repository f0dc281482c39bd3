"""Origins of tokens: file, row group, page, row, token range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import Dataset, Spans
from pagefeed.core.sequences import SequenceIndex
from pagefeed.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Consecutive tokens of one row, and where they are in a sequence."""

    file: str
    """Path of the file."""
    row_group: int
    """Row group in the file."""
    page: int
    """Data page within its column chunk."""
    row: int
    """Row, counted within the file."""
    first_token: int
    """First token, counted within the row."""
    num_tokens: int
    """Number of tokens."""
    offset: int
    """Place of the first token in the sequence."""
    text_range: tuple[int, int] | None = None
    """In a column of text: begin and end of their bytes in the row."""
    dataset: str | None = None
    """Name of the dataset in a mixture."""


def origins_of_sequence(
    dataset: Dataset, sequences: SequenceIndex, sequence: int, epoch: int
) -> list[Origin]:
    """Return where the tokens of a sequence come from in an epoch, in their order.

    Separators and special tokens of infilled documents have no origin. A document
    without tokens has one. The pages of the sequence are read, for the lengths of their
    rows.
    """
    layout, index = sequences.layout, dataset.index
    sources = []
    for page, row, first, count, offset in zip(*sequences.parts(sequence), strict=True):
        first_own, end_own = map(layout.without_bos, (int(first), int(first + count)))
        num_bos = int(count) - (end_own - first_own)
        if layout.eos is not None:  # The separator may be the last token.
            starts = index.row_offsets(int(page))
            end_own = min(end_own, int(starts[row + 1] - starts[row]))
        if first_own >= end_own and not sequences.keeps_empty:
            continue
        where = index.locate(int(page))
        runs = index.own_tokens(
            int(page),
            int(row),
            range(first_own, end_own),
            epoch,
            sequences.row_parts(sequence, int(page), int(row)),
        )
        if not runs and sequences.keeps_empty:
            runs = [(0, 0, 0)]
        for first_token, num_tokens, from_ in runs:
            tokens = range(first_token, first_token + num_tokens)
            source = Origin(
                file=where.file,
                row_group=where.row_group,
                page=where.page,
                row=where.first_row + int(row),
                first_token=first_token,
                num_tokens=num_tokens,
                offset=int(offset) + num_bos + from_,
                text_range=index.text_range(int(page), int(row), tokens),
            )
            sources.append(source)
    return sources


def sequences_of_document(
    datasets: Sequence[Dataset],
    indexes: Sequence[SequenceIndex],
    file: str,
    row: int,
) -> list[tuple[int, Int64Array, int | None]]:
    """Return the sequences of datasets with tokens of a document.

    Returns:
        For each dataset with the document: the number of the dataset, the sequences,
        and if these are batches, the row of the document in its batch.

    Raises:
        InvalidArgumentError: If there is no such file or row.
    """
    holding = [
        n
        for n, dataset in enumerate(datasets)
        if dataset.index.find_file(file) is not None
    ]
    containing = list[tuple[int, Int64Array, int | None]]()
    for n in holding or [0]:  # Without one the error says which files exist.
        row_number = _number_of_row(datasets[n].spans, file, row)
        if row_number is None:
            continue
        index = indexes[n]
        sequences = index.sequences_of_row(row_number)
        containing.append((n, sequences, index.place_in_sequence(row_number)))
    return containing


def _number_of_row(spans: Spans, file: str, row: int) -> int | None:
    """Return the position of a row of a file among the rows of the spans.

    Returns:
        The number; None if the row is not among them.

    Raises:
        InvalidArgumentError: If there is no such file or row.
    """
    index = spans.index
    file_number, table = index.find_file(file), index.recipe.table
    if file_number is None and table and index.storage.name_of(file) in table.left_out:
        return None
    if file_number is None:
        raise InvalidArgumentError(
            f"{file!r} is not a file of the dataset: it has {len(index.files)} files, "
            f"such as {index.files[0]!r}"
        )
    first, end = index.file_first_row[file_number : file_number + 2].tolist()
    if not 0 <= row < end - first:
        raise InvalidArgumentError(
            f"row {row} is out of range: {file} has {end - first} rows"
        )
    page = index.pages_of_rows([first + row])
    row_of_index = first + row - index.first_rows(page)
    span = spans.spans_at(page, row_of_index)
    if span[0] < 0:
        return None
    _, begin = spans.places(span)
    return int((spans.first_rows(span) + row_of_index - begin)[0])
