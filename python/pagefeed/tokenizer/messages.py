"""Parses chats of files into the form that templates take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pagefeed.core._base import warn_user
from pagefeed.errors import InvalidArgumentError, LabelWarning

Message = dict[str, Any]

ROLES = {"human": "user", "gpt": "assistant", "observation": "tool"}
"""Usual names for ShareGPT's roles in ``from``. Unknown roles stay unchanged."""
REASONING = ("reasoning_content", "thinking", "reasoning")
"""Fields of messages with the reasoning before an answer."""


class Chat(NamedTuple):
    """A chat in the form that templates take."""

    messages: list[Message]
    is_learned: list[bool]
    """Whether each message is learned."""
    tools: list[Any] | None
    """The tools that the assistant may call."""


def check_roles(roles: object) -> dict[str, str]:
    """Return a mapping from roles of the data to roles of templates.

    Raises:
        InvalidArgumentError: If a key or value is not text.
    """
    given = {} if roles is None else roles
    if isinstance(given, Mapping) and all(
        isinstance(name, str) for pair in given.items() for name in pair
    ):
        return dict(given)
    raise InvalidArgumentError(
        f"roles={roles!r:.60} is not a mapping of names: give roles={{'model': "
        "'assistant'}}, the role in the data first"
    )


def parse_chat(
    messages: object, tools: object, roles: Mapping[str, str], *, weighted: bool = False
) -> Chat:
    """Return a chat from messages and tools, each a list or its JSON text.

    Messages have ``role`` and ``content``, or ShareGPT's ``from`` and ``value``. Fields
    without a value are left out. Reasoning gets all of its field names, as in
    ``transformers``.

    Args:
        messages: The messages.
        tools: The tools, or None.
        roles: Roles of the data, and their names in templates.
        weighted: Learn the messages that have a weight, instead of the assistant's.

    Raises:
        InvalidArgumentError: If messages or tools have another form.
    """
    given = _parsed(messages, "messages")
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not given:
        raise InvalidArgumentError(
            "messages are a list of objects with role and content, this is "
            f"{type(given).__name__} {given!r:.40}"
        )
    chat = [_message(message, roles) for message in given]  # type: ignore[attr-defined]
    is_learned = [_is_learned(message, weighted) for message in chat]
    tool_list = _parsed(tools, "tools") or None
    if not isinstance(tool_list, list | None):
        raise InvalidArgumentError(
            f"tools are a list, this is {type(tool_list).__name__} {tool_list!r:.40}"
        )
    return Chat(chat, is_learned, tool_list)


def lists_of(chat: Chat) -> list[Any]:
    """Return the contents of messages that are lists of parts."""
    contents = [message.get("content") for message in chat.messages]
    return [content for content in contents if isinstance(content, list) and content]


def check_shown(chat: Chat, text: str) -> None:
    """Raise an error if a rendered chat has the content of no message.

    Raises:
        InvalidArgumentError: If so, as with templates that take lists of parts.
    """
    has_words = False
    for message in chat.messages:
        content = message.get("content")
        begin = content[:1_000] if isinstance(content, str) else ""
        words = re.findall(r"\w+", begin)
        # A template may write line breaks and quotes otherwise, but not words.
        if words and max(words, key=len) in text:
            return
        has_words |= bool(words)
    if has_words:
        raise InvalidArgumentError(
            "the chat template shows the content of no message: it may take lists of "
            "parts, [{'type': 'text', 'text': 'Hi'}]; give such, or chat_template= for "
            "texts"
        )


def with_joined_parts(chat: Chat) -> Chat:
    """Return a chat whose lists of parts are texts, for a template that takes no lists.

    Raises:
        InvalidArgumentError: If a part is not text.
    """
    messages = []
    for message in chat.messages:
        content = message.get("content")
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            if len(texts) < len(content) or None in texts:
                raise InvalidArgumentError(
                    "the chat template prints lists of parts as Python shows them, and "
                    f"not all parts of a message are texts, {content!r:.60}: give "
                    "chat_template= for lists, or messages whose content is text"
                )
            text = "".join(map(str, texts))
            message = {**message, "content": text}  # noqa: PLW2901
        messages.append(message)
    warn_user(
        "the chat template takes texts, and the content of messages is a list of "
        "parts: their texts are joined",
        LabelWarning,
    )
    return chat._replace(messages=messages)


def _parsed(value: object, name: str) -> object:
    if isinstance(value, str | bytes):
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as problem:
            raise InvalidArgumentError(f"{name} must be JSON: {problem}") from problem
    return _without_nulls(value)


def _without_nulls(value: object) -> object:
    """Leave out null fields, with which tables fill up rows."""
    if isinstance(value, Mapping):
        return {
            name: _without_nulls(inner)
            for name, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list | tuple):
        return [_without_nulls(inner) for inner in value]
    return value


def _message(message: object, roles: Mapping[str, str]) -> Message:
    if not isinstance(message, Mapping):
        raise InvalidArgumentError(
            f"a message is an object with role and content, not {message!r:.40}"
        )
    fields = {name: value for name, value in message.items() if value is not None}
    said = fields.get("role")
    if said is None and "from" in fields:
        said, content = fields.pop("from"), fields.pop("value", "")
        fields = {"role": ROLES.get(said, said), "content": content, **fields}
    if said is not None:
        fields["role"] = roles.get(said, fields["role"])
    thought = next((fields[name] for name in REASONING if name in fields), None)
    if thought is not None:
        fields = {"thinking": thought, **fields, "reasoning_content": thought}
    return fields


def _is_learned(message: Message, weighted: bool) -> bool:  # noqa: FBT001
    """Whether a message has labels; removes its weight, which templates do not know.

    Raises:
        InvalidArgumentError: If the weight is neither 0 nor 1.
    """
    weight = message.pop("weight", 0 if weighted else 1)
    if weight not in (0, 1):
        raise InvalidArgumentError(
            f"the weight of a message is 0 or 1, not {weight!r}: weights between are "
            "those of tokens, in a separate aligned column"
        )
    return bool(weight) and (weighted or message.get("role") == "assistant")
