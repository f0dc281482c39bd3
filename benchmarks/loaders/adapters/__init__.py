"""The adapters: a module for each loader, with a list ``ADAPTERS``."""

import sys
from importlib import import_module
from pathlib import Path

from loaders.protocol import Adapter

__all__ = ["built_in", "load"]


def built_in() -> list[Path]:
    """Return the files of the adapters that come with the benchmark, pagefeed first."""
    here = Path(__file__)
    files = sorted(file for file in here.parent.glob("*.py") if file != here)
    return sorted(files, key=lambda file: not file.stem.startswith("pagefeed"))


def load(file: Path) -> dict[str, Adapter]:
    """Return the adapters of a file, by name.

    Raises:
        SystemExit: If the file cannot be read or has no list ``ADAPTERS``.
    """
    if not file.is_file() or file.suffix != ".py":
        raise SystemExit(f"{file} is no Python file")
    # By names under which processes that a loader starts find them again.
    is_ours = file.parent == Path(__file__).parent
    if not is_ours and str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    module = import_module(f"{__name__}.{file.stem}" if is_ours else file.stem)
    if module.__file__ is None or not file.samefile(module.__file__):
        raise SystemExit(f"{file}: {module} has this name; give the file another")
    adapters = getattr(module, "ADAPTERS", None)
    if not isinstance(adapters, list) or not adapters:
        raise SystemExit(f"{file}: expected a list ADAPTERS, found {adapters!r}")
    for each in adapters:
        if not isinstance(each, Adapter):
            raise SystemExit(f"{file}: ADAPTERS holds {each!r}, which is no Adapter")
    return {each.name: each for each in adapters}
