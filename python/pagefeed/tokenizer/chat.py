"""Chat templates: messages to text, and labels for the tokens of the assistant."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import IGNORED, LABELS, lazy
from pagefeed.errors import InvalidArgumentError
from pagefeed.tokenizer.answers import find_answer, find_message
from pagefeed.tokenizer.masks import (
    TrainOn,
    check_parts,
    only_last_turn,
    without_parts,
)
from pagefeed.tokenizer.messages import (
    Chat,
    check_roles,
    check_shown,
    lists_of,
    parse_chat,
    with_joined_parts,
)
from pagefeed.tokenizer.sandbox import Sandbox, TemplateRefusal
from pagefeed.tokenizer.sources import content_of
from pagefeed.tokenizer.token_offsets import TokenOffsets
from pagefeed.tokenizer.tokenizer import Tokenizer

__all__ = ["IGNORED", "LABELS", "ChatTemplate"]

Spans = list[tuple[int, int]]

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


class ChatTemplate:
    """Renders chats like ``transformers``, and labels the tokens of the assistant.

    If the template has ``{% generation %}`` blocks, their tokens have labels, as in
    ``apply_chat_template(..., return_assistant_tokens_mask=True)``. Otherwise each
    message of the assistant has labels for what it adds to the chat so far and the
    prompt for an answer, without white space after its last special token. Messages of
    ``weight`` 0 have no labels.

    Args:
        text: The template, in Jinja.
        tokens: Special tokens by their names in the template, such as ``eos_token``.
        today: The date that templates write; by default the current date.
        roles: Roles of the data, and their names in the template.
        train_on: ``"last"`` gives labels only to answers after the last message of a
            user, ``"weighted"`` to messages of any role whose weight is 1.
        mask: Parts of answers without labels: ``"reasoning"`` with its tags,
            ``"tool_calls"``, and ``"tool_results"`` in generation blocks.

    Raises:
        InvalidArgumentError: If it is not a valid template.
        MissingDependencyError: If jinja2 is not installed.
    """

    def __init__(
        self,
        text: str,
        tokens: Mapping[str, str],
        today: datetime.date | None = None,
        roles: Mapping[str, str] | None = None,
        train_on: TrainOn = "answers",
        mask: Iterable[str] = (),
    ) -> None:
        self._made_of = text, dict(tokens), today, check_roles(roles)
        self._parts = check_parts(train_on, mask)
        self._text = text
        self.today = today
        """The date that templates write; None for the current date."""
        self._mark = f"\0{secrets.token_hex(16)}\0"  # No text holds it.
        try:
            self._template = Sandbox(text, self._mark, self._now)
        except TemplateRefusal as problem:
            raise InvalidArgumentError(f"no chat template: {problem}") from problem

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        text: str | None = None,
        roles: Mapping[str, str] | None = None,
        train_on: TrainOn = "answers",
        mask: Iterable[str] = (),
    ) -> Self:
        """Return the template of a tokenizer, or ``text`` with the tokenizer's tokens.

        Raises:
            InvalidArgumentError: If there is no template, the tokenizer does not tell
                the offsets of tokens, or encodes special tokens as text.
        """
        config = tokenizer.config
        template = text or config.get("chat_template")
        if isinstance(template, list):  # Several named templates.
            named = [entry for entry in template if isinstance(entry, dict)]
            default = [entry for entry in named if entry.get("name") == "default"]
            template = default[0].get("template") if default else None
        if not isinstance(template, str):
            raise InvalidArgumentError(
                f"{tokenizer.name} has no chat template: it would be in "
                "tokenizer_config.json or chat_template.jinja next to tokenizer.json; "
                "or give chat_template="
            )
        if tokenizer.engine == "python" or not tokenizer.takes_special_tokens:
            raise InvalidArgumentError(
                "chats need a tokenizer that has a tokenizer.json and encodes special "
                "tokens as tokens: give special_tokens='as_token'"
            )
        tokens = {
            name: content
            for name, token in config.items()
            if name.endswith("_token") and (content := content_of(token)) is not None
        }
        return cls(template, tokens, None, roles, train_on, mask)

    def on(self, today: datetime.date) -> ChatTemplate:
        """Return the template with a different date."""
        text, tokens, _, roles = self._made_of
        return ChatTemplate(text, tokens, today, roles, *self._parts)

    def __reduce__(self) -> tuple[type[ChatTemplate], tuple[Any, ...]]:
        """Pickle as its arguments."""
        return ChatTemplate, (*self._made_of, *self._parts)

    @lazy
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify template, tokens and roles."""
        text, tokens, _, roles = self._made_of
        made_of: list[Any] = [text, tokens, roles] if roles else [text, tokens]
        if self._parts != check_parts("answers", ()):
            made_of.append(self._parts)
        text_made_of = json.dumps(made_of, sort_keys=True)
        return hashlib.blake2b(text_made_of.encode(), digest_size=16).hexdigest()

    @property
    def writes_date(self) -> bool:
        """Whether the template may write the current date."""
        return "strftime_now" in self._text

    def writes(self, token: str) -> bool:
        """Whether the template may write a special token, directly or by its name."""
        names = (name for name, written in self._made_of[1].items() if written == token)
        return any(word in self._text for word in (token, *names))

    def _now(self, form: str) -> str:
        if self.today is None:
            return datetime.datetime.now().strftime(form)  # noqa: DTZ005 - as elsewhere
        return datetime.datetime.combine(self.today, datetime.time()).strftime(form)

    def render(
        self,
        messages: object,
        *,
        tools: object = None,
        add_generation_prompt: bool = False,
    ) -> tuple[str, Spans]:
        """Return the text of a chat, and the ranges of its generation blocks.

        Raises:
            InvalidArgumentError: If the messages are invalid, or the template refuses
                them.
        """
        chat = parse_chat(messages, tools, self._made_of[3])
        return self._render(chat, add_generation_prompt=add_generation_prompt)

    def _render(
        self, chat: Chat, *, add_generation_prompt: bool = False
    ) -> tuple[str, Spans]:
        try:
            marked = self._marked(chat.messages, chat.tools, add_generation_prompt)
        except TemplateRefusal as problem:
            # Some templates expect a content of None with tool calls.
            said = [
                {"content": None, **message} if "tool_calls" in message else message
                for message in chat.messages
            ]
            try:
                if said == chat.messages:
                    raise
                marked = self._marked(said, chat.tools, add_generation_prompt)
            except TemplateRefusal:
                raise InvalidArgumentError(
                    f"the chat template refuses the messages: {problem}"
                ) from problem
        parts = marked.split(self._mark)
        ends = np.cumsum([len(text) for text in parts]).tolist()
        return "".join(parts), [*zip(ends[:-1:2], ends[1::2], strict=False)]

    def _marked(
        self,
        messages: list[dict[str, Any]],
        tools: list[Any] | None,
        prompt: bool,  # noqa: FBT001
    ) -> str:
        return self._template.render(
            messages=messages,
            tools=tools,
            documents=None,
            add_generation_prompt=prompt,
            **self._made_of[1],
        )

    def encode(
        self, tokenizer: Tokenizer, messages: object, tools: object = None
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return ids and labels of a chat: uint32 and int32 [tokens].

        Labels are the ids of the assistant's tokens, and -100 elsewhere.

        Raises:
            InvalidArgumentError: If the messages are invalid, the template refuses
                them, or the answers cannot be found in the text.
        """
        train_on, mask = self._parts
        weighted = train_on == "weighted"
        chat = parse_chat(messages, tools, self._made_of[3], weighted=weighted)
        text, spans = self._render(chat)
        if any(str(parts) in text for parts in lists_of(chat)):
            chat = with_joined_parts(chat)
            text, spans = self._render(chat)
        check_shown(chat, text)
        if train_on == "last":
            chat = only_last_turn(chat)
        spans = self._learned(text, chat, spans, tokenizer)
        if mask:
            spans = without_parts(
                chat,
                text,
                spans,
                mask,
                lambda messages: self._render(chat._replace(messages=messages))[0],
            )
        ids = tokenizer.encode(text)
        labels = np.full(len(ids), IGNORED, np.int32)
        offsets = TokenOffsets(tokenizer, text, ids)
        for begin, end in spans:
            first, stop = offsets.tokens(begin, end)
            labels[first:stop] = ids[first:stop]
        return ids, labels

    def _learned(
        self, text: str, chat: Chat, blocks: Spans, tokenizer: Tokenizer
    ) -> Spans:
        """Return what is learned: generation blocks, or what messages add."""

        def render(messages: list[dict[str, Any]], **options: bool) -> str:
            return self._render(chat._replace(messages=messages), **options)[0]

        special = tokenizer.special_ids
        has_blocks = _GENERATION.search(self._text) is not None
        found = _learned_blocks(chat, blocks) if has_blocks else []
        for number, message in enumerate(chat.messages):
            is_answer = message.get("role") == "assistant"
            if chat.is_learned[number] and not (has_blocks and is_answer):
                find = find_answer if is_answer else find_message
                found.append(find(chat.messages, number, text, render, special))
        return found


def _learned_blocks(chat: Chat, spans: Spans) -> Spans:
    """Return the generation blocks of messages that are learned."""
    said = [message.get("role") == "assistant" for message in chat.messages]
    if chat.is_learned == said:
        return spans
    if sum(said) != len(spans):
        raise InvalidArgumentError(
            f"the chat template has {len(spans)} generation blocks for {sum(said)} "
            "messages of the assistant, so that weights of messages cannot be found"
        )
    learned = [
        has for has, is_said in zip(chat.is_learned, said, strict=True) if is_said
    ]
    return [span for span, is_learned in zip(spans, learned, strict=True) if is_learned]
