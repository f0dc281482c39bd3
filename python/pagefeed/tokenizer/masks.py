"""Parts of answers that are not learned: reasoning, calls of tools and their results.

A part is found by rendering the chat again, without it or with a random word in
its place, and comparing the two texts.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

from pagefeed.core._base import check_choice
from pagefeed.errors import InvalidArgumentError
from pagefeed.tokenizer.answers import num_shared
from pagefeed.tokenizer.messages import REASONING, Chat

Spans = list[tuple[int, int]]
Render = Callable[[list[dict[str, Any]]], str]

TrainOn: TypeAlias = Literal["answers", "last", "weighted"]
"""``"answers"`` learns all answers, ``"last"`` those after the last message of a user,
``"weighted"`` the messages of any role whose ``weight`` is 1."""
Mask: TypeAlias = Literal["reasoning", "tool_calls", "tool_results"]
"""Parts of answers."""

_TOOLS = ("tool", "ipython", "function")
_THOUGHT = re.compile(r"(?:<think>|\A)(?:(?!<think>).)*?</think>\s*", re.DOTALL)
"""Reasoning that is part of a text; prompts may end with its first tag."""


def check_parts(train_on: str, mask: Iterable[str]) -> tuple[TrainOn, tuple[str, ...]]:
    """Return what is learned of chats, as it was given.

    Raises:
        InvalidArgumentError: Listing what there is.
    """
    check_choice(train_on, get_args(TrainOn), "train_on")
    parts = (mask,) if isinstance(mask, str) else tuple(mask)
    for part in parts:
        check_choice(part, get_args(Mask), "mask")
    return train_on, tuple(sorted(parts))  # type: ignore[return-value]


def only_last_turn(chat: Chat) -> Chat:
    """Return a chat whose answers are learned after the last message of a user."""
    asked = [message.get("role") == "user" for message in chat.messages]
    last = max((number for number, is_user in enumerate(asked) if is_user), default=-1)
    learned = [has and number > last for number, has in enumerate(chat.is_learned)]
    return chat._replace(is_learned=learned)


def without_parts(
    chat: Chat, text: str, learned: Spans, mask: tuple[str, ...], render: Render
) -> Spans:
    """Return learned ranges of a text without the parts of a mask.

    Args:
        chat: The chat.
        text: The rendered chat.
        learned: Ranges of the text that are learned.
        mask: Names of parts.
        render: Renders messages.

    Raises:
        InvalidArgumentError: If a part cannot be distinguished from the rest of the
            text.
    """
    found: Spans = []
    for number, message in enumerate(chat.messages):
        seen = _Seen(chat.messages, number, text, learned, render)
        if "tool_results" in mask and message.get("role") in _TOOLS:
            found += [] if (place := seen.place("content")) is None else [place]
        if not chat.is_learned[number]:
            continue
        if "reasoning" in mask:
            found += seen.reasoning()
        if "tool_calls" in mask and message.get("tool_calls"):
            found += seen.calls()
    if "reasoning" in mask:
        for begin, end in learned:
            blocks = _THOUGHT.finditer(text[begin:end])
            found += [(begin + one.start(), begin + one.end()) for one in blocks]
    return list(chain.from_iterable(_minus(one, sorted(found)) for one in learned))


class _Seen:
    """A message of a chat, and where its parts are in the text of the chat."""

    def __init__(
        self,
        messages: list[dict[str, Any]],
        number: int,
        text: str,
        learned: Spans,
        render: Render,
    ) -> None:
        self._messages, self._number = messages, number
        self._text, self._learned, self._render = text, learned, render
        self._word = secrets.token_hex(16)

    def _other(self, without: tuple[str, ...] = (), **fields: Any) -> str:
        """Render the chat with other fields in the message."""
        message = self._messages[self._number]
        kept = {name: value for name, value in message.items() if name not in without}
        changed = [*self._messages]
        changed[self._number] = kept | fields
        return self._render(changed)

    def place(self, *names: str) -> tuple[int, int] | None:
        """Return where a field is in the text; None if it is not shown."""
        named: dict[str, Any] = dict.fromkeys(names, self._word)
        front, is_shown, behind = self._other(**named).partition(self._word)
        if not is_shown:
            return None
        begin, end = len(front), len(self._text) - len(behind)
        is_sound = self._text.startswith(front) and self._text.endswith(behind)
        if not is_sound or end < begin:
            raise _unknown(self._number, "content" if "content" in names else "thought")
        return begin, end

    def reasoning(self) -> Spans:
        """Return the block around the reasoning, which may be empty."""
        mark = secrets.token_hex(16)
        named: dict[str, Any] = {
            **dict.fromkeys(REASONING, self._word),
            "content": mark,
        }
        front, is_shown, rest = self._other(**named).partition(self._word)
        between, has_content, _ = rest.partition(mark)
        if not is_shown:
            return []
        if not has_content:
            raise _unknown(self._number, "reasoning")
        bare, _, _ = self._other(REASONING, content=mark).partition(mark)
        shared = num_shared(front, bare)
        first = _begin(self._learned, min(shared, num_shared(self._text, bare)))
        opening, header = front[first:].strip(), bare[first:]
        closing = between.strip()
        is_block = opening + closing and opening in header and closing in header
        if not any(self._messages[self._number].get(name) for name in REASONING):
            return [(first, len(bare))] if is_block else []
        place = self.place(*REASONING)
        if place is None:
            raise _unknown(self._number, "reasoning")
        if not is_block:  # Text that also ends the header belongs to the content.
            between = between[: len(between) - num_shared(between[::-1], header[::-1])]
        _, end = place
        return [(first, end + num_shared(between, self._text[end:]))]

    def calls(self) -> Spans:
        """Return the range that the calls of tools add to the message."""
        text = self._text
        try:
            bare = self._other(("tool_calls",))
        except InvalidArgumentError as problem:  # Results without a call before them.
            raise _unknown(self._number, "calls of tools") from problem
        if text == bare:
            return []
        try:
            place = self.place("content")
        except InvalidArgumentError:
            place = None
        if place is None:
            front, is_shown, _ = self._other(
                ("tool_calls",), content=self._word
            ).partition(self._word)
            if not is_shown:
                raise _unknown(self._number, "calls of tools")
            place = 0, len(front)
        last, tail = num_shared(text, bare), num_shared(text[::-1], bare[::-1])
        first, added = len(bare) - tail, len(text) - len(bare)
        said, at = place
        if last < first:  # Without calls, the message has another end.
            return [(min(last, at), len(text) - tail)]
        if said >= first + added:  # The content follows.
            at = said - added
        begin = min(last, max(at, first))
        return [(begin, begin + added)]


def _begin(learned: Spans, place: int) -> int:
    """Return where the learned range around a place begins; or else the place."""
    return next((begin for begin, end in learned if begin <= place <= end), place)


def _minus(span: tuple[int, int], found: Spans) -> Spans:
    """Return a range without the sorted ranges inside it."""
    begin, end = span
    left = []
    for first, stop in found:
        if begin < first < end:
            left.append((begin, first))
        begin = max(begin, min(stop, end)) if first < end else begin
    return [*left, (begin, end)] if begin < end else left


def _unknown(number: int, part: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the {part} of message {number + 1} cannot be distinguished from the rest of "
        "the chat's text: leave it out of mask=, or give a chat_template= that writes "
        "it in a separate place"
    )
