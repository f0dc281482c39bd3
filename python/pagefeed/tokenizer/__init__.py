"""Tokenizers: texts to token ids, as the libraries they come from give them.

:class:`Tokenizer` takes what a team has: a ``tokenizer.json``, a SentencePiece model,
tiktoken's ranks, a Python function. What can be said as a ``tokenizer.json`` is encoded
by the data plane, without the GIL. :class:`ChatTemplate` renders chats first;
:class:`ChatRows` does so for the data plane.
"""

from pagefeed.tokenizer.chat import ChatTemplate
from pagefeed.tokenizer.chat_rows import ChatRows, chats_of, messages_of
from pagefeed.tokenizer.ranks import ENCODINGS
from pagefeed.tokenizer.tokenizer import Tokenizer

__all__ = [
    "ENCODINGS",
    "ChatRows",
    "ChatTemplate",
    "Tokenizer",
    "chats_of",
    "messages_of",
]
