"""Chat templates: messages to text, and which tokens of it an assistant says."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pagefeed._base import lazy, require
from pagefeed.errors import InvalidArgumentError
from pagefeed.tokenizer.token_places import TokenPlaces
from pagefeed.tokenizer.tokenizer import Tokenizer

__all__ = ["IGNORED", "ChatTemplate"]

IGNORED = -100
"""Label of a token that is not learned."""

Message = dict[str, Any]
Spans = list[tuple[int, int]]

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names under which messages have what was thought before the answer."""


class ChatTemplate:
    """Renders chats as ``transformers`` does, and labels what the assistant says.

    With ``{% generation %}`` blocks in the template these are what is learned, exactly
    as ``apply_chat_template(..., return_assistant_tokens_mask=True)`` has it. Without
    them it is what each of the assistant's messages adds to the chat so far and the
    prompt for an answer; white space behind the last special token of that is left out.

    Args:
        text: The template, in Jinja.
        tokens: Special tokens by their names in the template, such as ``eos_token``.
        today: What templates take for the current date; by default that.

    Raises:
        InvalidArgumentError: If it is no template.
        MissingDependencyError: If jinja2 is not installed.
    """

    def __init__(
        self,
        text: str,
        tokens: Mapping[str, str],
        today: datetime.date | None = None,
    ) -> None:
        self._made_of = text, dict(tokens), today
        self._text = text
        self.today = today
        """What templates take for the current date, if it is said."""
        try:
            self._template = _environment(self._mark, self._now).from_string(text)
        except _jinja().TemplateSyntaxError as problem:
            raise InvalidArgumentError(f"no chat template: {problem}") from problem

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str | None = None) -> Self:
        """Return the template of a tokenizer, or one of one's own with its tokens.

        Raises:
            InvalidArgumentError: If there is none, or the tokenizer cannot tell where
                in a text its tokens lie, or takes special tokens for text.
        """
        config = tokenizer.config
        template = text or config.get("chat_template")
        if isinstance(template, list):  # Several, by their names.
            named = {one["name"]: one["template"] for one in template}
            template = named.get("default")
        if not isinstance(template, str):
            raise InvalidArgumentError(
                f"{tokenizer.name} has no chat template: it would be in "
                "tokenizer_config.json or chat_template.jinja beside tokenizer.json; "
                "or give chat_template="
            )
        if tokenizer.engine == "python" or not tokenizer.takes_special_tokens:
            raise InvalidArgumentError(
                "chats need a tokenizer that has a tokenizer.json and takes special "
                "tokens for tokens: special_tokens='as_token'"
            )
        tokens = {
            name: content
            for name, token in config.items()
            if name.endswith("_token") and isinstance(content := _content(token), str)
        }
        return cls(template, tokens)

    def on(self, today: datetime.date) -> ChatTemplate:
        """Return the same on another day."""
        return ChatTemplate(self._made_of[0], self._made_of[1], today)

    def __reduce__(self) -> tuple[type[ChatTemplate], tuple[Any, ...]]:
        """Pickle as what it is made of."""
        return ChatTemplate, self._made_of

    @lazy
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify template and tokens."""
        told = json.dumps(self._made_of[:2], sort_keys=True)
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()

    @property
    def writes_date(self) -> bool:
        """Whether it may write the current date."""
        return "strftime_now" in self._text

    @lazy
    def _mark(self) -> str:
        """What no text holds: borders of what is learned are marked by it."""
        return f"\0{secrets.token_hex(16)}\0"

    def _now(self, form: str) -> str:
        if self.today is None:
            return datetime.datetime.now().strftime(form)  # noqa: DTZ005 - as elsewhere
        return datetime.datetime.combine(self.today, datetime.time()).strftime(form)

    def render(
        self, messages: object, *, add_generation_prompt: bool = False
    ) -> tuple[str, Spans]:
        """Return the text of a chat, and what of it lies in generation blocks.

        Raises:
            InvalidArgumentError: If they are no messages, or the template refuses them.
        """
        chat = _checked(messages)
        try:
            marked = self._template.render(
                messages=chat,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._made_of[1],
            )
        except (_jinja().TemplateError, TypeError, ValueError) as problem:
            raise InvalidArgumentError(
                f"the chat template refuses the messages: {problem}"
            ) from problem
        parts = marked.split(self._mark)
        ends = np.cumsum([len(part) for part in parts]).tolist()
        return "".join(parts), [*zip(ends[:-1:2], ends[1::2], strict=False)]

    def encode(
        self, tokenizer: Tokenizer, messages: object
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return ids and labels of a chat: uint32 and int32 [tokens].

        Labels are the ids of what the assistant says, and -100 elsewhere.

        Raises:
            InvalidArgumentError: If they are no messages, the template refuses them, or
                without generation blocks, what it makes of the first messages is not
                how it begins with all of them.
        """
        text, spans = self.render(messages)
        if not _GENERATION.search(self._text):
            spans = self._by_prefixes(text, _checked(messages), tokenizer)
        ids = tokenizer.encode(text)
        labels = np.full(len(ids), IGNORED, np.int32)
        places = TokenPlaces(tokenizer, text, ids) if spans else None
        for begin, end in spans:
            if places is None or (first := places.token(begin)) is None:
                break
            last = places.token(end - 1)
            stop = len(ids) if last is None else last + 1
            labels[first:stop] = ids[first:stop]
        return ids, labels

    def _by_prefixes(
        self, text: str, chat: list[Message], tokenizer: Tokenizer
    ) -> Spans:
        spans = []
        for number, message in enumerate(chat):
            if message.get("role") != "assistant":
                continue
            before = ""
            if number:
                before, _ = self.render(chat[:number], add_generation_prompt=True)
            whole, _ = self.render(chat[: number + 1])
            if not (whole.startswith(before) and text.startswith(whole)):
                raise InvalidArgumentError(
                    f"what the chat template makes of the first {number + 1} messages "
                    "is not how it begins with all of them: give one with "
                    "{% generation %} blocks around what the assistant says, "
                    "chat_template="
                )
            spans.append((len(before), _without_space(whole, len(before), tokenizer)))
        return spans


def _without_space(text: str, begin: int, tokenizer: Tokenizer) -> int:
    """The end of a text, or of the last special token if white space alone follows."""
    bare = text.rstrip()
    is_special = any(bare.endswith(token) for token in tokenizer.special_ids)
    return len(bare) if is_special and len(bare) > begin else len(text)


def _content(token: object) -> object:
    return token.get("content") if isinstance(token, Mapping) else token


def _checked(messages: object) -> list[Message]:
    """Messages as templates see them.

    Fields without a value are left out, and what was thought has all of its names.
    """
    is_list = isinstance(messages, Sequence) and not isinstance(messages, str)
    if not is_list or not messages:
        raise InvalidArgumentError(
            "messages are a list of objects with role and content, this is "
            f"{type(messages).__name__} {messages!r:.40}"
        )
    chat = []
    for message in messages:  # type: ignore[attr-defined]
        if not isinstance(message, Mapping):
            raise InvalidArgumentError(
                f"a message is an object with role and content, not {message!r:.40}"
            )
        known = {name: value for name, value in message.items() if value is not None}
        thought = next((known[name] for name in _REASONING if name in known), None)
        if thought is not None:
            known = {"thinking": thought, **known, "reasoning_content": thought}
        chat.append(known)
    return chat


def _jinja() -> Any:  # noqa: ANN401
    return require("jinja2", extra="chat", purpose="chat templates")


def _environment(mark: str, now: object) -> Any:  # noqa: ANN401
    """The sandbox that templates of the hub are written for."""
    jinja = _jinja()
    sandbox = require("jinja2.sandbox", extra="chat", purpose="chat templates")
    extension = require("jinja2.ext", extra="chat", purpose="chat templates")

    class Generation(extension.Extension):  # type: ignore[misc, name-defined]
        """Marks the begin and the end of what a block renders to."""

        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:  # noqa: ANN401
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_marked")
            return jinja.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _marked(self, caller: Any) -> str:  # noqa: ANN401
            return f"{mark}{caller()}{mark}"

    def refuse(message: str) -> None:
        raise jinja.TemplateError(message)

    def as_json(value: object, **options: Any) -> str:  # noqa: ANN401
        return json.dumps(value, **{"ensure_ascii": False, **options})

    made = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, extension.loopcontrols],
    )
    made.filters["tojson"] = as_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = now
    return made
