"""The checks of a smoke test. Each says what it found and what it expected."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import format_bytes
from pagefeed.core.dataset import Dataset
from pagefeed.core.loader import Loader
from pagefeed.mixture import Mixture
from pagefeed.parquet_files import ParquetDataset
from pagefeed.reports.decoding import TextTokenizer
from pagefeed.reports.inspection import NO_CHECKSUMS, checksum_share, small_files_of
from pagefeed.reports.sampling import plan_digest, sequences_of_step
from pagefeed.reports.smoke_test.observation import Arrays, Observation
from pagefeed.reports.telling import Part
from pagefeed.tokenizer import IGNORED

OFFSETS = (-2, -1, 0, 1, 2, 3)
SAME_SHARE = 0.99
LEARNED_SHARE = 0.03
"""Share of the loss that a model must lose in the updates."""
INITIAL_SHARE = 0.1
"""Allowed difference of the first loss from the loss of guessing, as a share of it."""
OVERHEAD = 128 << 20
"""Bytes the process may use beyond ``memory``, for engine, index and allocator."""
READ_BACK = 0.9
READ_TOKENS = 256
READ_ROWS = 8


@dataclass(frozen=True)
class Check:
    """A check of a smoke test, and its result."""

    name: str
    """Name of the check."""
    result: str
    """Result of the check, and if it failed, the expected one."""
    _: KW_ONLY
    ok: bool | None
    """Whether the check passed; None if it could not be made."""


MARKS = {True: "ok", False: "WRONG", None: "-"}


def shown_checks(checks: Iterable[Check]) -> Iterator[Part]:
    """Yield what is shown of checks."""
    yield [(f"{MARKS[check.ok]:6} {check.name}", check.result) for check in checks]


def check_batches(seen: Observation, steps: int, rate: float) -> Check:
    """Check that all steps are delivered, and nothing in them is damaged."""
    result = f"{len(seen.digests)} steps, {rate:,.0f} tokens/s from the loader alone"
    if seen.damage:
        first = seen.damage[0]
        result += f"; {len(seen.damage)} could not be read, such as {first.message}"
    elif len(seen.digests) < steps:
        result += f", expected {steps}: the epoch has no more"
    return Check("batches", result, ok=bool(seen.digests) and not seen.damage)


def check_rate(rate: float, target: float, share: float | None) -> Check:
    """Check that the loader alone delivers the tokens a second that are asked.

    Args:
        rate: Tokens a second of the loader alone.
        target: Tokens a second that are asked of a rank.
        share: Share of a second's operations that a token takes, if it is known.
    """
    result = f"{rate:,.0f} tokens/s from the loader alone, {target:,.0f} asked"
    if share is not None:
        most = min(1.0, rate * share)
        result += f"; MFU at most {most:.1%}, asked {target * share:.1%}"
    return Check("rate", result, ok=rate >= target)


def check_checksums(data: Dataset | Mixture) -> Check:
    """Check that pages have checksums and that reading verifies them."""
    datasets = [d for d in data.parts.values() if isinstance(d, ParquetDataset)]
    measured = [checksum_share(dataset.index) for dataset in datasets]
    shares = [share for share in measured if share is not None]
    if not shares:
        return Check("checksums", "only pages of Parquet carry some", ok=None)
    if not all(dataset.verify_checksums for dataset in datasets):
        return Check("checksums", "not verified: verify_checksums=False", ok=None)
    if min(shares) < 1:
        return Check("checksums", NO_CHECKSUMS.format(1 - min(shares)), ok=None)
    return Check("checksums", "all pages looked at carry one", ok=True)


def check_files(data: Dataset | Mixture) -> list[Check]:
    """Report many small files, without failing the test."""
    small = small_files_of(data.parts.values())
    return [] if small is None else [Check("files", small, ok=None)]


def check_ids(seen: Observation, vocab_size: int, *, is_known: bool) -> Check:
    """Check that token ids are below the size of the vocabulary."""
    result = f"token ids {seen.least}..{seen.greatest}"
    if not is_known:
        result += "; not compared: give vocab_size, or a tokenizer"
        return Check("ids", result, ok=None)
    ok = seen.least >= 0 and seen.greatest < vocab_size
    result += f", vocabulary {vocab_size:,}"
    return Check("ids", result + ("" if ok else ": ids beyond it"), ok=ok)


def check_labels(batches: Sequence[Arrays], *, shifted: bool, ignored: int) -> Check:
    """Check that labels are the right tokens at the right positions."""
    if not batches or "labels" not in batches[0]:
        return Check(
            "labels", "the batches have no labels: those made here are used", ok=None
        )
    shares = {offset: _same_share(batches, offset, ignored) for offset in OFFSETS}
    expected = int(shifted)
    ok = shares[expected] >= SAME_SHARE
    best = max(OFFSETS, key=lambda offset: (shares[offset], -abs(offset - expected)))
    where = {0: "their own token", 1: "the token that follows"}
    result = f"{shares[expected]:.1%} of the labels are {where[expected]}"
    if not ok and shares[best] >= SAME_SHARE:
        result += (
            f", {shares[best]:.1%} the token {best} places on: they are shifted "
            f"{abs(best - expected)} too {'far' if best > expected else 'little'}"
        )
    elif not ok:
        result += ": they are not the tokens shifted by any number"
    return Check("labels", result, ok=ok)


def _same_share(batches: Sequence[Arrays], offset: int, ignored: int) -> float:
    """Return the share of labels equal to the token ``offset`` positions later."""
    same = total = 0
    for arrays in batches:
        tokens, labels = arrays["input_ids"], arrays["labels"]
        length = tokens.shape[-1]
        inside = slice(max(0, -offset), length - max(0, offset))
        moved = slice(max(0, offset), length + min(0, offset))
        wanted = labels[..., inside]
        counts = wanted != ignored
        same += int((counts & (wanted == tokens[..., moved])).sum())
        total += int(counts.sum())
    return same / max(1, total)


def pair_of(
    arrays: Arrays, *, shifted: bool, ignored: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return tokens and their targets: int64 [batch, length]."""
    tokens = arrays["input_ids"].astype(np.int64)
    labels = arrays.get("labels", tokens).astype(np.int64)
    if "labels" in arrays:
        labels[labels == ignored] = IGNORED
    if shifted and "labels" in arrays:
        return tokens, labels
    targets = np.full_like(tokens, IGNORED)
    targets[:, :-1] = labels[:, 1:]
    return tokens, targets


def check_learning(losses: Sequence[float] | None, vocab_size: int) -> list[Check]:
    """Check that the first loss is that of guessing, and that losses fall."""
    if losses is None:
        return [Check("loss", "not trained: torch is not installed", ok=None)]
    guess, initial, final = math.log(vocab_size), losses[0], np.mean(losses[-4:])
    finite = all(map(math.isfinite, losses))
    near = abs(initial - guess) <= INITIAL_SHARE * guess
    falls = bool(final < (1 - LEARNED_SHARE) * initial)
    first = f"{initial:.3f} at first, ln(vocabulary) is {guess:.3f}"
    return [
        Check("first loss", first, ok=finite and near),
        Check(
            "no NaN",
            "all losses are finite" if finite else "a loss is NaN or infinite",
            ok=finite,
        ),
        Check(
            "loss falls",
            f"from {initial:.3f} to {final:.3f} in {len(losses)} updates"
            + ("" if falls else ": the model does not learn"),
            ok=finite and falls,
        ),
    ]


def check_numbers(seen: Observation) -> Check:
    """Check that no field of numbers holds NaN."""
    names = sorted(set(seen.not_finite))
    result = f"NaN or infinity in {', '.join(names)}" if names else "all are finite"
    return Check("fields", result, ok=not names)


def check_tokenizer(
    batches: Sequence[Arrays], greatest: int, tokenizer: TextTokenizer, vocab_size: int
) -> Check:
    """Check that the tokenizer's text of tokens gives the same tokens again."""
    sizes = f"the tokenizer has {tokenizer.vocab_size:,} tokens"
    if greatest >= tokenizer.vocab_size:
        return Check("tokenizer", f"{sizes}, the data has id {greatest}", ok=False)
    if tokenizer.vocab_size > vocab_size:
        return Check("tokenizer", f"{sizes}, the vocabulary {vocab_size:,}", ok=False)
    rows = [row for arrays in batches for row in arrays["input_ids"]][:READ_ROWS]
    shares = []
    for row in rows:
        # Padding at the end is not text.
        ids = np.trim_zeros(row, "b")[:READ_TOKENS].tolist()
        again = list(tokenizer.encode(tokenizer.decode(ids)))
        shares.append(difflib.SequenceMatcher(None, ids, again, autojunk=False).ratio())
    share = float(np.mean(shares)) if shares else 0.0
    ok = share >= READ_BACK
    result = f"{sizes}; {share:.1%} of the tokens come back from their text"
    if not ok:
        result += ": the data was made by another tokenizer"
    return Check("tokenizer", result, ok=ok)


def compare_ranks(
    loaders: Sequence[Loader],
    seen: Sequence[Observation],
    steps: int,
    plan: str | None,
) -> list[Check]:
    """Check that ranks have one plan, share no sequence and get as many tokens."""
    plans = [plan_digest(loader) for loader in loaders]
    expected = plan or plans[0]
    others = [
        str(loader.rank)
        for loader, digest in zip(loaders, plans, strict=True)
        if digest != expected
    ]
    one_plan = f"plan {plans[0]} on {len(loaders)} ranks"
    if others:
        one_plan += f", expected {expected}: ranks {', '.join(others)} have another"
    sequences = np.concatenate(
        [
            sequences_of_step(loader, step, alone=True)
            for loader in loaders
            for step in range(min(steps, max(1, len(seen[0].digests))))
        ]
    )
    twice = len(sequences) - len(np.unique(sequences))
    counts = [observed.num_tokens for observed in seen]
    apart = max(counts) - min(counts)
    batch = max(
        observed.num_tokens / max(1, len(observed.digests)) for observed in seen
    )
    return [
        Check("one plan", one_plan, ok=not others),
        Check(
            "own data",
            f"{twice:,} of {len(sequences):,} sequences come twice",
            ok=not twice,
        ),
        Check(
            "ranks' tokens",
            f"{min(counts):,} to {max(counts):,}, {apart:,} apart; a batch has "
            f"{batch:,.0f}",
            ok=apart <= batch,
        ),
    ]


def check_memory(seen: Observation, memory: int) -> Check:
    """Check that the loader and the process stay inside the memory budget."""
    peak, growth = int(seen.stats["peak_bytes"]), seen.rss_growth
    ok = peak <= memory and growth <= memory + OVERHEAD
    return Check(
        "memory",
        f"{format_bytes(peak)} held at most, the process grew by "
        f"{format_bytes(growth)}; {format_bytes(memory)} given",
        ok=ok,
    )
