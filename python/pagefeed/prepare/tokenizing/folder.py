"""The folder of a job: finished shards, rejected records, and the manifest."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from pagefeed.core._base import in_order
from pagefeed.core.storage import MANIFEST, UNFINISHED
from pagefeed.errors import (
    EmptySelectionError,
    FileAccessError,
    LimitExceededError,
)
from pagefeed.prepare.jobs import (
    begun_job,
    finish_job,
    note_job,
    read_record,
    reading_job,
    remove_drafts,
    write_record,
)
from pagefeed.prepare.texts import Rejected
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.remote import OutputFolder
from pagefeed.tokenizer import check_learned

_REJECTED = "_rejected"
_COUNTS = (
    *("num_documents", "num_tokens", "num_rejected", "reasons", "num_learned"),
    "left_out",
)
"""Names of the counts that manifest and result share."""
MOST_REASONS = 16
"""Most reasons that are counted by name."""
_FILES = r"part-\d{5}-\d{3,}\.(parquet|jsonl|json)|_manifest\.json|job\.json"


@dataclass(frozen=True, kw_only=True)
class Tokenized:
    """The result of :func:`pagefeed.tokenize`."""

    folder: str
    """The output folder."""
    files: tuple[str, ...]
    """Paths of the Parquet files, in the order of the inputs."""
    num_documents: int
    """Rows written."""
    num_tokens: int
    """Tokens written."""
    num_rejected: int
    """Rejected records, as far as they could be counted."""
    reasons: dict[str, int]
    """Reasons and their counts; also for values that a kept column cannot hold."""
    left_out: dict[str, int]
    """Documents left out by ``min_tokens`` and ``max_tokens``: reasons and counts."""
    num_learned: int | None
    """Chats with at least one labelled token; None for texts."""
    vocab_size: int
    """Ids are below."""
    fingerprint: str
    """Fingerprint of the tokenizer."""
    manifest: str
    """Path of the manifest: every file with its checksum and counts, as JSON."""


@dataclass(kw_only=True)
class ShardRecord:
    """The record of a shard, which grows until the shard is finished."""

    file: str | None = None
    """Name of the file; None if it has no rows."""
    rows: int = 0
    tokens: int = 0
    learned: int = 0
    """Rows with at least one labelled token."""
    bytes: int = 0
    sha256: str = ""
    rejected: int = 0
    """Rejected records."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows with too few or too many tokens, by reason."""
    next: tuple[int, int] | None = None
    """The next range of the task, and its next batch; None at the end."""


class JobFolder:
    """Records the progress of a job in its folder until it is complete."""

    def __init__(self, folder: OutputFolder) -> None:
        self._out = folder
        self.path = folder.path
        self._rejected = f"{folder.path}/{_REJECTED}"
        self.today = datetime.date.min
        """The day on which the job began, which templates write."""

    def check(self, job: Job) -> tuple[Any, Any]:
        """Check that the folder belongs to a job; change nothing.

        Returns:
            Its manifest, and what was noted when the job began; None if there is none.

        Raises:
            InvalidArgumentError: If the folder has another job or other files.
        """
        return begun_job(self._out, job.settings())

    def note(self, job: Job) -> None:
        """Check the folder, and record there that the job begins, unless it did before.

        Raises:
            InvalidArgumentError: If the folder has another job or other files.
        """
        manifest, begun = self.check(job)
        if manifest is None and begun is None:
            today = datetime.date.today().isoformat()  # noqa: DTZ011 - as templates do
            settings = job.settings()
            note_job(self._out, {"settings": settings, "today": today})

    def begin(self, job: Job, max_rejected: float) -> Tokenized | None:
        """Continue the job that the folder records. The folder must be claimed.

        Returns:
            The result, if the job is complete.

        Raises:
            InvalidArgumentError: If the folder has another job or other files.
            LimitExceededError: If a complete job has too many rejected records.
        """
        manifest, begun = self.check(job)
        if manifest is not None:
            remove_drafts(self._out, _FILES, _REJECTED)
            self._out.remove(self._out.names(UNFINISHED), UNFINISHED)
            return self._result(job, manifest, max_rejected)
        with reading_job(self._out):
            self.today = datetime.date.fromisoformat(begun["today"])
        return None

    def all_shards(self, num_tasks: int) -> list[list[ShardRecord]]:
        """Return the finished shards of all tasks."""
        names = set(self._out.names(UNFINISHED))
        return list(in_order(lambda task: self.shards(task, names), range(num_tasks)))

    def shards(self, task: int, names: set[str] | None = None) -> list[ShardRecord]:
        """Return the finished shards of a task, in order.

        Args:
            task: Number of the task.
            names: Names of all records, if they are known: no other is asked for.
        """
        finished: list[ShardRecord] = []
        while names is None or f"{shard_name(task, len(finished))}.json" in names:
            record = read_record(self._out, _record_name(task, len(finished)))
            if record is None:
                break
            with reading_job(self._out):
                record["next"] = (
                    None if record["next"] is None else tuple(record["next"])
                )
                finished.append(ShardRecord(**record))
        return finished

    def finish_shard(
        self, task: int, shard: int, record: ShardRecord, rejected: Iterable[Rejected]
    ) -> None:
        """Record a shard as finished; its file is complete.

        Raises:
            FileAccessError: If another process took the folder over.
        """
        self._out.check_claim()
        lines = [json.dumps(_as_json(entry), sort_keys=True) for entry in rejected]
        if lines:
            name = f"{_REJECTED}/{shard_name(task, shard)}.jsonl"
            self._out.write(name, "".join(f"{line}\n" for line in lines).encode())
        write_record(self._out, _record_name(task, shard), asdict(record))

    def finish(self, job: Job, max_rejected: float) -> Tokenized:
        """Write the manifest, and remove everything else but the shards.

        Raises:
            EmptySelectionError: If there are no records.
            LimitExceededError: If too many records were rejected, or all.
        """
        remove_drafts(self._out, _FILES, _REJECTED)
        shards = self.all_shards(len(job.tasks))
        records = [record for some in shards for record in some]
        self._check_sizes(shards)
        tokenizer, storage = job.tokenizer, job.inputs.storage
        num_rows = sum(record.rows for record in records)
        num_learned = sum(record.learned for record in records)
        if job.has_labels and num_rows:
            check_learned(num_learned, num_rows, required=job.require_labels)
        manifest = {
            "format": "pagefeed tokens",
            "settings": job.settings(),
            "tokenizer": tokenizer.record,
            "num_documents": num_rows,
            "num_tokens": sum(record.tokens for record in records),
            "num_rejected": sum(record.rejected for record in records),
            "reasons": together([record.reasons for record in records]),
            "left_out": together([record.left_out for record in records]),
            "num_learned": num_learned if job.has_labels else None,
            "rejected": [f"{_REJECTED}/{name}" for name in self._out.names(_REJECTED)],
            "inputs": [
                {"file": file, "bytes": storage.size(file)} for file in job.inputs.files
            ],
            "shards": [
                {
                    "file": record.file,
                    "documents": record.rows,
                    "tokens": record.tokens,
                    "bytes": record.bytes,
                    "sha256": record.sha256,
                }
                for record in records
                if record.file is not None
            ],
        }
        done = self._result(job, manifest, max_rejected)
        finish_job(self._out, manifest)
        return done

    def _check_sizes(self, shards: list[list[ShardRecord]]) -> None:
        """Check that the files of shards exist, and have the sizes written down."""
        sizes = self._out.sizes()
        for task, some in enumerate(shards):
            for record in some:
                if record.file and sizes.get(record.file) != record.bytes:
                    names = [f"{shard_name(task, n)}.json" for n in range(len(some))]
                    self._out.remove(names, UNFINISHED)
                    raise FileAccessError(
                        f"{self.path}/{record.file}: expected {record.bytes} bytes, "
                        f"found {sizes.get(record.file, 'no file')}: something else "
                        "wrote there; start the job again to write it"
                    ).at(file=f"{self.path}/{record.file}")

    def _result(
        self, job: Job, manifest: dict[str, Any], max_rejected: float
    ) -> Tokenized:
        done = Tokenized(
            folder=self.path,
            files=tuple(f"{self.path}/{shard['file']}" for shard in manifest["shards"]),
            **{name: manifest[name] for name in _COUNTS},
            vocab_size=job.tokenizer.vocab_size,
            fingerprint=job.tokenizer.fingerprint,
            manifest=f"{self.path}/{MANIFEST}",
        )
        num_left_out = sum(done.left_out.values())
        num_records = done.num_documents + done.num_rejected + num_left_out
        if not num_records:
            raise EmptySelectionError(
                f"{job.inputs.files[0]} and {len(job.inputs.files) - 1} other inputs "
                "hold no record: name files that do"
            )
        is_share = isinstance(max_rejected, float)
        most = int(max_rejected * num_records) if is_share else max_rejected
        problem = f"records were rejected ({summary(done.reasons)})"
        if num_left_out and num_left_out + done.num_rejected == num_records:
            raise EmptySelectionError(
                f"all {num_left_out:,} documents are left out: "
                f"{summary(done.left_out)}; give other min_tokens and max_tokens"
            )
        if not done.num_documents:
            raise LimitExceededError(
                f"all {num_records:,} {problem}: see {self._rejected}, and repair the "
                "inputs"
            )
        if done.num_rejected > most:
            raise LimitExceededError(
                f"{done.num_rejected:,} of {num_records:,} {problem}, {most:,} may be: "
                f"see {self._rejected}, and repair the inputs, or give a larger "
                "max_rejected, which takes up what is written"
            )
        return done


def _record_name(task: int, shard: int) -> str:
    return f"{UNFINISHED}/{shard_name(task, shard)}.json"


def shard_name(task: int, shard: int) -> str:
    """Return the name of a shard. Shards sort like their inputs."""
    return f"part-{task:05}-{shard:03}"


def reasons_of(rejected: Iterable[Rejected]) -> dict[str, int]:
    """Return the reasons for rejecting records, and their counts.

    The reason is the text of an error before the first colon or comma.
    """
    reasons = [
        {re.split("[:,]", record.error)[0]: record.num_records or 1}
        for record in rejected
    ]
    return together(reasons)


def together(some: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up counts of reasons, the most frequent first."""
    total = Counter[str]()
    for counts in some:
        total.update(counts)
    frequent = dict(total.most_common(MOST_REASONS))
    rest = total.total() - sum(frequent.values())
    return frequent | ({"other reasons": rest} if rest else {})


def summary(reasons: dict[str, int]) -> str:
    """Return reasons and their counts as one line."""
    return "; ".join(f"{count:,} {reason}" for reason, count in reasons.items())


def _as_json(rejected: Rejected) -> dict[str, Any]:
    return {
        "file": rejected.file,
        "position": rejected.position,
        "error": rejected.error,
        "records": rejected.num_records,
    }
