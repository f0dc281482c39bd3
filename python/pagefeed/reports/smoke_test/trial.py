"""A smoke test of a run: some steps of the real plan, looked at from all sides."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pagefeed.core._base import check_number, check_positive
from pagefeed.core.dataset import known_vocab_size
from pagefeed.core.loader import Loader, as_rank
from pagefeed.documents import Documents
from pagefeed.errors import InvalidArgumentError, MissingDependencyError, PagefeedError
from pagefeed.metrics import check_flops
from pagefeed.reports.decoding import TextTokenizer
from pagefeed.reports.diagnosis import doctor
from pagefeed.reports.gpu_copies import seen_gpu
from pagefeed.reports.sampling import check_counted, plan_digest
from pagefeed.reports.smoke_test.checks import (
    Check,
    check_batches,
    check_checksums,
    check_files,
    check_ids,
    check_labels,
    check_learning,
    check_memory,
    check_numbers,
    check_rate,
    check_tokenizer,
    compare_ranks,
    pair_of,
    shown_checks,
)
from pagefeed.reports.smoke_test.learning import learn
from pagefeed.reports.smoke_test.observation import Observation, observe
from pagefeed.reports.soundness import Damage
from pagefeed.reports.telling import Part, Told

MOST_RANKS = 4
RATE_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Smoke(Told):
    """Result of a smoke test."""

    plan: str
    """Digest of the plan: equal on every rank of the run."""
    steps: int
    """Steps taken on each rank."""
    tokens_per_second: float
    """Rate of the loader alone, once it runs: what :func:`doctor` measures."""
    checks: list[Check]
    """Results of all checks."""
    gpu: dict[str, float]
    """Load of this process's GPU, as ``metrics(gpu=True)`` tells; empty if unknown."""
    damage: list[Damage]
    """Parts of the data that could not be read."""

    def _parts(self) -> Iterator[Part]:
        """Yield what ``pagefeed smoke`` shows."""
        yield from shown_checks(self.checks)
        state = "ready" if self.ok and not self.damage else "NOT READY"
        yield f"plan {self.plan}: {state}"

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(check.ok is not False for check in self.checks)


def smoke(
    loader: Loader,
    *,
    steps: int = 20,
    vocab_size: int | None = None,
    tokenizer: TextTokenizer | None = None,
    model: Any | None = None,
    shifted: bool | None = None,
    ranks: Sequence[Loader] | None = None,
    plan: str | None = None,
    target_rate: float | None = None,
    flops_per_token: float | None = None,
    peak_flops: float | None = None,
) -> Smoke:
    """Try a run before it is begun: batches, ids, labels, loss, ranks, resume, memory.

    It takes some steps with copies of the loader, on up to four ranks, and trains a
    tiny model on the first batches. The loader itself does not move.

    Args:
        loader: The run, of any rank, with the fields and the transform of the training.
        steps: Steps to take.
        vocab_size: Rows of the embedding; by default that of the loader or tokenizer.
        tokenizer: The one that made the tokens: with ``encode``, ``decode`` and
            ``vocab_size``.
        model: A torch module from ids [batch, length] to logits [batch, length,
            vocabulary], freshly made; by default a tiny one. It is trained.
        shifted: Whether labels stand one position before their token, for a model that
            does not shift; by default as the loader's fields say.
        ranks: Loaders of other ranks, as their processes make them; by default copies
            of this one for these ranks.
        plan: The plan that a smoke test of another rank or machine reported.
        target_rate: Tokens a second that a rank needs. The test fails by the name
            ``"rate"`` if the loader alone delivers fewer.
        flops_per_token: Operations that training takes for a token. With ``peak_flops``
            the check of the rate also tells the model FLOPs utilization.
        peak_flops: Most operations a second of a rank's accelerator.

    Raises:
        InvalidArgumentError: If the loader delivers no tokens of one length, or a rate
            is not positive.

    Example:
        >>> smoke(loader, steps=4).ok  # doctest: +SKIP
        True
    """
    check_counted(loader, "smoke")
    steps = check_positive(steps, "steps")
    share = check_flops(flops_per_token, peak_flops)
    if target_rate is not None:
        target_rate = check_number(target_rate, "target_rate", above=0)
    elif share is not None:
        raise InvalidArgumentError(
            "flops_per_token and peak_flops go with a rate: give target_rate"
        )
    settings = loader.sequences
    if isinstance(settings, Documents) and not settings.makes_tokens:
        raise InvalidArgumentError(
            "a smoke test needs sequences of tokens: give Documents a max_length"
        )
    if shifted is None:
        shifted = loader.fields.shifted
    ignored = loader.fields.ignore_index
    loaders = [loader, *(_other_ranks(loader) if ranks is None else ranks)]
    seen = [observe(twin, steps, f"batches of rank {twin.rank}") for twin in loaders]
    ours = seen[0]
    rate = _rate(loader) if ours.digests else 0.0
    vocabulary = vocab_size or loader.vocab_size
    if vocabulary is None and tokenizer is not None:
        vocabulary = tokenizer.vocab_size
    vocabulary = vocabulary or known_vocab_size(loader.dataset.parts.values())
    size = vocabulary or ours.greatest + 1
    pairs = [
        pair_of(arrays, shifted=shifted, ignored=ignored) for arrays in ours.batches
    ]
    losses = None
    if pairs and ours.least >= 0:
        with suppress(MissingDependencyError):
            losses = learn(pairs, max(size, ours.greatest + 1), model)
    checks = [
        check_batches(ours, steps, rate),
        check_ids(ours, size, is_known=vocabulary is not None),
        check_labels(ours.batches, shifted=shifted, ignored=ignored),
        check_numbers(ours),
        *check_learning(losses, size),
        *compare_ranks(loaders, seen, steps, plan),
        _check_resume(loader, ours),
        check_memory(ours, loader.memory),
        check_checksums(loader.dataset),
        *check_files(loader.dataset),
    ]
    if target_rate is not None:
        checks.insert(1, check_rate(rate, target_rate, share))
    if tokenizer is not None:
        checks.append(check_tokenizer(ours.batches, ours.greatest, tokenizer, size))
    return Smoke(
        plan=plan_digest(loader),
        steps=len(ours.digests),
        tokens_per_second=rate,
        checks=checks,
        gpu=seen_gpu(),
        damage=[damage for observed in seen for damage in observed.damage],
    )


def _rate(loader: Loader) -> float:
    """Tokens a second, without the time to the first batch."""
    seen = doctor(loader, seconds=RATE_SECONDS).evidence
    if seen is None:
        return 0.0
    return seen.tokens / max(1e-9, seen.seconds - seen.start_seconds)


def _other_ranks(loader: Loader) -> list[Loader]:
    size = loader.world_size
    wanted = {(loader.rank + n * max(1, size // MOST_RANKS)) % size for n in range(4)}
    return [as_rank(loader, rank) for rank in sorted(wanted - {loader.rank})]


def _check_resume(loader: Loader, seen: Observation) -> Check:
    """Check that a stopped run continues with the same batches."""
    if seen.state is None or not seen.rest:
        return Check("resume", "too few steps to stop between", ok=None)
    other = copy.copy(loader)
    text = json.dumps(seen.state)
    try:
        other.load_state_dict(json.loads(text))
    except PagefeedError as error:
        return Check("resume", str(error), ok=False)
    again = observe(other, len(seen.rest), "batches after a resume")
    same = sum(a == b for a, b in zip(again.digests, seen.rest, strict=False))
    ok = same == len(seen.rest)
    return Check(
        "resume",
        f"{same} of {len(seen.rest)} batches after a stop are the same; a state "
        f"of {len(text):,} bytes",
        ok=ok,
    )
