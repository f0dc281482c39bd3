"""How public names are imported when they are used, and what they are called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

FACES = ("dataset", "errors", "launch", "mixing", "prepare", "reports", "run")
"""Modules of results, and of what few people call."""

EXPORTS: dict[str, str] = {}
"""Module of each public name, as the package lists them."""

CALLED = {
    *(
        "Loader",
        "Mixture",
        "SequenceView",
        "StreamWriter",
        "Tokenizer",
    ),
    *("FlatDataset", "Learner", "MegatronDataset", "ParquetDataset", "StreamDataset"),
}
"""Classes whose methods users call; those of others are called while batches are made,
where another frame would cost time."""


def imported(name: str) -> Any:
    """Return the object with a public name, or the module of that name."""
    if name in FACES:
        return import_module(f"pagefeed.{name}")
    module = import_module(f"pagefeed.{EXPORTS[name]}")
    return module.version() if name == "__version__" else getattr(module, name)


def name_as_imported(module: str) -> None:
    """Make exports behave as names of the public module that users import them from.

    Reprs, tracebacks and pickles name that module. An unknown argument of a public
    function, class or method raises an error that suggests the nearest known one.
    """
    exports = sys.modules[module].__dict__
    own = module.removeprefix("pagefeed.")
    for name in CALLED.intersection(exports["__all__"]):
        _suggest_in_methods(exports[name])
    for name in exports["__all__"]:
        thing, is_public = exports[name], EXPORTS.get(name) == own
        is_ours = getattr(thing, "__module__", "").startswith("pagefeed.")
        is_here = own in FACES and name not in EXPORTS
        if callable(thing) and is_ours and (is_public or is_here):
            if is_public and isinstance(thing, FunctionType):
                # Rooms pickle the function itself, by the module that defines it.
                exports[name] = thing = _suggesting(thing)
            elif is_public and "__init__" in vars(thing):
                thing.__init__ = _suggesting(thing.__init__)
            thing.__module__ = "pagefeed" if is_public else module


def _suggest_in_methods(kind: type) -> None:
    """Let errors of a class's public methods suggest the nearest known argument."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != "pagefeed":
            continue
        for name, method in list(vars(base).items()):
            is_wrapped = hasattr(method, "__wrapped__")
            if name[0] != "_" and isinstance(method, FunctionType) and not is_wrapped:
                setattr(base, name, _suggesting(method))


def _suggesting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a suggestion in its error about an unknown argument.

    The error of a method names the class of the object, not the base that defines it.
    Python 3.13 and newer suggest a name themselves.
    """

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            return function(*args, **settings)
        except TypeError as error:
            told = _as_called(f"{error}", function, args)
            if "Did you mean" not in told:
                told += _suggestion(function, settings)
            if told == f"{error}":
                raise
            raise TypeError(told) from None

    return call


def _as_called(told: str, function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return an error about arguments under the name that was called."""
    base, _, method = function.__qualname__.rpartition(".")
    if not args or base not in [kind.__name__ for kind in type(args[0]).__mro__]:
        return told
    rest = told.removeprefix(f"{function.__qualname__}() ")
    name = type(args[0]).__name__
    return told if rest == told else f"{name}.{method}() {rest}"


def _suggestion(function: Callable[..., Any], settings: dict[str, Any]) -> str:
    """Return " (did you mean ...?)" for the first unknown argument, or ""."""
    from inspect import signature

    parameters = signature(function).parameters
    unknown = [name for name in settings if name not in parameters]
    takes_any = any(
        parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    return near_name(unknown[0], parameters) if unknown and not takes_any else ""


def near_name(name: str, names: Iterable[str]) -> str:
    """Return a suggestion of the name that is most like a misspelt one, or "".

    Example:
        >>> near_name("txt", ["id", "text"])
        " (did you mean 'text'?)"
        >>> near_name("url", ["id", "text"])
        ''
    """
    import difflib  # Only where a name is wrong.

    near = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
