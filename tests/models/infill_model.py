"""What infilled documents hold, in plain Python: the hash, the cuts, the layout."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pagefeed as pf

MASK = (1 << 64) - 1
MULTIPLIERS = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def hashed(value: int, key: Iterable[int]) -> int:
    for part, multiplier in zip(key, MULTIPLIERS, strict=True):
        value = (value + part) * multiplier & MASK
        value ^= value >> 32
    return value


def key_of(seed: int, purpose: str) -> list[int]:
    digest = hashlib.blake2b(
        f"infill {seed} {purpose}".encode(), digest_size=16, person=b"pagefeed.infill"
    ).digest()
    return [int.from_bytes(digest[at : at + 8], "little") for at in (0, 8)]


class Cut(NamedTuple):
    """How a document is cut: its middle, and whether the suffix comes first."""

    first: int
    second: int
    is_spm: bool


def is_chosen(infill: pf.Infill, document: int) -> bool:
    key = key_of(infill.seed, "choice")
    return hashed(document, key) >> 32 < round(infill.rate * 2**32)


def draws(infill: pf.Infill, document: int, epoch: int) -> list[int]:
    """Four numbers of 32 bits: two cuts, the order, and the part that is cut."""
    key = key_of(infill.seed, "cuts")
    of_epoch = [hashed(epoch, key), hashed(~epoch & MASK, key)]
    values = [hashed(document, of_epoch), hashed(~document & MASK, of_epoch)]
    values += [hashed(value, key) for value in values]
    return [value >> 32 for value in values]


def cut(
    infill: pf.Infill, document: int, epoch: int, num_tokens: int, begin: int = 0
) -> Cut:
    one, other, order, _ = draws(infill, document, epoch)
    places = sorted(begin + (draw * (num_tokens + 1) >> 32) for draw in (one, other))
    return Cut(places[0], places[1], order < round(infill.spm * 2**32))


def arranged(
    infill: pf.Infill, cut: Cut, tokens: Sequence[int], within: range | None = None
) -> list[int]:
    """The tokens of a document, those `within` cut and with their special tokens."""
    within = range(len(tokens)) if within is None else within
    own = [*tokens]
    before, behind = own[: within.start], own[within.stop :]
    prefix = own[within.start : cut.first]
    middle, suffix = own[cut.first : cut.second], own[cut.second : within.stop]
    end = [] if infill.end is None else [infill.end]
    if cut.is_spm:
        parts = [infill.prefix, infill.suffix, *suffix, infill.middle, *prefix, *middle]
    else:
        parts = [infill.prefix, *prefix, infill.suffix, *suffix, infill.middle, *middle]
    return [*before, *parts, *end, *behind]


def infilled(
    infill: pf.Infill, document: int, epoch: int, tokens: Sequence[int]
) -> list[int]:
    """What the row of a document holds in an epoch."""
    if not is_chosen(infill, document):
        return [*tokens]
    return arranged(infill, cut(infill, document, epoch, len(tokens)), tokens)


def within_parts(
    infill: pf.Infill,
    document: int,
    epoch: int,
    tokens: Sequence[int],
    parts: Sequence[range],
) -> list[int]:
    """The same where the tokens of the row that one sequence holds are cut.

    `parts` are those of all sequences, special tokens counted.
    """
    if not is_chosen(infill, document):
        return [*tokens]
    added = len(infill.tokens)
    fitting = [part for part in parts if len(part) >= added]
    place = draws(infill, document, epoch)[3] * sum(map(len, fitting)) >> 32
    within = range(len(tokens))
    for part in fitting:
        if place < len(part):
            within = range(part.start, part.stop - added)
            break
        place -= len(part)
    found = cut(infill, document, epoch, len(within), within.start)
    return arranged(infill, found, tokens, within)


def inverted(infill: pf.Infill, row: Sequence[int]) -> list[int]:
    """The document that a row holds; of rows without special tokens all of it.

    It knows the layout alone. PSM with an empty prefix, and SPM, both begin with two
    special tokens: which of them it is, only numbered tokens tell.
    """
    row = [*row]
    if infill.prefix not in row:
        return row
    begin = row.index(infill.prefix)
    behind: list[int] = []
    own = row[begin + 1 :]
    if infill.end is not None:
        end = own.index(infill.end)
        own, behind = own[:end], own[end + 1 :]
    suffix, middle = own.index(infill.suffix), own.index(infill.middle)
    first, second, third = own[:suffix], own[suffix + 1 : middle], own[middle + 1 :]
    psm = [*row[:begin], *first, *third, *second, *behind]
    spm = [*row[:begin], *third, *second, *behind]
    assert not first or psm == sorted(psm)
    return psm if first else min(psm, spm, key=lambda tokens: tokens != sorted(tokens))
