"""Print what causes an error and what to do about it, by the code in its message.

Every message of pagefeed ends with such a code. Without one, all are listed.

For example:
  pagefeed explain PF-031
"""

from __future__ import annotations

import argparse
import difflib
import inspect

from pagefeed import errors
from pagefeed.cli.common import arg, tell
from pagefeed.errors import InvalidArgumentError, PagefeedError

ARGUMENTS = {
    "code": arg(str, "such as PF-031, or the name of an error", nargs="?"),
    "--json": arg(bool, "print JSON"),
}


def run(options: argparse.Namespace) -> int:
    """Print one error, or the list of all."""
    kinds = {kind.code: kind for kind in _kinds()}
    if options.code is None:
        listed = {code: _summary(kind) for code, kind in sorted(kinds.items())}
        lines = [f"{code}  {text}" for code, text in listed.items()]
        return tell(options, listed, lines)
    named = {kind.__name__.lower(): code for code, kind in kinds.items()}
    asked = options.code.strip("[]")
    code = named.get(asked.lower(), asked.upper())
    if code not in kinds:
        names = [*kinds, *(kind.__name__ for kind in kinds.values())]
        near = difflib.get_close_matches(asked, names) or ["PF-010 to PF-050"]
        raise InvalidArgumentError(
            f"there is no error {options.code}: expected {' or '.join(near)}"
        )
    kind = kinds[code]
    text = inspect.cleandoc(kind.__doc__ or "").replace("``", "`")
    report = {"code": code, "name": kind.__name__, "text": text}
    return tell(options, report, [f"{code}  {kind.__name__}", "", text])


def _kinds() -> list[type[PagefeedError]]:
    classes = (getattr(errors, name) for name in errors.__all__)
    return [kind for kind in classes if issubclass(kind, PagefeedError)]


def _summary(kind: type[PagefeedError]) -> str:
    return f"{kind.__name__}: {(kind.__doc__ or '').splitlines()[0]}"
