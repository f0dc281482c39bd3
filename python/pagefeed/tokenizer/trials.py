"""Texts on which tokenizers differ: how they split, normalize and look up."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

__all__ = ["trial_texts"]

_KINDS = (  # noqa: SIM905 - a list takes fifty lines
    "a Z x\u0301 ab AB aB \xe9 \xc9 \xdf \u017f K \u0130 \u01c5 \u02b0 \xaa \u044f "
    "\u042f \u05d0 \u0628\u064e \u0915\u093f \u0e01\u0e33 \u4e2d \u6f22\u5b57 \u304b "
    "\u30ab \ud55c \u1100\u1161 0 12 1234 \xb2 \xbd \u2167 \u0663 ' 's 'LL \u2019s . "
    "!? _ = \u20ac \U0001f44d\U0001f3fd \U0001f469\u200d\U0001f4bb \U0001f1e9"
    "\U0001f1ea \ufe0f \u0301 \u200b \xad \ufffd \U0010ffff"
).split()
"""Characters of every kind that splitting rules distinguish."""
_SPACES = [
    *("  ", "   ", "\r\n", "\n\n"),
    *(
        " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u2003\u2028\u2029\u202f\u205f"
        "\u3000\ufeff\x00"
    ),
]
"""White space, and what some rules take for it."""
_TEXTS = (
    "",
    "Hello, world! It's 2024-01-31; they're 'quoted' and we'VE \"gone\".",
    "def f(x):\n    return x ** 2  # \xa0why?\n\n\n\tpass\r\n  \r\n",
    "camelCaseXMLHttpRequest2 SCREAMING_SNAKE ALLCAPSlower iPhone McDonald's",
    "http://user@example.org:8080/a/b%20c?d=e&f=%F0%9F%92%A9#g",
    (
        "3.14159 1,000,000 0xDEADBEEF 1e-10 \u0661\u0662\u0663\u0664\u0665 12345678"
        "9012345678901234567890"
    ),
    "I\u0307stanbul \u0130STANBUL \u1e9e \ufb01n \u2126 \u212b e\u0301 \xe9",
    (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764"
        "\ufe0f \U000e0001"
    ),
    (
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 "
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u0928\u092e\u0938\u094d"
        "\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0e2a\u0e27\u0e31\u0e2a"
        "\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \uc548\ub155\ud558\uc138"
        "\uc694 \u3053\u3093\u306b\u3061\u306f\u4e16\u754c \u4f60\u597d\uff0c\u4e16"
        "\u754c"
    ),
    (
        "<s> </s> <unk> <pad> [CLS] [SEP] [MASK] <|endoftext|> <|im_start|> <0x0A> "
        "\u2581 \u0120 \u010a"
    ),
    "\ud7ff\ue000\uf8ff\ufdd0\ufffe\uffff\U00010000\U0001fffe\U0002ffff",
    (
        "a\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308b \u0345\u037a "
        "\U0001d165"
    ),
    "''s 's' 'S '\u017f 'll'LL'lL 'd'D're'Re 've't'm'M \u2019s '",
    "\u202eabc\u202c \u2066x\u2069 a\xadb a\u2060b \x1b[31m\x7f\x80\x9f",
)
_LENGTHS = (3, 7, 8, 15, 16, 17, 33, 64, 1500)
_NUM_MIXED = 400
_MOST_ADDED = 64


def trial_texts(added: Sequence[str]) -> list[str]:
    """Return the texts on which two engines are compared; always the same.

    Args:
        added: Tokens of the tokenizer that a text may hold literally.
    """
    some = added[:: max(1, len(added) // _MOST_ADDED)]
    return [
        *_TEXTS,
        "".join(map(chr, range(256))),
        "".join(f"{c} {c}{c} a{c}1{c}A " for c in map(chr, range(32, 127))),
        *_pairs(),
        *_runs(),
        *map(_around, some),
        *(_mixed(seed, some) for seed in range(_NUM_MIXED // 4) if some),
        *(_mixed(seed, ()) for seed in range(_NUM_MIXED)),
    ]


def _pairs() -> Iterator[str]:
    """Yield all pairs of kinds, and each kind with white space around it."""
    for left in _KINDS:
        yield "".join(f"{left}{right} " for right in _KINDS)
        yield "".join(f"{s}{left}{s}a{s}{s}{left}{s}\n" for s in _SPACES)


def _runs() -> Iterator[str]:
    """Yield runs of one kind, at lengths where engines change their method."""
    for n, unit in enumerate((*_KINDS, *_SPACES)):
        # The exact engine takes too long for a long run of every kind.
        lengths = _LENGTHS if n % 8 == 0 else _LENGTHS[:-1]
        yield "".join(f"{unit * length}b " for length in lengths)


def _around(token: str) -> str:
    """Yield an added token beside itself, inside words and white space."""
    begin = token[: len(token) // 2]
    return (
        f"{token}a{token} {token}  {token}\n{token}{token}b\u0301{token}\xe9 "
        f"{begin}{token} x{token}1_{token}. {token.upper()} {token.lower()}\t "
        f"{token} \u3000{token}\xa0"
    )


def _mixed(seed: int, added: Sequence[str]) -> str:
    """Return a random mix of kinds, white space and tokens.

    The same for each number.
    """
    numbers = random.Random(seed)  # noqa: S311 - the same ones each time

    def draw(below: int) -> int:
        return int(numbers.random() * below)

    text = []
    for _ in range(1 + draw(40)):
        match draw(8):
            case 0 | 1 | 2 | 3:
                text.append(_KINDS[draw(len(_KINDS))])
            case 4 | 5:
                text.append(_SPACES[draw(len(_SPACES))])
            case 6 if added:
                text.append(added[draw(len(added))])
            case _:
                sign = draw(0x110000)
                is_half = 0xD800 <= sign < 0xE000
                text.append("\ud7ff" if is_half else chr(sign))
    return "".join(text)
