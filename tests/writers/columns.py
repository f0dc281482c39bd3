"""The rows that every writer writes, as plain Python: the same at every call."""

import datetime
import decimal
import random
from typing import Any

NUM_ROWS = 600
WORDS = [
    "page",
    "row",
    "group",
    "caf\u00e9",
    "\u6f22\u5b57",
    "",
    "a longer word than most",
]


def rows() -> dict[str, list[Any]]:
    """Values by column name; None is a null."""
    draw = random.Random(20260101)
    numbers = range(NUM_ROWS)

    def tokens(limit: int, most: int = 90) -> list[list[int]]:
        lengths = [draw.choice([0, 1, draw.randrange(most)]) for _ in numbers]
        lengths[7] = 4 * most  # one record over several pages
        return [[draw.randrange(limit) for _ in range(length)] for length in lengths]

    def sometimes(values: list[Any], share: float = 0.2) -> list[Any]:
        return [None if draw.random() < share else value for value in values]

    def text(most: int) -> list[str]:
        return [
            " ".join(draw.choices(WORDS, k=draw.randrange(most))) + str(draw.random())
            for _ in numbers
        ]

    epoch = datetime.datetime(2020, 2, 29)
    return {
        "tokens_dict": tokens(50),
        "tokens_plain": tokens(50_000),
        "tokens_uint16": tokens(65_536),
        "tokens_int64": tokens(1 << 40),
        "tokens_fixed": [[draw.randrange(99) for _ in range(16)] for _ in numbers],
        "tokens_fixed_null": sometimes(
            [[draw.randrange(99) for _ in range(16)] for _ in numbers]
        ),
        "flat_int": [draw.randrange(-(1 << 31), 1 << 31) for _ in numbers],
        "flat_uint16": [draw.randrange(1 << 16) for _ in numbers],
        "nullable_int": sometimes([draw.randrange(100) for _ in numbers]),
        "delta_int": [1000 * row + draw.randrange(30) for row in numbers],
        "all_null": [None] * NUM_ROWS,
        "text_dict": sometimes(draw.choices(WORDS, k=NUM_ROWS)),
        "text_plain": text(12),
        "text_fallback": sometimes(text(8), 0.05),
        "text_large": text(5),
        "text_delta": text(5),
        "list_null": [
            None if values is None else sometimes(values)
            for values in sometimes(tokens(9, 20))
        ],
        "list_text": [
            None if values is None else [WORDS[value] for value in values]
            for values in sometimes(tokens(len(WORDS), 6))
        ],
        "list_list": [
            None if outer is None else sometimes(list(outer))
            for outer in sometimes(
                [
                    [
                        sometimes([draw.randrange(9) for _ in range(draw.randrange(6))])
                        for _ in range(draw.randrange(5))
                    ]
                    for _ in numbers
                ]
            )
        ],
        "list_struct": sometimes(
            [
                sometimes(
                    [{"start": at, "end": at + 3} for at in range(draw.randrange(9))],
                    0.1,
                )
                for _ in numbers
            ]
        ),
        "nested": sometimes(
            [
                {
                    "id": row,
                    "tokens": draw.choice([None, [], list(range(row % 50))]),
                    "inner": draw.choice(
                        [None, {"name": WORDS[row % 7], "score": row / 3}]
                    ),
                }
                for row in numbers
            ],
            0.1,
        ),
        "a_map": sometimes(
            [
                [
                    (f"key{at}", draw.choice([None, at]))
                    for at in range(draw.randrange(5))
                ]
                for _ in numbers
            ]
        ),
        "flag": sometimes([draw.random() < 0.5 for _ in numbers]),
        "list_flag": [[value > 4 for value in values] for values in tokens(9, 40)],
        "single": sometimes(
            [draw.choice([draw.random(), float("nan")]) for _ in numbers]
        ),
        "double": [draw.gauss(0, 1) for _ in numbers],
        "money": sometimes(
            [decimal.Decimal(draw.randrange(-99_999, 99_999)) / 100 for _ in numbers]
        ),
        "money_wide": [
            decimal.Decimal(draw.randrange(-(10**24), 10**24)).scaleb(-4)
            for _ in numbers
        ],
        "moment": sometimes(
            [
                epoch + datetime.timedelta(microseconds=draw.randrange(10**15))
                for _ in numbers
            ]
        ),
        "day": [
            epoch.date() + datetime.timedelta(days=draw.randrange(5000))
            for _ in numbers
        ],
        "blob": sometimes([draw.randbytes(draw.randrange(20)) for _ in numbers]),
        "blob_fixed": sometimes([draw.randbytes(7) for _ in numbers]),
    }
