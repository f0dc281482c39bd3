"""Arguments of verbs that are parameters of functions: type, default, choices, help."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

TYPES = {
    **dict.fromkeys(["str", "PathLike", "DTypeLike", "AlignedColumnNames"], str),
    "float": float,
    "int": int,
}
"""Types of flags by names of types: that of the first name that a hint has.

A hint is read as it is written. What names of other packages hold changes with them.
"""
SEVERAL = {"Sequence", "Iterable", "AlignedColumnNames"}
"""Types of parameters whose flags take several values."""
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
        >>> def draw(*, size: "int" = 3) -> None:
        ...     '''Draw.
        ...
        ...     Args:
        ...         size: Number of ``rows``. Any will do.
        ...     '''
        >>> parameters(draw, "size")["--size"]
        {'help': 'number of rows (3)', 'type': <class 'int'>, 'default': 3}
    """
    declared = inspect.signature(function).parameters
    made: Any = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    own = inspect.unwrap(made).__globals__
    flags = {}
    for name in names.split():
        default = declared[name].default
        kinds, choices = set[str](), list[str]()
        hint = ast.parse(declared[name].annotation)
        _split(hint, own, kinds, choices)
        given: dict[str, Any] = {"help": _sentence(function, name)}
        if choices:
            given["choices"] = choices
        elif "bool" in kinds:
            given["action"] = "store_true"
        else:
            given["type"] = next(TYPES[kind] for kind in TYPES if kind in kinds)
        if kinds & SEVERAL:
            given["nargs"] = "+"
        if default is inspect.Parameter.empty:
            given["required"] = True
        elif default not in (None, ()) and "bool" not in kinds:
            given["default"] = default
            given["help"] += f" ({default})".replace("%", "%%")
        flags["--" + name.replace("_", "-")] = given
    return flags


def _split(
    hint: ast.AST, own: Mapping[str, Any], names: set[str], choices: list[str]
) -> None:
    """Add the names in a hint, and the choices of its literals.

    Args:
        hint: The hint, parsed.
        own: What the names are in its module.
        names: Where names go.
        choices: Where choices go.
    """
    match hint:
        case ast.Constant(value=str(choice)):
            choices.append(choice)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            names.add(name)
            if get_origin(own.get(name)) is Literal:
                choices.extend(get_args(own[name]))
    for part in ast.iter_child_nodes(hint):
        _split(part, own, names, choices)


def _sentence(function: Callable[..., object], name: str) -> str:
    """Return the first sentence about a parameter in a docstring, as plain text."""
    text = inspect.getdoc(function) or ""
    said = re.search(rf"^    {name}: ((?:.+\n?)(?:     .+\n?)*)", text, re.MULTILINE)
    whole = " ".join(said[1].split()) if said else name
    first = MARKUP.sub(r"\1", whole.partition(". ")[0]).removesuffix(".")
    if re.match("[A-Z][a-z]|A ", first):  # No abbreviation.
        first = first[0].lower() + first[1:]
    return first.replace("%", "%%")
