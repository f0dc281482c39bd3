"""Fuzz tokenizers: the ids of both engines and of the library itself are the same.

    python tests/fuzz/tokenizer_ids.py --seconds 600 [TOKENIZER ...]

Texts are made of any Unicode, of what rules of splitting look at, of runs, of parts of
real texts and of the tokenizer's own tokens. Without files of tokenizers, small ones of
every kind are trained. A text whose ids differ is shown, and the exit status is 1.
"""

import argparse
import random
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pagefeed as pf
from made.tokenizers_made import MADE, TEXTS, tokenizer_json

SPACES = [
    *" \t\n\r\v\f\x1c\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u3000\u200b\ufeff"
]
SIGNS = [
    *"'\u2019\"()[]{}<>|\\/=-_.,;:!?#$%&*+@^`~0123456789\u017f\u212a\u0130\u0131\u00df\u01c5\u00aa\u00bd\u00b2\u2167\u0663"
]
WORDS = ["'s", "'LL", "n't", "I'm", "http://", "</", "/>", "\r\n", "  ", "a\u0301"]
RANGES = [(0, 0x80), (0x80, 0x2000), (0x2000, 0x3000), (0x3000, 0xD800)]
RANGES += [(0xE000, 0x10000), (0x1F000, 0x20000), (0x10000, 0x110000)]


class Pair(NamedTuple):
    name: str
    tokenizer: pf.Tokenizer
    expected: Callable[[str], list[int]]
    tokens: list[str]


def pair_of(name: str, source: str) -> Pair:
    library = tokenizers.Tokenizer.from_str(source)
    library.no_truncation()
    library.no_padding()
    vocab = library.get_vocab()
    return Pair(
        name,
        pf.Tokenizer(library),
        lambda text: library.encode(text, add_special_tokens=False).ids,
        [
            library.decode([number], skip_special_tokens=False)
            for number in vocab.values()
        ]
        + [token.content for token in library.get_added_tokens_decoder().values()],
    )


def text_of(draw: random.Random, tokens: list[str]) -> str:
    """One text, of one to some hundred parts."""
    parts = []
    for _ in range(draw.choice([1, 3, 10, 30, 100])):
        kind = draw.randrange(9)
        if kind == 0:
            parts.append(chr(draw.randrange(*draw.choice(RANGES))))
        elif kind == 1:
            parts.append(draw.choice(SPACES) * draw.choice([1, 1, 2, 3, 17, 70]))
        elif kind == 2:
            parts.append(draw.choice(SIGNS))
        elif kind == 3:
            parts.append(draw.choice(WORDS))
        elif kind in (4, 5):
            parts.append(draw.choice(tokens))
        elif kind == 6:
            text = draw.choice(TEXTS)
            begin = draw.randrange(len(text))
            parts.append(text[begin : begin + draw.randrange(1, 30)])
        elif kind == 7:
            parts.append(draw.choice(tokens) * draw.choice([2, 5, 16, 40]))
        else:
            low, high = draw.choice(RANGES)
            base = draw.randrange(low, high)
            points = (base + draw.randrange(40) for _ in range(draw.randrange(1, 12)))
            parts += [
                chr(p) for p in points if p < 0x110000 and not 0xD800 <= p < 0xE000
            ]
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="TOKENIZER")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    pairs = [pair_of(path.name, path.read_text()) for path in options.files]
    pairs = pairs or [pair_of(name, tokenizer_json(name)) for name in MADE]
    for pair in pairs:
        print(
            pair.name, pair.tokenizer.engine, pair.tokenizer.engine_reason, flush=True
        )
    draw, count, found = random.Random(options.seed), 0, 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        pair = draw.choice(pairs)
        text = text_of(draw, pair.tokens)
        ids = pair.tokenizer.encode(text).tolist()
        count += 1
        if ids != pair.expected(text):
            found += 1
            print(
                f"{pair.name} ({pair.tokenizer.engine}) differs: {text!r}", flush=True
            )
    print(f"{count} texts, {found} differ, seed {options.seed}")
    engines = {pair.name: pair.tokenizer.engine for pair in pairs}
    print(engines)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
