"""Arguments of verbs that are parameters of functions: type, default, choices, help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args, get_origin

from pagefeed.remote import StorageOptions
from pagefeed.tokenizer import Tokenizer

__all__ = ["parameters"]

TYPES = {"StorageOptions": StorageOptions, "Tokenizer": Tokenizer}
"""Types that modules import only for type checkers."""
MARKUP = re.compile(r":\w+:`~?([\w.]+)`|``")


def parameters(
    function: Callable[..., object], names: str
) -> dict[str, dict[str, Any]]:
    """Return the arguments that are parameters of a function, by their flags.

    Type, choices and default are those that the function declares. The help is the
    first sentence that its docstring has about the parameter.

    Args:
        function: The function, or a class.
        names: Names of parameters, with blanks between them.

    Example:
        >>> def draw(*, size: int = 3) -> None:
        ...     '''Draw.
        ...
        ...     Args:
        ...         size: Number of ``rows``. Any will do.
        ...     '''
        >>> parameters(draw, "size")["--size"]
        {'help': 'number of rows (3)', 'type': <class 'int'>, 'default': 3}
    """
    declared = inspect.signature(function, locals=TYPES, eval_str=True).parameters
    flags = {}
    for name in names.split():
        default, kinds = declared[name].default, [*_kinds(declared[name].annotation)]
        given: dict[str, Any] = {"help": _sentence(function, name)}
        if choices := [kind for kind in kinds if isinstance(kind, str)]:
            given["choices"] = choices
        elif bool in kinds:
            given["action"] = "store_true"
        else:
            given["type"] = next(t for t in (str, float, int) if t in kinds)
        if Sequence in kinds or Iterable in kinds:
            given["nargs"] = "+"
        if default is inspect.Parameter.empty:
            given["required"] = True
        elif default not in (None, ()) and bool not in kinds:
            given["default"] = default
            given["help"] += f" ({default})".replace("%", "%%")
        flags["--" + name.replace("_", "-")] = given
    return flags


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the types in a hint, and the choices of a literal."""
    yield get_origin(hint) or hint
    for argument in get_args(hint):
        yield from _kinds(argument)


def _sentence(function: Callable[..., object], name: str) -> str:
    """Return the first sentence about a parameter in a docstring, as plain text."""
    text = inspect.getdoc(function) or ""
    said = re.search(rf"^    {name}: ((?:.+\n?)(?:     .+\n?)*)", text, re.MULTILINE)
    whole = " ".join(said[1].split()) if said else name
    first = MARKUP.sub(r"\1", whole.partition(". ")[0]).removesuffix(".")
    if re.match("[A-Z][a-z]|A ", first):  # No abbreviation.
        first = first[0].lower() + first[1:]
    return first.replace("%", "%%")
