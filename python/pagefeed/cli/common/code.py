"""Runs that the user's own code makes: ``train.py:make_loader``, with ``--set``."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pagefeed.cli.common.arguments import pairs_of
from pagefeed.errors import InvalidArgumentError, PagefeedError

CODE = re.compile(r"[^:]+\.py(:.*)?|[^\W\d][\w.]*:[^\W\d][\w.]*")
"""``FILE.py:NAME`` or ``MODULE:NAME``; a file without a name is refused later."""
PACKAGE = str(Path(__file__).parents[2])


def is_code(word: str) -> bool:
    """Return whether an argument names code, and not data."""
    is_path = os.path.exists(word) and not word.endswith(".py")
    return bool(CODE.fullmatch(word)) and not is_path


def imported(word: str, option: str = "") -> Any:
    """Return what ``FILE.py:NAME`` or ``MODULE:NAME`` names.

    Args:
        word: File or module, and name; a module may be in the current folder.
        option: The flag it was given to, for messages.

    Raises:
        InvalidArgumentError: If there is no such thing, or it cannot be imported.
    """
    shown = f"{option} {word}".strip()
    place, colon, name = word.rpartition(":")
    if not (colon and place and name):
        raise InvalidArgumentError(
            f"{shown} names no function: write FILE.py:NAME, such as "
            f"{place or word.rstrip(':')}:make_loader"
        )
    if place.endswith(".py") and not os.path.isfile(place):
        near_files = map(str, Path(place).parent.glob("*.py"))
        raise InvalidArgumentError(f"{place} does not exist{near(place, near_files)}")
    with running(shown, "cannot be imported"):
        found: Any = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            names = [each for each in vars(found) if not each.startswith("_")]
            raise InvalidArgumentError(
                f"{shown}: no {part} in {place}{near(part, names)}"
            )
        found = getattr(found, part)
    return found


def called(word: str, settings: Iterable[str]) -> Any:
    """Return what the function of this name makes, or the object of this name.

    Args:
        word: ``FILE.py:NAME`` or ``MODULE:NAME``.
        settings: Arguments as ``NAME=VALUE``.

    Raises:
        InvalidArgumentError: If it cannot be called so, or raises an error.
    """
    made, given = imported(word), dict(pairs_of(settings, "--set NAME=VALUE"))
    if inspect.isfunction(made) or inspect.isclass(made):
        arguments = _arguments(word, inspect.signature(made).parameters, given)
        with running(word, "failed"):
            return made(**arguments)
    if given:
        raise InvalidArgumentError(
            f"--set {next(iter(given))}: {word} is not a function"
        )
    return made


def near(name: str, names: Iterable[str]) -> str:
    """Return a question for the name that was meant; else some of the names."""
    some = list(names)
    if close := get_close_matches(name, some, n=1):
        return f": did you mean {close[0]}?"
    return f": there are {', '.join(some[:8])}" if some else ""


@contextmanager
def running(shown: str, what: str) -> Iterator[None]:
    """Run the user's code as a script; errors name its line."""
    words, sys.argv = sys.argv, [shown]
    try:
        yield
    except PagefeedError as error:
        error.add_note(f"{shown} {what}{_line(error)}")
        raise
    except (Exception, SystemExit) as error:
        hint = ""
        if isinstance(error, SystemExit):
            hint = '. Put what trains under `if __name__ == "__main__":`'
        raise InvalidArgumentError(
            f"{shown} {what}: {type(error).__name__}: {error}{_line(error)}{hint}"
        ) from error
    finally:
        sys.argv = words


def _line(error: BaseException) -> str:
    """Return the last line of the user's that an error passed."""
    lines = [
        f" ({os.path.relpath(frame.filename)}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if is_of_user(frame.filename)
    ]
    return lines[-1] if lines else ""


def is_of_user(file: str) -> bool:
    """Return whether a line of code is in a file of the user's own."""
    others = PACKAGE, os.path.dirname(os.__file__), os.path.dirname(sys.executable)
    path = os.path.abspath(file)
    is_installed = path.startswith(others) or "site-packages" in path
    return os.path.exists(path) and not is_installed


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        _look_in(os.getcwd())
        return importlib.import_module(place)
    path = Path(place).resolve()
    name, folder = path.stem, path.parent
    while (folder / "__init__.py").exists():  # A module of a package.
        name, folder = f"{folder.name}.{name}", folder.parent
    _look_in(os.getcwd())
    _look_in(str(folder))
    if "." in name:
        return importlib.import_module(name)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        name, known = f"_{name}_of_the_user", None
    if known is None:
        spec: Any = importlib.util.spec_from_file_location(name, path)
        # Pickle finds the classes of a module by the module's name.
        sys.modules[name] = known = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(known)
        except BaseException:
            del sys.modules[name]
            raise
    return known


def _look_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _arguments(
    word: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, str]
) -> dict[str, Any]:
    """Return the arguments of a call.

    Raises:
        InvalidArgumentError: If one is unknown, missing, or no number where one is
            expected.
    """
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = [
        n
        for n, p in parameters.items()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    for name in given:
        if name not in named and not takes_all:
            raise InvalidArgumentError(
                f"--set {name}: {word} has no parameter {name}{near(name, named)}"
            )
    for name in named:
        if name not in given and parameters[name].default is inspect.Parameter.empty:
            raise InvalidArgumentError(f"{word} needs {name}: give --set {name}=VALUE")
    return {
        name: _value(name, text, parameters.get(name)) for name, text in given.items()
    }


def _value(name: str, text: str, parameter: inspect.Parameter | None) -> Any:
    default = None if parameter is None else parameter.default
    if isinstance(default, str) or (parameter and parameter.annotation in (str, "str")):
        return text
    words = {"true": True, "false": False, "none": None}
    try:
        value = words[text.lower()] if text.lower() in words else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if (
        isinstance(default, int | float)
        and isinstance(value, str)
        and text[0].isalpha()
    ):
        raise InvalidArgumentError(
            f"--set {name}={text} is not a number, as {name}={default} is"
        )
    return value


Function = Callable[..., Any]


def named_function(name: str, option: str) -> Function:
    """Return the function ``FILE.py:NAME`` or ``MODULE:NAME``.

    Raises:
        InvalidArgumentError: If there is no such function.
    """
    function: Function = imported(name, option)
    if not callable(function):
        raise InvalidArgumentError(f"{option} {name} is not a function")
    return function
