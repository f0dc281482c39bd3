"""Batches of documents: tokens in rows of one length, other columns as they are.

``row_columns`` says what comes of which column, ``document_batches`` plans and delivers
it; ``decoding`` runs the user's own function over batches, ahead of the consumer.
"""

from pagefeed.batches.documents.decoding import DecodingFeed
from pagefeed.batches.documents.document_batches import DocumentFeed

__all__ = ["DecodingFeed", "DocumentFeed"]
