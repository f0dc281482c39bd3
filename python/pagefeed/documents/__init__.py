"""Documents: every row is a sequence, with any of its columns.

``documents`` has the settings. ``document_index`` and ``budgets`` make sequences of
rows. ``row_columns`` decides which columns a batch has, and ``document_feed`` plans and
delivers them. ``ahead`` runs the user's own functions ahead of the consumer.
"""

from pagefeed.documents.ahead import (
    AheadEngine,
    Decode,
    DecodeLike,
    KeyedPlan,
    Keys,
    row_keys,
)
from pagefeed.documents.budgets import DocumentBatchIndex
from pagefeed.documents.document_index import DocumentIndex
from pagefeed.documents.documents import DocumentBatches, Documents
from pagefeed.documents.row_columns import in_records

__all__ = [
    "AheadEngine",
    "Decode",
    "DecodeLike",
    "DocumentBatchIndex",
    "DocumentBatches",
    "DocumentIndex",
    "Documents",
    "KeyedPlan",
    "Keys",
    "in_records",
    "row_keys",
]
