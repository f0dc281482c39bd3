"""Texts of a domain, and tokenizers to be extended for it."""

from functools import cache

import tokenizers

import pagefeed as pf
from made.tokenizers_made import tokenizer_json

WORDS = [
    *("habeas corpus", "plaintiff", "jurisdiction", "estoppel", "tortfeasor"),
    *(
        "subpoena duces tecum",
        "res judicata",
        "Gerichtsstandsvereinbarung",
        "§ 823 BGB",
    ),
]
KINDS = ("gpt2", "llama3", "llama2", "unigram")


def law(row):
    return " ".join(WORDS[(row * n + n * n) % len(WORDS)] for n in range(1, 30))


@cache
def open_tokenizer(kind):
    return pf.Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json(kind)))
