"""Many nodes before a run: facts of each, compared without communication."""

from pagefeed.reports.nodes.comparison import checklist
from pagefeed.reports.nodes.node import facts_of_node

__all__ = ["checklist", "facts_of_node"]
