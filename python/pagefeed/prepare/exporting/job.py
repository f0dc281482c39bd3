"""Plans the shards of an export, and writes them in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    FIELDS,
    check_choice,
    check_positive,
    num_processors,
    parse_bytes,
)
from pagefeed.core.any_loader import rebuild
from pagefeed.core.dataset import known_vocab_size
from pagefeed.core.loader import Loader
from pagefeed.core.run import NO_POSITION, Cursor, StepIndex
from pagefeed.core.storage import MANIFEST, PathLike
from pagefeed.errors import CancelledError, InvalidArgumentError
from pagefeed.flat import given_dtype
from pagefeed.prepare.exporting.shards import ExportFormat, FileSettings
from pagefeed.prepare.jobs import (
    ShardFolder,
    ThreadedWork,
    begun_job,
    reading_job,
    run_threads,
)
from pagefeed.prepare.parquet_sinks import Compression
from pagefeed.remote import OutputFolder, StorageOptions, on_ray, output_folder

_LOCK = ".export.lock"
_FILES = r".+-\d{5,}\.(parquet|npy|bin|json)|_manifest\.json|job\.json"
_LEAST_MEMORY = 128 << 20
"""Bytes of a loader, of as many as its memory is divided among."""
_RAY_TASKS = 256
"""Tasks of Ray, of neighbouring shards each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """Result of an export."""

    folder: str
    """The output folder."""
    files: tuple[str, ...]
    """Paths of the files, in order; of one field after the other, for arrays."""
    dtype: str
    """Type of the tokens."""
    num_sequences: int
    """Sequences written."""
    num_steps: int
    """Steps of the loader that they are."""
    state: dict[str, Any]
    """The loader's state after the last of these steps."""
    manifest: str
    """Path of the manifest: files with checksums, and the state, as JSON."""


@dataclass(frozen=True, kw_only=True)
class _Job:
    """Settings of an export, the same in all threads and on all nodes."""

    loader: Loader
    """A loader of the rows of all ranks, at the first step."""
    out: ShardFolder
    files: FileSettings
    shard_steps: int
    """Steps of a shard."""
    num_steps: int
    """Steps in all."""
    num_loaders: int
    """Loaders that share threads and memory."""

    def steps(self, shard: int) -> range:
        """Return the steps of a shard, counted from the first step of all."""
        steps = range(self.num_steps)
        return steps[shard * self.shard_steps :][: self.shard_steps]

    def write(
        self,
        shards: Sequence[int],
        advance: Callable[[int], object] = lambda _: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write shards, and record each as finished.

        Args:
            shards: Numbers of the shards, in order.
            advance: Called with the number of rows of each step.
            is_cancelled: Called at every step.

        Raises:
            CancelledError: If it was cancelled.
        """
        view = self.loader.view()
        cursor, settings = view.run.at(view.position.now), view.settings
        settings = replace(
            settings,
            memory=settings.memory // self.num_loaders,
            num_threads=max(1, settings.num_threads // self.num_loaders),
        )
        place, batches = -1, iter(self.loader)
        with rebuild(Loader, settings, view.position.now) as loader:
            for shard in shards:
                steps = self.steps(shard)
                if steps.start != place:
                    start = cursor.state_after(steps.start)
                    loader.view().resume(start)
                    batches = iter(loader)
                rows = [_num_rows(cursor, step) for step in steps]
                with self.files.writer(self.out.folder, shard, sum(rows)) as out:
                    for num_rows, batch in zip(rows, batches, strict=False):
                        if is_cancelled():
                            raise CancelledError("the export was cancelled")
                        out.add(batch, num_rows)
                        advance(num_rows)
                    self.out.folder.check_claim()
                self.out.finish_shard(shard, out.records())
                place = steps.stop


def export(
    loader: Loader,
    output: PathLike,
    *,
    to: ExportFormat = "parquet",
    dtype: npt.DTypeLike | None = None,
    shard_size: int | str = "256MiB",
    page_size: int | str = "64KiB",
    compression: Compression = "zstd",
    num_threads: int | None = None,
    engine: Literal["local", "ray"] = "local",
    storage_options: StorageOptions | None = None,
) -> Exported:
    """Write the sequences of a loader as files, shuffled, mixed and cut as it does.

    For trainers that cannot take a loader, for shuffled copies of a dataset, or to look
    at. The sequences come in the order of all ranks: step by step, and in a step rank 0
    has rows 0, n, 2n and so on of n ranks. Everything from the loader's position to the
    end of its iteration is written, with all its fields; the loader does not move.
    Padding rows of the last step are left out.

    Memory stays within that of the loader and some row groups. Shards are ranges of
    steps, written in parallel. A shard appears when it is complete, and the manifest
    last. Start a killed export again to continue it: finished shards are kept, and the
    files are those of an uninterrupted one. The manifest has the state after the last
    step, at which a live loader continues.

    Args:
        loader: A loader of any rank.
        output: A folder, empty or begun by the same export. Parquet is written to a URL
            of a bucket as well.
        to: ``"parquet"``: a column for each field. ``"npy"``: a file for each field and
            shard, ``input_ids-00000.npy``, with an array [sequences, length].
            ``"raw"``: the same without a header.
        dtype: Type of the tokens, of at most 32 bits for Parquet; by default
            ``uint16`` if all are known to fit, and ``uint32``.
        shard_size: Bytes of tokens, before compression, of a shard, about.
        page_size: Bytes of tokens in a page of Parquet, at four bytes a token.
        compression: The codec of pages of Parquet: ``"zstd"``, ``"lz4"``, ``"snappy"``
            or ``"none"``.
        num_threads: Threads that work; by default one per CPU. Each that writes has a
            part of the loader's ``memory``, of 128 MiB or more.
        engine: ``"local"``; or ``"ray"``, on the cluster that ``ray.init`` finds, whose
            nodes share data and output: needs ``pagefeed[ray]``.
        storage_options: Settings of remote storage of the output, see
            :func:`pagefeed.parquet`.

    Returns:
        What was written, and the state after it.

    Raises:
        InvalidArgumentError: If an argument is invalid, the loader never ends, a field
            is not one row for each sequence, or the folder holds another export.
        TokenRangeError: If a token does not fit ``dtype``.
        FileAccessError: If the output cannot be written, has no room, or is written by
            another process.
        MissingDependencyError: If Parquet is written and pyarrow is not installed.

    Example:
        >>> done = export(loader, "epoch-0", to="npy")  # doctest: +SKIP
        >>> np.load(done.files[0]).shape  # doctest: +SKIP
        (58, 2048)
    """
    check_choice(to, get_args(ExportFormat), "to")
    check_choice(compression, get_args(Compression), "compression")
    check_choice(engine, ("local", "ray"), "engine")
    threads = check_positive(num_threads or num_processors(), "num_threads")
    whole = _of_all_ranks(loader)
    view = whole.view()
    start = view.position.now
    cursor = view.run.at(start)
    files = FileSettings(
        to=to,
        dtype=_dtype(whole, dtype, to),
        compression=compression,
        page_bytes=max(1, parse_bytes(page_size, name="page_size")),
    )
    shard_bytes = max(1, parse_bytes(shard_size, name="shard_size"))
    step_bytes = _row_bytes(whole, files) * view.settings.batch_size
    num_steps = cursor.route.num_steps or 0
    shard_steps = min(max(1, int(shard_bytes / step_bytes)), num_steps)
    num_shards = -(-num_steps // shard_steps)
    folder = output_folder(output, storage_options, "output", buckets=to == "parquet")
    out = ShardFolder(folder, _settings(whole, files, shard_steps), _FILES)
    manifest, begun = begun_job(folder, out.settings)
    if manifest is not None:
        return _result(folder, files, manifest)
    if begun is None and to != "parquet":
        folder.check_room(int(step_bytes * num_steps), "use to='parquet'")
    with out.claimed(_LOCK):
        done = out.finished()
        left = [shard for shard in range(num_shards) if shard not in done]
        job = _Job(
            loader=whole,
            out=out,
            files=files,
            shard_steps=shard_steps,
            num_steps=num_steps,
            num_loaders=1
            if engine == "ray"
            else max(1, min(threads, len(left), view.settings.memory // _LEAST_MEMORY)),
        )
        _run(job, left, engine, cursor.route.num_sequences or 0)
        done = out.finished()
        manifest = out.finish(
            "pagefeed sequences",
            [record for shard in range(num_shards) for record in done[shard]],
            state=cursor.state_after(num_steps).to_dict(),
            num_steps=num_steps,
            num_sequences=sum(done[shard][0]["rows"] for shard in range(num_shards)),
        )
    return _result(folder, files, manifest)


def _of_all_ranks(loader: object) -> Loader:
    """Return a loader of the rows of all ranks, at the position of a loader.

    Raises:
        InvalidArgumentError: If there is none.
    """
    if not isinstance(loader, Loader):
        raise InvalidArgumentError(
            f"export writes the sequences of a pagefeed.Loader, found "
            f"{type(loader).__name__}: texts are counted first, "
            "Loader(dataset.tokenize(tokenizer), ...)"
        )
    view = loader.view()
    view.check_state()
    settings, run = view.settings, view.run
    if run.at(view.position.now).end is None:
        raise InvalidArgumentError(
            "the loader never ends, and files do: give it epochs=1, or a mixture "
            "max_steps, max_tokens or a stop"
        )
    for name in settings.fields.names:
        if FIELDS[name].shape in ("borders", "number", "table"):
            raise InvalidArgumentError(
                f"{name!r} is of a whole batch, and export writes a row for each "
                "sequence: leave it out of fields; 'doc_lens' has the borders of "
                "documents"
            )
    if run.takes_batches and run.step_sequences > 1:
        raise InvalidArgumentError(
            "batch_tokens on several ranks: give the loader world_size=1 to export it"
        )
    size = settings.batch_size * settings.world_size
    whole = replace(
        settings,
        rank=0,
        world_size=1,
        batch_size=size,
        context_parallel=None,
        pin_memory=False,
    )
    one = rebuild(Loader, whole, view.position.now)
    after, ours = run.beginning(1), one.view().run.beginning(1)
    differs = (after.num_lanes, after.ranks) != (ours.num_lanes, ours.ranks)
    if differs and settings.epochs != 1:
        raise InvalidArgumentError(
            f"the order of further epochs depends on world_size={settings.world_size}: "
            "give the loader epochs=1, and export one epoch after the other"
        )
    one.view().run.check_steps(view.position.now)
    return one


def _num_rows(cursor: Cursor, step: int) -> int:
    """Return the rows of a step that are not padding."""
    if cursor.run.takes_batches:
        return len(cursor.rows(cursor.route.number_of(StepIndex(step))))
    return int((cursor.route.positions(step, 1) != NO_POSITION).sum())


def _dtype(loader: Loader, dtype: npt.DTypeLike | None, to: str) -> str:
    """Return the type of the tokens.

    Raises:
        InvalidArgumentError: If Parquet has no tokens of that type.
    """
    given = given_dtype(dtype)
    if given is not None:
        if to == "parquet" and np.dtype(given).itemsize > 4:
            raise InvalidArgumentError(
                f"dtype={given}: Parquet is written with tokens of at most 32 bits: "
                "give dtype='uint32', which holds any vocabulary"
            )
        return given
    known = loader.vocab_size or known_vocab_size(loader.view().run.datasets)
    return "uint16" if known is not None and known <= 1 << 16 else "uint32"


def _row_bytes(loader: Loader, files: FileSettings) -> float:
    """Return the bytes of a sequence's tokens, or of a row as it is stored."""
    run = loader.view().run
    if loader.sequences.delivers == "tokens":
        return float(run.indexes[0].length * np.dtype(files.dtype).itemsize)
    indexes = [dataset.index for dataset in run.datasets]
    stored = sum(index.stored_bytes(np.arange(len(index))).sum() for index in indexes)
    return max(1.0, float(stored / sum(index.num_rows for index in indexes)))


def _settings(loader: Loader, files: FileSettings, shard_steps: int) -> dict[str, Any]:
    """Return what must be the same when an export is continued."""
    settings, state = loader.view().settings, loader.view().position.now
    begun = replace(state, ended=None).to_dict()
    place = [begun.pop(name) for name in ("epoch", "position", "step")]
    return begun | {
        "begins": place,
        "batch_size": settings.global_batch_size or settings.batch_size,
        "epochs": settings.epochs,
        "drop_last": settings.drop_last,
        "fields": repr(settings.fields),
        "sequences_of": repr(settings.sequences),
        "columns": repr([d.aligned for d in loader.view().run.datasets]),
        "padding": settings.padding,
        "transform": _name_of(settings.transform),
        "decode": settings.decode and sorted(settings.decode.functions),
        "to": files.to,
        "dtype": files.dtype,
        "compression": files.compression,
        "page_bytes": files.page_bytes,
        "shard_steps": shard_steps,
    }


def _name_of(function: Any) -> str | None:
    return function and repr(function).partition(" at ")[0]


def _run(job: _Job, left: list[int], engine: str, num_sequences: int) -> None:
    """Write the shards that are left, in parallel."""
    if not left:
        return
    stop = threading.Event()
    with ThreadedWork("exporting", total=num_sequences, unit="sequences") as work:
        if engine == "local":
            # Neighbours together: from shard to shard a loader reads no page again.
            runs = [part.tolist() for part in np.array_split(left, job.num_loaders)]
            tasks = [partial(job.write, run, work.count, stop.is_set) for run in runs]
            run_threads(tasks, len(tasks), stop, work.tell)
            return
        parts = np.array_split(left, min(len(left), _RAY_TASKS))
        runs = [tuple(part.tolist()) for part in parts]
        done = on_ray(_write, job, runs, name=lambda run: f"shards from {run[0]} on")
        with closing(done):
            for _, num_rows in done:
                work.count(num_rows)
                work.tell()


def _write(job: _Job, run: tuple[int, ...]) -> int:
    """Write shards that are not finished, on a node of Ray; return their rows."""
    rows: list[int] = []
    job.write(run, rows.append)
    return sum(rows)


def _result(
    folder: OutputFolder, files: FileSettings, manifest: dict[str, Any]
) -> Exported:
    with reading_job(folder):
        return Exported(
            folder=folder.path,
            files=tuple(folder.path_of(f["file"]) for f in manifest["shards"]),
            dtype=files.dtype,
            num_sequences=manifest["num_sequences"],
            num_steps=manifest["num_steps"],
            state=manifest["state"],
            manifest=folder.path_of(MANIFEST),
        )
