"""Finds the answers of an assistant in the text of a chat."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import Any

from pagefeed.errors import InvalidArgumentError

Render = Callable[..., str]
"""Renders messages; with ``add_generation_prompt``, the prompt for an answer too."""


def find_answer(
    chat: list[dict[str, Any]],
    message: int,
    text: str,
    render: Render,
    special: Collection[str],
) -> tuple[int, int]:
    """Return where an answer begins and ends in the text of a chat.

    The answer is what the message adds to the messages before it and the prompt for an
    answer, without white space after its last special token. Some templates write a
    prompt that answers do not begin with, or render a message differently once others
    follow. Then the text around a random word in place of the answer shows its place.

    Args:
        chat: The messages.
        message: Number of the answer among them.
        text: The rendered chat.
        render: Renders messages.
        special: Special tokens, as text.

    Raises:
        InvalidArgumentError: If the answer cannot be found.
    """
    before = _prompt(chat[:message], render)
    whole = render(chat[: message + 1])
    begin = len(before or "")
    if before is None:
        before, begin = whole, _begin(chat, message, render, whole)
    elif not whole.startswith(before):
        begin = _begin(chat, message, render, before)
    end = len(whole)
    if not text.startswith(whole):
        end = _end(chat, message, text, render, special)
    if not text.startswith(before[:begin]):  # Prompts of the last answer say more.
        begin = _begin(chat, message, render, before, chat[message + 1 :])
    if not text.startswith(before[:begin]) or end < begin:
        raise _unknown(message)
    return begin, _without_space(text, begin, end, special)


def find_message(
    chat: list[dict[str, Any]],
    message: int,
    text: str,
    render: Render,
    special: Collection[str],
) -> tuple[int, int]:
    """Return where a message of another role than the assistant's begins and ends.

    It begins with its content, wherever the template writes that, and ends as
    answers do. Arguments and errors are those of :func:`find_answer`.
    """
    mark = secrets.token_hex(16)
    probed = {**chat[message], "content": mark}
    before, is_shown, _ = render(
        [*chat[:message], probed, *chat[message + 1 :]]
    ).partition(mark)
    whole = render(chat[: message + 1])
    end = len(whole)
    if not (whole.startswith(before) and text.startswith(whole)):
        end = _end(chat, message, text, render, special)
    if not is_shown or not text.startswith(before) or end < len(before):
        raise _unknown(message)
    return len(before), _without_space(text, len(before), end, special)


def _without_space(text: str, begin: int, end: int, special: Collection[str]) -> int:
    """Return an end without white space after the last special token."""
    bare = text[:end].rstrip()
    is_ended = len(bare) > begin and any(map(bare.endswith, special))
    return len(bare) if is_ended else end


def _prompt(before: list[dict[str, Any]], render: Render) -> str | None:
    """Return the prompt for an answer; None if there is none for the first message."""
    if before:
        return render(before, add_generation_prompt=True)
    try:
        prompt, front = render([], add_generation_prompt=True), render([])
    except InvalidArgumentError:  # For a template that looks at the first message.
        return None
    return prompt if len(prompt) > len(front) else None


def _begin(
    chat: list[dict[str, Any]],
    message: int,
    render: Render,
    before: str,
    behind: Sequence[dict[str, Any]] = (),
) -> int:
    """Return the length of the prompt that answers share; prompts may add <think>."""
    mark = secrets.token_hex(16)
    probed = {"role": chat[message].get("role"), "content": mark}
    front, _, _ = render([*chat[:message], probed, *behind]).partition(mark)
    shared = num_shared(before, front)
    if message and shared < len(render(chat[:message])):
        raise _unknown(message)
    return shared


def _end(
    chat: list[dict[str, Any]],
    message: int,
    text: str,
    render: Render,
    special: Collection[str],
) -> int:
    """Find the end of an answer, by rendering the chat with a random word instead."""
    mark = secrets.token_hex(16)
    probed = {**chat[message], "content": mark}
    _, separator, behind = render(
        [*chat[:message], probed, *chat[message + 1 :]]
    ).partition(mark)
    _, _, tail = render([*chat[:message], probed]).partition(mark)
    if tail.rstrip() in special:  # Another one may end answers before the last.
        tail = max(filter(behind.startswith, special), key=len, default=tail)
    ends = [tail, *(tail.removesuffix(token) for token in special)]  # In the chat.
    tail = next((end for end in ends if end and behind.startswith(end)), tail)
    is_sound = separator and text.endswith(behind) and behind.startswith(tail)
    if not is_sound or not isinstance(chat[message].get("content"), str):
        raise _unknown(message)
    return len(text) - len(behind) + len(tail)


def num_shared(left: str, right: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    both = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))


def _unknown(message: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"what the chat template makes of message {message + 1} cannot be "
        "distinguished from the rest of the chat: give one with {% generation %} "
        "blocks around what the assistant says, chat_template="
    )
