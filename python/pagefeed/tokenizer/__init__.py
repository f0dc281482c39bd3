"""Tokenizers: texts to token ids, the same ids that the tokenizer's library gives.

:class:`Tokenizer` reads a ``tokenizer.json``, a SentencePiece model, tiktoken's ranks
or a Python function. The data plane encodes without the GIL whenever a
``tokenizer.json`` can express the tokenizer. :class:`ChatTemplate` renders chats.
:func:`row_encoder` returns the encoder of chats, or of texts made of several columns.
"""

from pagefeed.tokenizer.chat import IGNORED, LABELS, ChatTemplate
from pagefeed.tokenizer.masks import TrainOn
from pagefeed.tokenizer.ranks import pattern_of
from pagefeed.tokenizer.row_text import TextOfRow
from pagefeed.tokenizer.rows import ChatRows, Rows, check_learned, on_day, row_encoder
from pagefeed.tokenizer.tokenizer import TokenIds, Tokenizer, require_tokenizer

__all__ = [
    "IGNORED",
    "LABELS",
    "ChatRows",
    "ChatTemplate",
    "Rows",
    "TextOfRow",
    "TokenIds",
    "Tokenizer",
    "TrainOn",
    "check_learned",
    "on_day",
    "pattern_of",
    "require_tokenizer",
    "row_encoder",
]
