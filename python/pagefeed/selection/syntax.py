"""Text of a predicate: parsed by Python, with errors marked in the text."""

from __future__ import annotations

import ast
import itertools
import keyword
import re
import tokenize
from collections.abc import Iterator
from typing import Self

from pagefeed.errors import InvalidArgumentError

_GRAMMAR = (
    "a predicate is made of columns (quality, meta.score, column('any name')), "
    "numbers, 'strings', true and false, + - * /, length(column) and "
    "hash(column) % number, compared by "
    "== != < <= > >=, in [...], not in [...], is null, is not null, of "
    "startswith(column, 'text') and contains(column, 'text'), and joined by and, or, "
    "not, ( )"
)
_LINES = "a text lies on one line: write \\n for a new line"
_SIDE_BY_SIDE = (
    "two texts stand side by side: write \"it's\" or 'it\\'s' for a quote in a text, "
    "and a comma between two of a list"
)
_OWN_WORDS = {"and", "or", "not", "in", "is", "True", "False", "None"}
_SQL = {
    "BETWEEN": "write 1 <= number <= 5 for BETWEEN",
    "LIKE": "write startswith(column, 'text') or contains(column, 'text') for LIKE",
}


class WrittenFloat(float):
    """A literal with all its digits: a decimal may have more than a float."""

    _text: str

    def __new__(cls, text: str) -> Self:
        """Return the number that a text stands for."""
        number = super().__new__(cls, text)
        number._text = text.replace("_", "")
        return number

    def __neg__(self) -> WrittenFloat:
        """Return the number with the other sign."""
        positive = self._text.removeprefix("-")
        return WrittenFloat(positive if positive != self._text else f"-{positive}")

    def __repr__(self) -> str:
        """Return the text."""
        return self._text


class PredicateText:
    """Text of a predicate, on one or several lines.

    Args:
        text: What is written.
    """

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
        # In parentheses, so that it may go over lines.
        self._whole = f"({self.text}\n)"
        self._lines = self._whole.split("\n")

    def parse(self) -> ast.expr:
        """Return the tree.

        Raises:
            InvalidArgumentError: If it is not a Python expression, or does not mean
                what it seems to.
        """
        try:
            tree = ast.parse(self._whole, mode="eval").body
        except SyntaxError as error:
            hint = next(_hints(self.text), error.msg)
            position = error.lineno or 1, (error.offset or 1) - 1
            raise self._refused(f"bad syntax: {hint}", position) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise InvalidArgumentError(f"bad predicate: {error}; {_GRAMMAR}") from None
        for token, problem in self._misleading():
            raise self._refused(problem, token.start, token.end)
        lines = [line.encode() for line in self._lines]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                written = lines[node.lineno - 1][node.col_offset : node.end_col_offset]
                node.value = WrittenFloat(written.decode())
        return tree

    def refuse(self, node: ast.expr, problem: str) -> InvalidArgumentError:
        """Return an error that marks a node in the text."""
        start, stop = (
            (row, len(self._lines[row - 1].encode()[:column].decode()))
            for row, column in (
                (node.lineno, node.col_offset),
                (node.end_lineno or node.lineno, node.end_col_offset or 0),
            )
        )
        return self._refused(problem, start, stop)

    def _refused(
        self, problem: str, start: tuple[int, int], stop: tuple[int, int] | None = None
    ) -> InvalidArgumentError:
        """Return an error that marks a line from one position on."""
        (row, column), last = start, len(self._lines) - 1
        if row > last:  # After the text, where something is missing.
            row, column = last, len(self._lines[last - 1])
        line = self._lines[row - 1]
        end = column + 1 if stop is None else stop[1] if stop[0] == row else len(line)
        if row == 1:
            line, column, end = line[1:], max(0, column - 1), end - 1
        mark = " " * column + "^" * max(1, end - column)
        return InvalidArgumentError(f"{problem}; {_GRAMMAR}", f"  {line}", f"  {mark}")

    def _misleading(self) -> Iterator[tuple[tokenize.TokenInfo, str]]:
        """Yield what Python reads otherwise than it looks, and why."""
        depth, before = 0, None
        lines = iter([f"{line}\n" for line in self._lines])
        read = tokenize.generate_tokens(lines.__next__)
        blanks = tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE
        tokens = [token for token in read if token.type not in blanks]
        for token, behind in itertools.pairwise(tokens):
            depth += (token.string in "([{") - (token.string in ")]}")
            if not depth and behind.type != tokenize.ENDMARKER:
                yield token, "bad syntax: unmatched ')'"
            if token.type == tokenize.STRING and token.start[0] != token.end[0]:
                yield token, _LINES
            if token.type == before == tokenize.STRING:
                yield token, _SIDE_BY_SIDE
            before = token.type


def _hints(source: str) -> Iterator[str]:
    """Yield advice for people who write SQL, or name columns as words of Python."""
    bare = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "''", source)
    if re.search(r"['\"]", bare.replace("''", "")):
        yield _LINES if "\n" in source else "a text ends with the quote that begins it"
    words = re.findall(r"[^\s()]+", bare)
    yield from (_SQL[word.upper()] for word in words if word.upper() in _SQL)
    for word in ("AND", "OR", "NOT", "IN", "IS"):
        if word in words:
            yield f"write {word.lower()} for {word}"
    if "<>" in words:
        yield "write != for <>"
    if "&&" in bare or "||" in bare:
        yield "write and, or for &&, ||"
    for name in re.findall(r"[^\W\d][\w.]*", bare):
        taken = [step for step in name.split(".") if keyword.iskeyword(step)]
        if taken and not {*taken} <= _OWN_WORDS:
            yield f"{taken[0]} is a word of the grammar: write column({name!r})"
    # A single = between any characters.
    if re.search(r"(?<![=!<>])=(?!=)", bare):
        yield "write == for equality"
