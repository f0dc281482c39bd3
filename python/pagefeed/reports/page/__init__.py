"""A report of a run as one page of HTML that needs nothing else: no script, no network.

Charts are SVG, the picture of the order is a PNG inside the page.
"""

from pagefeed.reports.page.writing import report

__all__ = ["report"]
