"""Thin adapters, a module for each framework."""

from pagefeed.integrations.attention import (
    check_isolation,
    flex_mask,
    sdpa_mask,
    varlen_arguments,
)

__all__ = ["check_isolation", "flex_mask", "sdpa_mask", "varlen_arguments"]
