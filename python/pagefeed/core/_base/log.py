"""The logger of all modules."""

from __future__ import annotations

import logging

__all__ = ["logger"]

logger = logging.getLogger("pagefeed")
