"""pagefeed: LLM training batches straight from Parquet.

Loaders read any page of any file at random. They shuffle globally, cut rows into
sequences, serve every rank, and resume at the exact sample. Nothing is converted,
copied or cached first.

A name is imported when it is first used, so that `import pagefeed` costs little. Result
types and less common functions are in `pagefeed.reports`, `pagefeed.prepare`,
`pagefeed.dataset` and `pagefeed.run`. Policies that learn mixture weights are in
`pagefeed.mixing`.
"""

import logging
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import get_data

import pagefeed.rooms  # noqa: F401 - its table says which room provides what
from pagefeed.errors import without_keys

_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_MODULES = {
    name: module
    for module, name in re.findall(r"(?m)^from (\S+) import (\w+) as", _STUB)
}
"""The module of each public name, as the stub lists them for type checkers."""

__all__ = list(_MODULES)

# Without a handler of the user, Python prints warnings alone: of long waits.
logging.getLogger("pagefeed").addFilter(without_keys)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name == "__version__":
        value = import_module("pagefeed._core").version()
    elif _MODULES.get(name) == __name__:
        value = import_module(f"pagefeed.{name}")
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        from pagefeed._removed import refuse_removed

        refuse_removed(name)
        is_module = name[0] != "_" and find_spec(f"pagefeed.{name}") is not None
        advice = f": import pagefeed.{name} first" if is_module else ""
        problem = f"module 'pagefeed' has no attribute {name!r}{advice}"
        raise AttributeError(problem, name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those not imported yet, and no others."""
    return sorted({*(name for name in globals() if name[:2] == "__"), *__all__})
