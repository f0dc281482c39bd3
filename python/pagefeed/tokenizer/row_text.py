"""The text of a row: from a function, or from a template over its columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from string import Formatter
from types import CodeType
from typing import Any, TypeAlias

from pagefeed.errors import InvalidArgumentError

TextOfRow: TypeAlias = str | Callable[[Mapping[str, Any]], str | None]
r"""A template such as ``"{title}\n\n{doc.text}"``, or a function of a row."""


class RowText:
    r"""Makes the text of a row from several columns.

    In a template a name in braces is a column, or the dotted path of a field. A null is
    an empty text. The non-empty texts of a list become lines.

    Args:
        text: The template, or the function.

    Raises:
        InvalidArgumentError: If it is neither.

    Example:
        >>> RowText("{title}: {doc.text}")({"title": "A", "doc": {"text": ["b", "c"]}})
        'A: b\nc'
    """

    def __init__(self, text: TextOfRow) -> None:
        self._text = text
        self._parts: list[tuple[str, list[str] | None]] = []
        if isinstance(text, str):
            self._parts = _parts(text)
        elif not callable(text):
            raise InvalidArgumentError(
                f"text={text!r:.60}: give a template such as '{{title}} {{body}}', or "
                "a function of a row"
            )

    def __reduce__(self) -> tuple[type[RowText], tuple[TextOfRow]]:
        """Pickle as its arguments; a function must be picklable."""
        return RowText, (self._text,)

    @property
    def columns(self) -> list[str]:
        """The columns that a template names; empty for a function."""
        return [*dict.fromkeys(path[0] for _, path in self._parts if path)]

    @property
    def fingerprint(self) -> str:
        """Identifies it: a function by its name, code, defaults and closure."""
        if isinstance(self._text, str):
            return self._text
        facts = [getattr(self._text, "__qualname__", type(self._text).__qualname__)]
        function = getattr(self._text, "__func__", self._text)
        if not hasattr(function, "__code__"):
            function = type(function).__call__
        facts += [*_code(getattr(function, "__code__", None))]
        cells = getattr(function, "__closure__", None) or ()
        facts += [repr(getattr(function, "__defaults__", None))]
        for value in (cell.cell_contents for cell in cells):
            is_plain = isinstance(value, str | int | float | tuple | None)
            facts.append(repr(value) if is_plain else type(value).__qualname__)
        return hashlib.blake2b("\0".join(facts).encode(), digest_size=16).hexdigest()

    def __call__(self, row: Mapping[str, Any]) -> str | None:
        """Return the text of a row; None if it has none.

        Raises:
            InvalidArgumentError: If a field is missing or not text, or the function
                raises an error.
        """
        if self._parts:
            return "".join(
                before + ("" if path is None else _text_at(row, path))
                for before, path in self._parts
            )
        try:
            text = self._text(row)  # type: ignore[operator]
        except Exception as problem:
            raise InvalidArgumentError(
                f"text= raises {type(problem).__name__}: {problem}"
            ) from problem
        if not isinstance(text, str | None):
            raise InvalidArgumentError(
                f"text= returns {type(text).__name__} {text!r:.40}, no text"
            )
        return text


def _parts(template: str) -> list[tuple[str, list[str] | None]]:
    try:
        fields = [*Formatter().parse(template)]
    except ValueError as problem:
        raise InvalidArgumentError(f"text={template!r}: {problem}") from problem
    if any(spec or conversion for _, _, spec, conversion in fields):
        raise InvalidArgumentError(
            f"text={template!r} has a format or conversion: name columns only"
        )
    names = [name for _, name, _, _ in fields if name is not None]
    if not names or not all(all(name.split(".")) for name in names):
        raise InvalidArgumentError(
            f"text={template!r} names no column: write one in braces, as in "
            f"'{{title}}\\n{{body}}'"
        )
    return [(text, name.split(".") if name else None) for text, name, _, _ in fields]


def _text_at(value: Any, path: list[str]) -> str:
    if isinstance(value, bytes):
        value = value.decode()
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, (_text_at(item, path) for item in value)))
    if not path:
        if isinstance(value, str | int | float):
            return f"{value}"
        raise InvalidArgumentError(
            f"{type(value).__name__} {value!r:.40} is not a text"
        )
    if isinstance(value, str):  # Files keep some objects as JSON.
        value = json.loads(value)
    if not isinstance(value, Mapping) or path[0] not in value:
        raise InvalidArgumentError(f"there is no {path[0]!r} in {value!r:.60}")
    return _text_at(value[path[0]], path[1:])


def _code(code: CodeType | None) -> list[str]:
    if code is None:
        return []
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    plain = [
        constant for constant in code.co_consts if not isinstance(constant, CodeType)
    ]
    shown = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in plain]
    facts = [code.co_code.hex(), repr(shown), repr(code.co_names)]
    return [*facts, *(line for constant in inner for line in _code(constant))]
