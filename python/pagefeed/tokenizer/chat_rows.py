"""Chats of a column, row by row: what the data plane calls to encode them."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np

from pagefeed._base import require
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.tokenizer.chat import ChatTemplate
from pagefeed.tokenizer.tokenizer import Tokenizer

__all__ = ["ChatRows", "chats_of", "messages_of"]


def messages_of(value: object) -> object:
    """Return messages as templates take them: of JSON, or without what a row lacks.

    Raises:
        ValueError: If a text is no JSON.

    Example:
        >>> messages_of('[{"role": "user"}]')
        [{'role': 'user'}]
        >>> messages_of([{"role": "user", "name": None}])
        [{'role': 'user'}]
    """
    if isinstance(value, str | bytes):
        return json.loads(value)
    return _without_nulls(value)


def _without_nulls(value: object) -> object:
    """Leave out fields that only other rows have: tables fill them with nulls."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


class ChatRows:
    """Renders and encodes the chats of a page, on the thread that loads it.

    Templates run in Python, so with the GIL; encoding goes without.

    Args:
        tokenizer: What encodes.
        template: What renders; one that writes the date must have it said.

    Raises:
        InvalidArgumentError: If it has not: a page has the same tokens each time.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        if template.today is None and template.writes_date:
            raise InvalidArgumentError(
                "the chat template writes the date (strftime_now), and a row has the "
                "same tokens each time that it is read: give today=datetime.date(...)"
            )
        self.tokenizer = tokenizer
        """What encodes."""
        self.template = template
        """What renders."""

    @property
    def fingerprint(self) -> str:
        """What identifies the template, and the day it writes."""
        template = self.template
        day = template.today.isoformat() if template.today else ""
        return f"{template.fingerprint} {day}"

    def __call__(self, rows: Any) -> tuple[bytes, bytes, bytes]:  # noqa: ANN401
        """Encode an Arrow array of chats; a null has no tokens.

        Returns:
            All ids (uint32), their labels (int32), and the tokens of each row (uint32).

        Raises:
            CorruptFileError: If a row holds no chat, or the template refuses it.
        """
        arrow = require("pyarrow", extra="pyarrow", purpose="chats of a column")
        chats = arrow.array(rows)
        ids, labels = [np.zeros(0, np.uint32)], [np.zeros(0, np.int32)]
        counts = np.zeros(len(chats), np.uint32)
        for row, chat in enumerate(chats):
            value = chat.as_py()
            if value is None:
                continue
            try:
                found = self.template.encode(self.tokenizer, messages_of(value))
            except (InvalidArgumentError, ValueError) as problem:
                raise CorruptFileError(
                    f"row {row} of the page: {problem}; `pagefeed tokenize --messages` "
                    "can leave such rows out, --on-error skip"
                ) from problem
            ids.append(found[0])
            labels.append(found[1])
            counts[row] = len(found[0])
        return (
            np.concatenate(ids).tobytes(),
            np.concatenate(labels).tobytes(),
            counts.tobytes(),
        )


def chats_of(
    tokenizer: Tokenizer,
    column: str,
    messages: str | None,
    template: str | None,
    today: datetime.date | None,
) -> ChatRows | None:
    """Return what encodes the chats of a column; None if it holds texts.

    Args:
        tokenizer: What encodes.
        column: The column of the dataset.
        messages: Its name, if it holds chats.
        template: In the place of the tokenizer's.
        today: The day that the template writes.

    Raises:
        InvalidArgumentError: If another column is named, there is no template, or one
            that writes the date, and it is not said.
    """
    if messages is None:
        if template is not None or today is not None:
            raise InvalidArgumentError(
                "chat_template and today are for chats: give messages= too"
            )
        return None
    if messages != column:
        raise InvalidArgumentError(
            f"messages={messages!r} is another column than the dataset's, {column!r}: "
            f"give pagefeed.parquet(..., column={messages!r})"
        )
    if today is not None and not isinstance(today, datetime.date):
        raise InvalidArgumentError(
            f"today={today!r:.40} is no day: give datetime.date(2026, 1, 31)"
        )
    made = ChatTemplate.of(tokenizer, template)
    return ChatRows(tokenizer, made if today is None else made.on(today))
