"""The logger, and optional dependencies, which are imported when they are used."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from pagefeed.errors import MissingDependencyError

__all__ = ["logger", "require"]


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an extra.

    Args:
        module: Name of the module.
        extra: Extra of pagefeed that installs it.
        purpose: What needs it, the subject of the error's sentence.

    Raises:
        MissingDependencyError: Naming the extra to install.

    Example:
        >>> require("json", extra="none", purpose="reading").dumps(1)
        '1'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{purpose} needs {module}: pip install 'pagefeed[{extra}]'"
        ) from error
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs {module}, which is there and cannot be imported: {error}"
        ) from error


logger = logging.getLogger("pagefeed")
