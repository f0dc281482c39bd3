"""Rows of several columns as tokens: chats, and texts from several columns.

The data plane calls it for the rows of a page, :func:`pagefeed.tokenize` for the
records of any input.
"""

from __future__ import annotations

import datetime
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import check_column, check_columns, require, warn_user
from pagefeed.errors import CorruptFileError, InvalidArgumentError, LabelWarning
from pagefeed.tokenizer.chat import ChatTemplate
from pagefeed.tokenizer.masks import TrainOn, check_parts
from pagefeed.tokenizer.row_text import RowText, TextOfRow
from pagefeed.tokenizer.tokenizer import Tokenizer

Encoded = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]


class EncodedRows(NamedTuple):
    """Tokens of rows, one row after another."""

    ids: npt.NDArray[np.uint32]
    """uint32 [tokens]."""
    labels: npt.NDArray[np.int32]
    """int32 [tokens]; [0] if rows have none."""
    counts: npt.NDArray[np.uint32]
    """Tokens of each row: uint32 [rows]."""


@dataclass(frozen=True, eq=False)
class Rows(ABC):
    """Encodes rows, which are mappings from column names to values."""

    has_labels: ClassVar[bool]
    """Whether every token has a label."""

    tokenizer: Tokenizer
    """Tokenizer of the texts."""
    columns: tuple[str, ...]
    """Columns to read, the column of the dataset first."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Identifies everything that decides on tokens, except the tokenizer."""

    @abstractmethod
    def encode(self, row: Mapping[str, Any]) -> Encoded:
        """Return ids, and labels if rows have them; a null has no tokens.

        Raises:
            InvalidArgumentError: If the row cannot be encoded.
        """

    def writes(self, token: int) -> bool:
        """Whether a token may be written at the end of a row."""
        del token
        return False

    def on(self, today: datetime.date) -> Rows:
        """Return an encoder that writes ``today`` where templates write a date."""
        del today
        return self

    def __call__(self, rows: Any) -> tuple[bytes, bytes, bytes]:
        """Encode an Arrow array of structs, on the thread that loads the page.

        Templates and functions hold the GIL; encoding releases it.

        Returns:
            All ids (uint32), their labels (int32), and the tokens of each row (uint32).

        Raises:
            CorruptFileError: If a row cannot be encoded.
        """
        arrow = require("pyarrow", extra="pyarrow", purpose="rows of columns")

        def refuse(row_number: int, problem: ValueError) -> NoReturn:
            raise CorruptFileError(
                f"row {row_number} of the page: {problem}; `pagefeed tokenize` can "
                "leave such rows out, --on-error skip"
            ) from problem

        encoded = self.encode_each(arrow.array(rows), lambda row: row.as_py(), refuse)
        ids, labels, counts = (array.tobytes() for array in encoded)
        return ids, labels, counts

    def encode_each(
        self,
        rows: Iterable[Any],
        values: Callable[[Any], Mapping[str, Any]],
        refuse: Callable[[int, ValueError], None],
    ) -> EncodedRows:
        """Encode rows; leave out those that cannot be encoded.

        Args:
            rows: The rows, in any form.
            values: Returns the columns of one of them.
            refuse: Called with the number of a row that is left out, and why.
        """
        encoded = [(np.zeros(0, np.uint32), np.zeros(0, np.int32))]
        for row_number, row in enumerate(rows):
            try:
                encoded.append(self.encode(values(row)))
            except ValueError as problem:
                refuse(row_number, problem)
        ids, labels = zip(*encoded, strict=True)
        counts = np.array([len(row_ids) for row_ids in ids[1:]], np.uint32)
        return EncodedRows(np.concatenate(ids), np.concatenate(labels), counts)


def _values(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Return the values of columns; a dotted path leads through objects."""
    values = {}
    for name in columns:
        value = row[name]
        for field in name.split(".")[1:]:
            value = value.get(field) if isinstance(value, Mapping) else value
        values[name] = value.decode() if isinstance(value, bytes) else value
    return values


@dataclass(frozen=True, eq=False)
class ChatRows(Rows):
    """Renders and encodes chats; the columns are messages, and perhaps tools."""

    has_labels = True

    template: ChatTemplate
    """Template that renders the chats."""

    @property
    def fingerprint(self) -> str:
        """Identifies the template, the day it writes, and the column of tools."""
        day = self.template.today
        facts = [self.template.fingerprint, day.isoformat() if day else ""]
        return " ".join([*facts, *self.columns[1:]])

    def on(self, today: datetime.date) -> ChatRows:
        """Return an encoder whose template writes a different day."""
        return replace(self, template=self.template.on(today))

    def writes(self, token: int) -> bool:
        """Whether the template may write a token at the end of a chat."""
        return self.template.writes(self.tokenizer.decode([token]))

    def encode(self, row: Mapping[str, Any]) -> Encoded:
        """Return ids and labels of a chat."""
        messages, *tools = _values(row, self.columns).values()
        if messages is None:
            return np.zeros(0, np.uint32), np.zeros(0, np.int32)
        return self.template.encode(self.tokenizer, messages, *tools)


@dataclass(frozen=True, eq=False)
class TextRows(Rows):
    """Encodes the text that a template or function makes of a row."""

    has_labels = False

    text: RowText
    """Makes the text of a row."""

    @property
    def fingerprint(self) -> str:
        """Identifies the function or template, and its columns."""
        facts = repr((self.text.fingerprint, self.columns))
        return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()

    def encode(self, row: Mapping[str, Any]) -> Encoded:
        """Return the ids of a row."""
        text = self.text(_values(row, self.columns))
        ids = np.zeros(0, np.uint32) if text is None else self.tokenizer.encode(text)
        return ids, np.zeros(0, np.int32)


def on_day(rows: Rows | None, today: datetime.date | None) -> Rows | None:
    """Return an encoder that gives a row the same tokens on every day.

    Raises:
        InvalidArgumentError: If the template writes the date and ``today`` is missing,
            or ``today`` is given and there is no template.
    """
    if today is not None and not isinstance(today, datetime.date):
        raise InvalidArgumentError(
            f"today={today!r:.40} must be a datetime.date, such as "
            "datetime.date(2026, 1, 31)"
        )
    if not isinstance(rows, ChatRows):
        if today is not None:
            raise InvalidArgumentError("today is for chats: give messages= as well")
        return rows
    if today is None and rows.template.writes_date:
        raise InvalidArgumentError(
            "the chat template writes the date (strftime_now), and a row has the same "
            "tokens each time that it is read: give today=datetime.date(...)"
        )
    return rows if today is None else rows.on(today)


def check_learned(num_learned: int, num_chats: int, *, required: bool) -> None:
    """Warn of chats in which no token has a label.

    Raises:
        InvalidArgumentError: If no chat has one, and ``required``.
    """
    if num_learned == num_chats:
        return
    problem = (
        f"{num_chats - num_learned:,} of {num_chats:,} chats teach nothing: all of "
        "their labels are -100"
    )
    if num_learned or not required:
        warn_user(problem, LabelWarning)
        return
    raise InvalidArgumentError(
        f"{problem}. Learned are messages of role 'assistant' and generation blocks of "
        "the template: give roles={'model': 'assistant'} if the data call it "
        "otherwise, or require_labels=False"
    )


def row_encoder(
    tokenizer: Tokenizer,
    column: str | None,
    *,
    messages: str | None,
    tools: str | None,
    roles: Mapping[str, str] | None,
    template: str | None,
    train_on: TrainOn = "answers",
    mask: Iterable[str] = (),
    text: TextOfRow | None,
    columns: Sequence[str],
) -> Rows | None:
    """Return the encoder of rows; None if the column holds plain texts.

    Args:
        tokenizer: The tokenizer.
        column: The column of the dataset; None if any may be read.
        messages: The column of chats.
        tools: The column of the tools of chats.
        roles: Names that the template uses for roles of the data.
        template: A template to use instead of the tokenizer's.
        train_on: Which answers of chats are learned.
        mask: Parts of these that are not learned.
        text: A template over columns, or a function of a row.
        columns: Further columns that the function reads.

    Raises:
        InvalidArgumentError: If these do not go together, or there is no template.
    """
    train_on, mask = check_parts(train_on, mask)
    of_chats = {
        "tools": tools is not None,
        "roles": roles is not None,
        "chat_template": template is not None,
        "train_on": train_on != "answers",
        "mask": bool(mask),
    }
    if messages is None:
        given = [name for name, is_given in of_chats.items() if is_given]
        if given:
            raise InvalidArgumentError(
                f"{given[0]} is for chats: give messages= as well"
            )
        if text is None and columns:
            raise InvalidArgumentError("columns is for a function: give text= too")
        if text is None:
            return None
        row_text = RowText(text)
        read = row_text.columns or check_columns(columns, "columns")
        first = column or (row_text.columns or [""])[0]
        names = dict.fromkeys([first, *read])
        return TextRows(tokenizer, tuple(names), row_text)
    if text is not None:
        raise InvalidArgumentError(
            "text= is for texts and messages= for chats: give one of them"
        )
    if column is not None and messages != column:
        raise InvalidArgumentError(
            f"messages={messages!r} is another column than the dataset's, {column!r}: "
            f"give pagefeed.parquet(..., column={messages!r})"
        )
    chat_template = ChatTemplate.of(tokenizer, template, roles, train_on, mask)
    read = (messages,) if tools is None else (messages, check_column(tools, "tools"))
    return ChatRows(tokenizer, read, chat_template)
