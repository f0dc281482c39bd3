"""Limits of a chat template: steps, and bytes that it makes or compares.

Arguments are counted before a filter, method or operator runs: one of them may take
hours or gigabytes, and nothing ends it from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from types import BuiltinMethodType
from typing import Any

MOST_STEPS = 1_000_000
"""Most loop passes and calls of one rendering; long chats need some ten thousand."""
MOST_SIZE = 64 << 20
"""Most characters of a text, or items of a list, that a template may make."""
STEP = 512
"""Bytes that are made or compared for one step."""
SHALLOW = frozenset(
    ("last", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr")
)
"""Filters that look at the items of a list alone, not into them."""
WIDTHS = frozenset(
    ("batch", "center", "expandtabs", "indent", "ljust", "rjust", "slice", "zfill")
)
"""Filters and methods that fill up to a width."""
INSERTING = frozenset(("%", "format", "join", "translate"))
"""Operators, filters and methods that put what they are given into a text."""
TEXT = (str, bytes)
LISTS = (list, tuple, dict, range)
MADE = (str, bytes, list, tuple)


class Steps:
    """Counts the work of one rendering: steps, and bytes."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_STEPS * STEP

    def take(self, size: int) -> None:
        """Count bytes."""
        self.left -= size
        if self.left < 0:
            raise OverflowError(f"it takes more than {MOST_STEPS:,} steps")

    def count(self, items: Any) -> Any:
        """Count a step for each item of a loop."""
        if isinstance(items, Sized):
            self.take(len(items) * STEP)
            return items
        taken = []
        for item in items:
            self.take(STEP)
            taken.append(item)
        return taken

    def weigh(self, value: Any) -> Any:
        """Count all that is in a value, however often it is in there."""
        if isinstance(value, TEXT):
            self.take(len(value))
        elif isinstance(value, LISTS):
            inside, size = [value], 0
            while inside:
                part = inside.pop()
                if isinstance(part, TEXT):
                    size += len(part)
                elif isinstance(part, LISTS):
                    self.take(size + STEP * len(part))
                    size = 0
                    inside += part if not isinstance(part, range) else ()
                    inside += part.values() if isinstance(part, dict) else ()
            self.take(size)
        return value

    def member_of(self, value: Any) -> Any:
        """Count what is searched; a dictionary finds its keys at once."""
        return value if type(value) is dict else self.weigh(value)

    def shown(self, value: Any) -> Any:
        """Count what becomes a text; texts were counted when they were made."""
        return value if type(value) is str else self.weigh(value)

    def made(self, value: Any) -> Any:
        """Count a text or list that was made, without what is in it."""
        if isinstance(value, MADE):
            size = len(value)
            if size > MOST_SIZE:
                check_made(size)
            self.left = left = self.left - STEP - size * (4 if size > STEP else 1)
            if left < 0:
                self.take(0)
        return value

    def join(self, parts: Iterable[str]) -> str:
        """Join texts that were made before."""
        parts = parts if type(parts) is list else [*parts]
        check_made(sum(map(len, parts)))
        return self.made("".join(parts))

    def tilde(self, parts: list[Any]) -> str:
        """Join values, as the operator ``~``."""
        if any(type(part) is not str for part in parts):
            parts = [str(self.weigh(part)) for part in parts]
        return self.join(parts)

    def before_filter(self, name: str, value: Any, *others: Any, **named: Any) -> None:
        """Count what a filter is given and what it makes."""
        given = (*others, *named.values())
        if isinstance(value, TEXT):
            return self.before_text(name, value, *given)
        if name not in SHALLOW:
            self.weigh(value)
        elif isinstance(value, LISTS):
            self.take(STEP * len(value))
        if name in WIDTHS:
            self.make(8 * max((n for n in given if isinstance(n, int)), default=0))
        elif name == "join" and isinstance(value, (list, tuple)):
            self.make(len(value) * _greatest_length(given))
        elif name == "sum" and any(isinstance(g, MADE) for g in given):
            self.make(len(value) ** 2)
        return None

    def before_text(self, name: str, text: Any, *given: Any) -> None:
        """Count what a method or filter of a text is given and what it makes."""
        if name not in INSERTING:
            if not given:
                return self.take(len(text))
            if len(given) == 1 and type(given[0]) is str:
                return self.take(len(text) + (len(text) * len(given[0]) >> 4))
        self.take(len(text) + (len(text) * _greatest_length(given) >> 4))
        numbers = [number for number in given if isinstance(number, int)]
        if name == "replace" and len(given) > 1 and isinstance(given[0], str):
            self.make(text.count(given[0]) * _greatest_length(given[1:2]))
        elif name == "join" and given:
            self.weigh(given[0])
            if isinstance(given[0], Sized):
                self.make(len(given[0]) * len(text))
        elif name in ("%", "format"):
            numbers += [int(digits[:19]) for digits in re.findall(r"\d+", text)]
            before = self.left
            self.weigh(list(given))
            each = max(map(abs, numbers), default=0) + before - self.left
            self.make((text.count("%") + text.count("{")) * each)
        elif name == "translate":
            self.make(len(text) * 64)
        elif numbers and name in WIDTHS:
            lines = text.count("\n") + text.count("\t") + 1
            self.make(max(map(abs, numbers)) * lines)
        return None

    def make(self, size: int) -> None:
        """Count what will be made."""
        check_made(size)
        self.take(size)

    def before_call(self, function: Any, given: Any, named: dict[str, Any]) -> None:
        """Count what a call is given."""
        if type(function) is not BuiltinMethodType:
            function = getattr(function, "__wrapped__", function)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, TEXT):
            self.before_text(function.__name__, owner, *given, *named.values())
        elif isinstance(owner, (list, tuple, int)):
            self.weigh(owner)
            self.make(sum(abs(n) for n in given if isinstance(n, int)))
        elif isinstance(function, type):
            self.weigh(list(given))
            self.weigh(named)

    def before_operator(self, operator: str, left: Any, right: Any) -> None:
        """Refuse operations with a large result before they run."""
        if isinstance(left, int) and isinstance(right, int):
            if operator == "**":
                self.make(left.bit_length() * max(right, 0) << 12)
            elif operator == "*":
                self.make((left.bit_length() + right.bit_length()) << 12)
        elif operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, MADE) and isinstance(times, int):
                    check_made(len(many) * times)
        elif operator == "%" and isinstance(left, TEXT):
            self.before_text("%", left, right)


def _greatest_length(values: Iterable[Any]) -> int:
    return max((len(value) for value in values if isinstance(value, TEXT)), default=0)


def check_made(size: int) -> None:
    """Refuse a size that no chat has.

    Raises:
        OverflowError: If it is one.
    """
    if size > MOST_SIZE:
        raise OverflowError(f"it makes a value of {size:,} parts")
