"""A smoke test: some steps of the real plan, a tiny model, and checks."""

from pagefeed.reports.smoke_test.checks import Check, shown_checks
from pagefeed.reports.smoke_test.trial import Smoke, smoke

__all__ = ["Check", "Smoke", "shown_checks", "smoke"]
