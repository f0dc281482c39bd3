"""State machines of mixtures of all that a model learns from, under a policy.

One dataset is infilled, all have a teacher's numbers, one is a subset; the mixture is
rehearsed. Every field of every row is compared with what plain Python says.
"""

import functools
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis.stateful import rule

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader
from models.field_model import model_fields
from models.infill_model import infilled, is_chosen, within_parts
from models.machines import PADDING
from models.mixture_runs import APART, ROWS, WEIGHTS, MixtureMachine
from models.run_model import RunModel
from models.runs import folder, rows_of_file
from models.wide import FIRST_TOKEN, Wide
from pagefeed.core.order import derive_key
from pagefeed.core.sequences.packed import pack_lengths

EOS, EVERY, IGNORED = 1, 2, -100
REHEARSED, SHARE, SEED = 0.75, 0.8, 3
TEACHER = {
    "teacher_ids": Wide("ragged", "int32", 3, 0, True, None, 7),
    "teacher_logprobs": Wide("flat", "float16", 3, 1, True, None, 5),
}
COLUMNS = ("input_ids", "labels", *TEACHER, "count")


class Told(NamedTuple):
    """A row: the number of its dataset, and all that it holds."""

    dataset: int
    content: bytes

    @classmethod
    def of(cls, dataset: int, arrays: dict[str, Any], row: int) -> "Told":
        columns = [np.ascontiguousarray(arrays[name][row]) for name in COLUMNS]
        return cls(dataset, b"".join(column.tobytes() for column in columns))

    @property
    def tokens(self) -> list[int]:
        tokens: list[int] = np.frombuffer(self.content, np.int64, LENGTH).tolist()
        return tokens


# Data.


@functools.cache
def documents(name: str) -> list[list[int]]:
    """Rows of numbered tokens, some of them empty."""
    number = list(ROWS).index(name)
    lengths = np.random.default_rng(number).integers(0, 60, 2 * ROWS[name])
    ends = (np.cumsum(lengths) + number * APART + FIRST_TOKEN).tolist()
    pairs = zip(ends, lengths.tolist(), strict=True)
    return [list(range(end - length, end)) for end, length in pairs]


@functools.cache
def files(name: str) -> pf.dataset.ParquetDataset:
    path = folder() / f"taught-{name}"
    path.mkdir()
    for number in range(2):
        rows = documents(name)[number * ROWS[name] : (number + 1) * ROWS[name]]
        columns = {"input_ids": pa.array(rows, pa.list_(pa.int32()))}
        columns |= {column: wide.array([*rows]) for column, wide in TEACHER.items()}
        small: dict[str, Any] = {"data_page_size": 256, "write_batch_size": 4}
        table = pa.table(columns)
        pq.write_table(table, path / f"{number}.parquet", row_group_size=33, **small)
    likes = {column: wide.like for column, wide in TEACHER.items()}
    return pf.parquet(path, column="input_ids", aligned=likes)


# What is right.


def hashes(seed: int, numbers: Sequence[int]) -> list[int]:
    """The hashes in whose order rows are taken."""
    mask = (1 << 64) - 1
    digest = hashlib.blake2b(
        str(seed).encode(), digest_size=16, person=b"pagefeed.take"
    ).digest()
    keys = [int.from_bytes(digest[at : at + 8], "little") for at in (0, 8)]

    def hashed(number: int) -> int:
        for key in keys:
            number = number + key & mask
            number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & mask
            number = (number ^ number >> 27) * 0x94D049BB133111EB & mask
            number ^= number >> 31
        return number

    return [hashed(number) for number in numbers]


def taken(rows: list[int], lengths: list[int], share: float, seed: int) -> list[int]:
    """The rows of the smallest hashes that hold a share of the tokens."""
    wanted = round(share * sum(lengths[row] for row in rows))
    kept, held = list[int](), 0
    for _, row in sorted(zip(hashes(seed, rows), rows, strict=True)):
        if held < wanted:
            kept.append(row)
            held += lengths[row]
    return sorted(kept)


@dataclass(frozen=True)
class Taught:
    """How the datasets are cut and infilled, and what their sequences hold."""

    sequences: Any
    infill: pf.Infill

    @functools.cache  # noqa: B019 - there are two of them
    def mixture(self, max_steps: int) -> pf.Mixture:
        made = {name: files(name) for name in ROWS}
        made["code"] = made["code"].infill(self.infill)
        made["web"] = made["web"].take(share=SHARE, seed=SEED)
        weighted = {name: (data, WEIGHTS[name]) for name, data in made.items()}
        return pf.mix(
            weighted, unit="sequences", max_steps=max_steps, rehearse=REHEARSED
        )

    @functools.cache  # noqa: B019 - there are two of them
    def epoch(self, name: str, run: int, epoch: int) -> frozenset[Told]:
        """All sequences of a dataset in an epoch of its own, in one of the run."""
        if run:
            key = derive_key(run, "infill", epoch)[:8]
            epoch = int.from_bytes(key, "little") % (1 << 21)
        docs, infill = documents(name), self.infill if name == "code" else None
        added = len(self.infill.tokens)
        lengths = [
            len(row) + added * (infill is not None and is_chosen(infill, number))
            for number, row in enumerate(docs)
        ]
        rows = list(range(len(docs)))
        if name == "web":
            rows = taken(rows, lengths, SHARE, SEED)
        rows = taken(rows, lengths, REHEARSED, 0)
        pieces = self._pieces([lengths[row] + 1 for row in rows])
        tokens = np.full((1 + max(piece[0] for piece in pieces), LENGTH), PADDING)
        for place, row in enumerate(rows):
            own = sorted(
                (first, count) for _, p, first, count, _ in pieces if p == place
            )
            line = docs[row]
            if infill is not None and infill.within == "document":
                line = infilled(infill, row, epoch, line)
            elif infill is not None:
                ends = [(first, first + count) for first, count in own]
                parts = [range(a, min(b, lengths[row])) for a, b in ends]
                line = within_parts(infill, row, epoch, line, parts)
            line = [*line, EOS]
            for sequence, p, first, count, offset in pieces:
                if p == place:
                    tokens[sequence, offset : offset + count] = line[
                        first : first + count
                    ]
        return self._told(name, tokens, [(s, o, n) for s, _, _, n, o in pieces])

    def _pieces(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Sequence, row, first token, number of tokens and offset of every piece."""
        if isinstance(self.sequences, pf.Packed):  # All of it is one block.
            found = pack_lengths(lengths, LENGTH, self.sequences.layout)
            names = ("sequence", "row", "first_token", "num_tokens", "offset")
            columns = [getattr(found, name).tolist() for name in names]
            return list(zip(*columns, strict=True))
        pieces, at = list[tuple[int, ...]](), 0
        for row, length in enumerate(lengths):
            first = 0
            while first < length:
                count = min(length - first, LENGTH - at % LENGTH)
                pieces.append((at // LENGTH, row, first, count, at % LENGTH))
                first, at = first + count, at + count
        return pieces

    def _told(self, name: str, tokens: Any, parts: Any) -> frozenset[Told]:
        labels = model_fields(tokens, parts, shifted=True, across=False)["labels"]
        starts = {token: row[0] for row in documents(name) for token in row}
        arrays: dict[str, Any] = {"input_ids": tokens, "labels": labels}
        for column, wide in TEACHER.items():
            arrays[column], counts = wide.expected(labels, starts)
            arrays.setdefault("count", counts)
        number = list(ROWS).index(name)
        found = [Told.of(number, arrays, row) for row in range(len(tokens))]
        assert len({*found}) == len(found)
        return frozenset(found)


# Learning.


def losses_of(labels: Any) -> Any:
    """A loss of every label; sums of them are exact in any order."""
    return np.asarray(labels) * 40_503 % 1024 / 64


class Drift:
    """A policy of one's own: its weights follow from all that it was asked."""

    def __init__(self) -> None:
        self.asked = ""

    def update(self, step: int, losses: Mapping[str, float]) -> dict[str, float] | None:
        text = f"{self.asked} {step} {sorted(losses.items())}"
        self.asked = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        draw = random.Random(self.asked)
        names = draw.sample([*ROWS], draw.randint(1, 3))
        weights = {name: float(draw.randint(1, 5)) for name in names}
        return weights if draw.random() < 0.7 else None

    def state_dict(self) -> dict[str, str]:
        return {"asked": self.asked}

    def load_state_dict(self, state: dict[str, str]) -> None:
        self.asked = state["asked"]


@dataclass
class PlainLearner:
    """What a learner remembers."""

    policy: Drift = field(default_factory=Drift)
    at: int = 0
    sums: Any = field(default_factory=lambda: np.zeros((2, len(ROWS))))

    def copied(self) -> "PlainLearner":
        return PlainLearner(copy(self.policy), self.at, self.sums.copy())

    def step(self, step: int, rows: list[Told]) -> dict[str, float] | None:
        """Add a step of all ranks; its weights, if it is time."""
        for row in rows:
            labels = np.frombuffer(row.content, np.int64, LENGTH, LENGTH * 8)
            labels = labels[labels != IGNORED]
            self.sums[:, row.dataset] += losses_of(labels).sum(), len(labels)
        before, self.at = min(self.at, step - 1), step
        if step // EVERY == before // EVERY:
            return None
        each = zip(ROWS, *self.sums.tolist(), strict=True)
        means = {name: total / count for name, total, count in each if count}
        self.sums = np.zeros((2, len(ROWS)))
        return self.policy.update(step, means)

    @property
    def state(self) -> dict[str, Any]:
        return {
            "version": 2,
            "policy": "Drift",
            "every": EVERY,
            "settings": None,
            "state": self.policy.state_dict(),
            "at": self.at,
            "names": [*ROWS],
            "sums": self.sums.tolist(),
        }


class Gathering:
    """What ranks gather, each in a thread of its own."""

    def __init__(self, num_ranks: int) -> None:
        self._barrier = Barrier(num_ranks, timeout=60)
        self._values: list[Any] = [None] * num_ranks

    def of(self, rank: int) -> Callable[[Any], list[Any]]:
        def gather(values: Any) -> list[Any]:
            self._values[rank] = values
            self._barrier.wait()
            found = [*self._values]
            self._barrier.wait()
            return found

        return gather


class LearningMachine(MixtureMachine):
    """A mixture of an infilled dataset and a subset, taught, rehearsed and learning."""

    taught: ClassVar[Taught] = Taught(
        pf.Windows(LENGTH, eos=EOS),
        pf.Infill(prefix=2, middle=3, suffix=4, rate=0.6, seed=2),
    )

    @classmethod
    def loader(cls, max_steps: int, **options: Any) -> pf.Loader:
        threads = 1 + options.get("batch_size", 1) % 3
        return numbered_loader(
            cls.taught.mixture(max_steps),
            sequences=cls.taught.sequences,
            fields=pf.Fields(
                names=("input_ids", "labels", "dataset_ids"), shifted=True
            ),
            num_threads=threads,
            **options,
        )

    @classmethod
    @functools.cache
    def sequences_of(cls, name: str) -> int:
        return len(cls.taught.epoch(name, 0, 0))

    @staticmethod
    def dataset_of(token: Any) -> int:
        return int(token.dataset)

    @classmethod
    def check_sequence(cls, token: Any, name: str, run: int, epoch: int) -> None:
        assert token in cls.taught.epoch(name, run, epoch)

    @staticmethod
    def tell(batch: dict[str, Any]) -> list[Any]:
        numbers = batch["dataset_ids"].tolist()
        return [Told.of(number, batch, row) for row, number in enumerate(numbers)]

    def check_batch(self, batch: Any) -> None:
        assert {*batch} == {*COLUMNS, "dataset_ids"}

    def check_origins(self, origins: list[Any], told: Any) -> None:
        """The parts of documents in it, each in its place."""
        tokens = told.tokens
        left = {at for at, token in enumerate(tokens) if token >= FIRST_TOKEN}
        for origin in origins:
            row = rows_of_file(origin.file)[origin.row]
            places = range(origin.offset, origin.offset + origin.num_tokens)
            first = origin.first_token
            own = row[first : first + origin.num_tokens]
            assert [tokens[at] for at in places] == own
            assert origin.dataset == list(ROWS)[told.dataset]
            left -= {*places}
        assert not left

    # Learning.

    def begin(self, model: RunModel) -> None:
        self.part = None  # Rows are told apart by all that they hold.
        super().begin(model)
        self.plain = PlainLearner()
        self.learn()

    @rule()
    def learn(self) -> None:
        """A new learner goes on where the one before was."""
        ranks = Gathering(len(self.loaders))
        self.learners = [
            pf.mixing.Learner(loader, Drift(), every=EVERY, group=ranks.of(rank))
            for rank, loader in enumerate(self.loaders)
        ]

    def follow(self, batches: list[Any], expected: list[Any]) -> None:
        for learner, batch in zip(self.learners, batches, strict=True):
            labels = batch["labels"]
            learner.add(batch["dataset_ids"], labels, losses=losses_of(labels))
        self.token(0)
        with ThreadPoolExecutor(len(self.learners)) as ranks:
            changed = [*ranks.map(lambda learner: learner.step(), self.learners)]
        weights = self.plain.step(self.loaders[0].step, expected)
        assert changed == [weights is not None] * len(changed)
        if weights is not None:
            self.weigh({name: float(weights.get(name, 0)) for name in ROWS})

    def load_all(self, state: str) -> None:
        is_made = self.learners[0].loader is self.loaders[0]
        if not is_made and self.model.world_size % 2:
            self.learn()
        super().load_all(state)
        if self.learners[0].loader is not self.loaders[0]:
            self.learn()

    @rule()
    def travel_by_pickle(self) -> None:
        super().travel_by_pickle()
        self.learn()

    def state_for_workers(self) -> dict[str, Any]:
        """Workers learn nothing: the weights that the policy has set are known."""
        state = super().state_for_workers()
        del state["learning"]
        return state

    def snapshot(self) -> Any:
        return super().snapshot(), self.plain.copied()

    def put_back(self, snapshot: Any) -> None:
        inner, self.plain = snapshot
        super().put_back(inner)

    def restore(self, snapshot: Any, batch_size: int, world_size: int) -> None:
        inner, plain = snapshot
        self.plain = plain.copied()
        super().restore(inner, batch_size, world_size)

    def check_place(self, state: dict[str, Any]) -> None:
        super().check_place(state)
        assert state["learning"] == self.plain.state


class PackedLearningMachine(LearningMachine):
    """A learning run over packed sequences, a part of each document infilled."""

    taught = Taught(
        pf.Packed(LENGTH, eos=EOS),
        pf.Infill(prefix=2, middle=3, suffix=4, end=5, within="sequence", spm=0.3),
    )
