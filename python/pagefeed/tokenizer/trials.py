"""Texts on which tokenizers differ: how they split, normalize and look up."""

from __future__ import annotations

from collections.abc import Sequence

_KINDS = (  # noqa: SIM905 - a list takes fifty lines
    "a Z x\u0301 ab AB aB \xe9 \xc9 \xdf \u017f K \u0130 \u01c5 \u02b0 \xaa \u044f "
    "\u042f \u05d0 \u0628\u064e \u0915\u093f \u0e01\u0e33 \u4e2d \u6f22\u5b57 \u304b "
    "\u30ab \ud55c \u1100\u1161 0 12 1234 \xb2 \xbd \u2167 \u0663 ' 's 'LL \u2019s . "
    "!? _ = \u20ac \U0001f44d\U0001f3fd \U0001f469\u200d\U0001f4bb \U0001f1e9"
    "\U0001f1ea \ufe0f \u0301 \u200b \xad \ufffd \U0010ffff \u212b \ufb01 \x1b \ufdd0"
).split()
"""Characters of every kind that splitting rules distinguish."""
_SPACES = [
    *" \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u2003\u2028\u2029\u202f\u205f\u3000",
    *("\ufeff", "\x00", "  ", "   ", "\r\n", "\n\n"),
]
"""White space, and what some rules take for it."""
_TEXTS = (
    "",
    "Hello, world! It's 2024-01-31; they're 'quoted' and we'VE \"gone\".",
    "def f(x):\n    return x ** 2  # \xa0why?\n\n\n\tpass\r\n  \r\n",
    "camelCaseXMLHttp2 http://user@example.org/a%20c?d=e#g 3.14159 1,000,000 1e-10",
    "<s> </s> <unk> [CLS] [SEP] <|endoftext|> <|im_start|> <0x0A> \u2581 \u0120 \u010a",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "a\u0300\u0301\u0302\u0345b",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32",
    "\u3053\u3093\u4e16\u754c \uc548\ub155",
    "''s 's' 'S '\u017f 'll'LL'lL 'd'D're'Re 've't'm'M \u2019s '",
)
_LENGTHS = (3, 7, 8, 15, 16, 17, 33, 64)
"""Lengths of runs at which engines change their method."""
_MOST_ADDED = 64


def trial_texts(added: Sequence[str]) -> list[str]:
    """Return the texts on which two engines are compared; always the same.

    Args:
        added: Tokens of the tokenizer that a text may hold literally.
    """
    texts = [*_TEXTS, "".join(map(chr, range(256))), "b" * 1500]
    for kind in _KINDS:
        texts.append("".join(f"{kind}{other} " for other in _KINDS))
        texts.append("".join(f"{s}{kind}{s}a{s}{s}{kind}{s}\n" for s in _SPACES))
    texts += (
        "".join(f"{unit * length}b " for length in _LENGTHS)
        for unit in (*_KINDS, *_SPACES)
    )
    some = added[:: max(1, len(added) // _MOST_ADDED)]
    return texts + [
        f"{token}a{token} {token}  {token}\n{token}{token}b\u0301{token}\xe9 "
        f"{token[: len(token) // 2]}{token} x{token}1_{token}. {token.upper()} "
        f"{token.lower()}\t {token} \u3000{token}\xa0"
        for token in some
    ]
