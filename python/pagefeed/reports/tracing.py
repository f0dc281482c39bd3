"""Trace batches: which tokens a row holds, and where they came from."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import check_whole, require
from pagefeed.core.batches import Batch, Fields, make_feed
from pagefeed.core.loader import Loader
from pagefeed.core.run import Origin, Step
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.decoding import TextTokenizer
from pagefeed.reports.sampling import check_counted
from pagefeed.reports.soundness import UNREADABLE, Damage, damage_of

MEMORY = 256 << 20
"""Memory for reading single sequences."""
MOST_TOKENS, MOST_CHARACTERS = 16, 300
"""Tokens and characters printed of a document."""


@dataclass(frozen=True, kw_only=True)
class TracedSegment:
    """A run of tokens of one document in a row of a batch."""

    origin: Origin
    """Origin of the tokens, and their position in the row."""
    tokens: list[int] | None
    """The tokens; None if the rows hold none."""
    text: str | None
    """The tokens as text, if a tokenizer was given."""


@dataclass(frozen=True, kw_only=True)
class TracedRow:
    """A row of a batch."""

    step: int
    """Step of the iteration."""
    rank: int
    """Rank that is given the batch."""
    row: int
    """Row of the batch."""
    tokens: list[int] | None
    """All tokens of the row, with separators and padding; None if it has no tokens."""
    segments: list[TracedSegment]
    """The documents of the tokens, in order."""
    damage: Damage | None = None
    """Why it cannot be read, if it cannot."""

    def __str__(self) -> str:
        lines = [f"step {self.step:,}, rank {self.rank}, row {self.row}"]
        for segment in self.segments:
            origin = segment.origin
            end = origin.first_token + origin.num_tokens
            dataset = f"{origin.dataset}: " if origin.dataset else ""
            lines.append(
                f"  {dataset}{origin.file}, row group {origin.row_group}, page "
                f"{origin.page}, row {origin.row}, tokens {origin.first_token}..{end}, "
                f"from offset {origin.offset} on"
            )
            if segment.tokens is not None:
                some = " ".join(map(str, segment.tokens[:MOST_TOKENS]))
                lines.append(
                    f"    {some}{' ...' * (len(segment.tokens) > MOST_TOKENS)}"
                )
            if segment.text is not None:
                more = " ..." * (len(segment.text) > MOST_CHARACTERS)
                lines.append(f"    {segment.text[:MOST_CHARACTERS]!r}{more}")
        return "\n".join(lines)


def trace(
    loader: Loader,
    step: int,
    row: int | None = None,
    *,
    tokenizer: TextTokenizer | None = None,
) -> list[TracedRow]:
    """Return the tokens in the rows of a batch, and where they came from.

    It reads these rows alone. The loader does not move, and may run on.

    Args:
        loader: The run, of the rank whose batch it is.
        step: Number of the step in the current iteration.
        row: Row of the batch; None for all that are not padding.
        tokenizer: Decodes the tokens: anything with ``decode(ids)``.

    Raises:
        InvalidArgumentError: If there is no such step or row, or it is skipped.

    Example:
        >>> [row] = trace(loader, step=3, row=1)
        >>> [segment.origin for segment in row.segments] == loader.locate(step=3, row=1)
        True
    """
    check_counted(loader, "trace")
    session = loader.view()
    cursor, asked = session.position.whole, Step(step)
    rows = cursor.rows(asked) if row is None else [check_whole(row, "row", least=0)]
    feed = session.settings
    alone = replace(
        feed,
        batch_size=1,
        memory=min(feed.memory, MEMORY),
        num_threads=1,
        format="numpy",
        dtype="int64",
        fields=Fields(names=("input_ids",)),
        pin_memory=False,
        vocab_size=None,
        uses_recorded=False,  # To see what is wrong with them.
    )
    single = make_feed(alone, session.run)
    traced = []
    for row_number in rows:
        sequence = cursor.row_at(asked, row_number)[0]
        address = {"step": step, "rank": loader.rank, "row": row_number}
        try:
            origins = cursor.origins(asked, row_number)
            engine = single.engine()
            engine.submit(single.plan(sequence.reshape(1, 1)))
            try:
                batch = single.batch(engine.next_batch())
            finally:
                engine.clear()
        except UNREADABLE as error:
            damage = damage_of(error, (step,))
            traced.append(TracedRow(**address, tokens=None, segments=[], damage=damage))
            continue
        traced.append(_row(address, batch, origins, tokenizer))
    return traced


def replay(loader: Loader, steps: Iterable[int]) -> Iterator[tuple[int, Batch]]:
    """Yield the batches of some steps again, exactly as this rank was given them.

    The loader does not move: a copy of it seeks to each step. Steps that the iteration
    skips are left out.

    Args:
        loader: The run, of the rank whose batches they are.
        steps: Numbers of steps in the current iteration, rising.

    Yields:
        The step and its batch, with the fields, types and transform of the loader.

    Raises:
        InvalidArgumentError: If there is no such step.

    Example:
        >>> for step, batch in replay(loader, range(2, 4)):
        ...     print(step, batch["input_ids"].shape)
        2 (2, 64)
        3 (2, 64)
    """
    check_counted(loader, "replay")
    twin = copy.copy(loader)
    batches: Iterator[Batch] | None = None
    for step in steps:
        if batches is None or twin.step != step:
            twin.seek(step)
            batches = iter(twin)
        if twin.step == step:
            yield step, next(batches)


def _row(
    address: dict[str, Any],
    batch: Batch,
    origins: list[Origin],
    tokenizer: TextTokenizer | None,
) -> TracedRow:
    contents = _contents(batch, address["row"])
    if contents is None or isinstance(contents, str):
        segments = [
            TracedSegment(origin=o, tokens=None, text=contents) for o in origins
        ]
        return TracedRow(**address, tokens=None, segments=segments)
    segments = []
    for origin in origins:
        end = origin.offset + origin.num_tokens
        tokens = contents[origin.offset : end].tolist()
        text = None if tokenizer is None else tokenizer.decode(tokens)
        segments.append(TracedSegment(origin=origin, tokens=tokens, text=text))
    return TracedRow(**address, tokens=contents.tolist(), segments=segments)


def _contents(batch: Batch, row: int) -> npt.NDArray[np.int64] | str | None:
    """Return the tokens of a row of a batch, or its text."""
    if "input_ids" in batch and isinstance(batch["input_ids"], np.ndarray):
        tokens = batch["input_ids"]
        tokens = tokens.reshape(len(tokens), -1)  # Rows may be one number each.
        lengths = batch.get("lengths", [tokens.shape[1]])
        index = min(row, len(lengths) - 1)
        if len(tokens) == len(lengths):
            return np.asarray(tokens[index, : lengths[index]])
        end = int(lengths[: index + 1].sum())  # One after another.
        return np.asarray(tokens[0, end - lengths[index] : end])
    pyarrow: Any = require("pyarrow", extra="pyarrow", purpose="showing documents")
    try:
        [value] = pyarrow.array(next(iter(batch.values()))).to_pylist()
    except (TypeError, ValueError):  # Rows of the user may have anything.
        return None
    if isinstance(value, list):
        if all(isinstance(item, int) for item in value):
            return np.array(value, dtype=np.int64)
        raise InvalidArgumentError("these documents are not lists of tokens")
    return value if isinstance(value, str) else None
