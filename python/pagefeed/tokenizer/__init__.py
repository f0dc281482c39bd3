"""Tokenizers: texts to token ids, as the libraries they come from give them.

:class:`Tokenizer` takes what a team has: a ``tokenizer.json``, a SentencePiece model,
tiktoken's ranks, a Python function. What can be said as a ``tokenizer.json`` is encoded
by the data plane, without the GIL. :class:`ChatTemplate` renders chats first;
:func:`rows_of` gives what encodes rows of chats, or of texts made of several columns.
"""

from pagefeed.tokenizer.chat import ChatTemplate
from pagefeed.tokenizer.ranks import ENCODINGS
from pagefeed.tokenizer.row_text import TextOfRow
from pagefeed.tokenizer.rows import ChatRows, Rows, check_learned, on_day, rows_of
from pagefeed.tokenizer.tokenizer import Tokenizer

__all__ = [
    "ENCODINGS",
    "ChatRows",
    "ChatTemplate",
    "Rows",
    "TextOfRow",
    "Tokenizer",
    "check_learned",
    "on_day",
    "rows_of",
]
