"""The verb ``tokenize``: checks arguments, runs tasks, and writes the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from pagefeed.core._base import (
    check_choice,
    check_column,
    check_columns,
    check_flag,
    check_positive,
    check_whole,
    num_processors,
    parse_bytes,
)
from pagefeed.core.storage import PathLike, Paths
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare.parquet_sinks import Compression
from pagefeed.prepare.texts import (
    FORMATS,
    RECORD_BYTES,
    Format,
    find_inputs,
)
from pagefeed.prepare.tokenizing.folder import JobFolder, Tokenized
from pagefeed.prepare.tokenizing.job import (
    Job,
    make_wanted,
    nested_text,
    plan,
    types_of_inputs,
)
from pagefeed.prepare.tokenizing.local import run_locally
from pagefeed.prepare.tokenizing.on_ray import run_on_ray
from pagefeed.remote import StorageOptions, output_folder
from pagefeed.tokenizer import TextOfRow, Tokenizer, TrainOn, row_encoder

BATCH_BYTES = 8 << 20
LOCK = ".tokenize.lock"

OnError = Literal["fail", "skip"]
Engine = Literal["local", "ray"]


def tokenize(
    inputs: Paths,
    output: PathLike,
    *,
    tokenizer: Tokenizer,
    column: str = "text",
    text: TextOfRow | None = None,
    columns: Sequence[str] = (),
    messages: str | None = None,
    tools: str | None = None,
    roles: Mapping[str, str] | None = None,
    require_labels: bool = True,
    keep: Iterable[str] | Mapping[str, str | None] = (),
    format: Format | None = None,  # noqa: A002 - as loaders have it
    on_error: OnError = "fail",
    max_rejected: float = 0.01,
    max_record: int | str = RECORD_BYTES,
    min_tokens: int | None = None,
    max_tokens: int | None = None,
    column_name: str = "input_ids",
    chat_template: str | None = None,
    train_on: TrainOn = "answers",
    mask: Iterable[str] = (),
    shard_size: int | str = "256MiB",
    page_size: int | str = "64KiB",
    compression: Compression = "zstd",
    num_threads: int | None = None,
    retries: int = 3,
    engine: Engine = "local",
    storage_options: StorageOptions | None = None,
) -> Tokenized:
    r"""Tokenize texts of any input into Parquet files that training reads at random.

    A record becomes a row, in the order of the inputs. The files do not depend on the
    number of threads or machines, appear only when complete, and record the tokenizer.
    Start a killed job again to continue it: finished shards are kept.

    Args:
        inputs: Files, folders, patterns and URLs: lines of JSON, CSV, Parquet, Arrow
            and Feather, folders of Hugging Face's ``save_to_disk``; ``.gz`` and
            ``.zst`` of most of these.
        output: Folder of the files, empty or begun by the same job; or a URL of one in
            a bucket, such as ``s3://bucket/tokens``.
        tokenizer: Encodes the texts.
        column: The column or field of the texts. A field of an object is written as
            ``"doc.text"``; the texts of a list are lines of one.
        text: Makes the text of a record: a template over columns, such as
            ``"{title}\n\n{doc.text}"``, or a function. It gets a row, a dict of
            ``column`` and ``columns``, and returns a text or None.
        columns: Further columns that the function of ``text`` reads.
        messages: Instead, the column of chats. The chat template renders them, and
            ``labels`` are written with the tokens: -100 except where the assistant
            speaks. Needs ``pagefeed[chat]``.
        tools: The column of the tools of each chat.
        roles: Names that the template uses for roles of the data, such as
            ``{"model": "assistant"}``.
        require_labels: Refuse the inputs if no chat has a learned token; if some have
            none, warn. False accepts them.
        keep: Further columns to write, by name, also such that folders name
            (``lang=en/``); or with types, such as ``{"score": "float64"}``. Other types
            are those of the files; for lines and CSV they are inferred from the first
            records. If a later value does not fit an inferred type, the error names a
            type that holds all. A value that does not fit a given type becomes null and
            is reported, and its text is kept.
        format: Format of the files; by default by their names.
        on_error: What to do with a record that cannot be read: ``"fail"``, or
            ``"skip"`` it. Skipped records are listed in ``_rejected/``, with file,
            position and reason.
        max_rejected: Records that may be rejected: a whole number, or a share of all,
            such as the default 0.01. Above it the job stops; start it again with a
            larger number to continue.
        max_record: Bytes of the largest record: larger ones are rejected, and never
            read into memory.
        min_tokens: Least tokens of a document. Shorter ones are left out and counted.
        max_tokens: Most tokens of a document. Longer ones are left out and counted.
        column_name: Name of the column of tokens.
        chat_template: A template to use instead of the tokenizer's.
        train_on: ``"last"`` labels only answers after the last message of a user,
            ``"weighted"`` messages of any role whose ``weight`` is 1.
        mask: Parts of answers without labels: ``"reasoning"``, ``"tool_calls"``,
            ``"tool_results"``.
        shard_size: Bytes of a file, about.
        page_size: Bytes of tokens in a page, at four bytes a token: what is read for
            one row of a row-exact shuffle.
        compression: The codec of pages: ``"zstd"`` makes the smallest files; ``"none"``
            is written and loaded fastest, at two bytes a token, or three for more than
            65,536 ids; others lie between.
        num_threads: Threads that work; by default one per CPU.
        retries: How often a shard is tried again where files cannot be read or written.
        engine: ``"local"``; or ``"ray"``, on the cluster that ``ray.init`` finds, whose
            nodes share the files: needs ``pagefeed[ray]``.
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`.

    Returns:
        The files, and counts of rows, tokens and rejected records.

    Raises:
        InvalidArgumentError: If an argument is invalid, or the folder belongs to
            another job.
        ColumnNotFoundError: If there is no such column.
        CorruptFileError: If a record cannot be read, and ``on_error`` is ``"fail"``.
        EmptySelectionError: If the inputs hold no record, or all are left out.
        LimitExceededError: If more than ``max_rejected`` were rejected, or all.
        FileAccessError: If files cannot be read or written, after all retries, or
            another process writes the folder.
        MissingDependencyError: If pyarrow is not installed.

    Example:
        >>> tok = Tokenizer("tokenizer.json")  # doctest: +SKIP
        >>> tokenize("web/", "tokens", tokenizer=tok, keep=["url"])  # doctest: +SKIP
    """
    check_choice(on_error, get_args(OnError), "on_error")
    check_choice(engine, get_args(Engine), "engine")
    check_choice(compression, get_args(Compression), "compression")
    if format is not None:
        check_choice(format, FORMATS, "format")
    if not isinstance(tokenizer, Tokenizer):
        raise InvalidArgumentError(
            f"tokenizer={tokenizer!r:.60}: give pagefeed.Tokenizer(...) of a "
            "tokenizer.json, a model, or a function"
        )
    if isinstance(keep, str):
        raise InvalidArgumentError(f"keep={keep!r} must be a list: keep=[{keep!r}]")
    threads = num_threads
    if threads is None:
        threads = num_processors()
    check_positive(threads, "num_threads")
    check_whole(retries, "retries")
    _check_rejected(max_rejected)
    least = None if min_tokens is None else check_positive(min_tokens, "min_tokens")
    most = None if max_tokens is None else check_positive(max_tokens, "max_tokens")
    if least is not None and most is not None and least > most:
        raise InvalidArgumentError(
            f"min_tokens={least} is more than max_tokens={most}: no document has both"
        )
    name = check_column(column_name, "column_name")
    shard_bytes = max(1, parse_bytes(shard_size, name="shard_size"))
    out = output_folder(output, storage_options, "output")
    located = find_inputs(inputs, format, storage_options, output=out)
    types = types_of_inputs(located)
    source = check_column(column if messages is None else messages, "column")
    if text is None and messages is None:
        text = nested_text(types, source)
    rows = row_encoder(
        tokenizer,
        messages or (None if isinstance(text, str) else source),
        messages=messages,
        tools=tools,
        roles=roles,
        template=chat_template,
        train_on=train_on,
        mask=mask,
        text=text,
        columns=columns,
    )
    kept = _kept(keep)
    wanted = make_wanted(
        located,
        types,
        source if rows is None else rows.columns[0],
        kept,
        rows=rows,
        column=name,
        batch_bytes=min(BATCH_BYTES, shard_bytes),
        record_bytes=max(1, parse_bytes(max_record, name="max_record")),
    )
    job = Job(
        inputs=located,
        wanted=wanted,
        tokenizer=tokenizer,
        rows=rows,
        written=tuple(kept),
        require_labels=check_flag(require_labels, "require_labels"),
        column=name,
        shard_bytes=shard_bytes,
        page_bytes=max(1, parse_bytes(page_size, name="page_size")),
        compression=compression,
        on_error=on_error,
        folder=out,
        tasks=plan(located, shard_bytes),
        num_tokens=(least, most),
    )
    folder = JobFolder(job.folder)
    folder.note(job)  # Before it is claimed: another job that works there continues.
    with out.claimed(LOCK):
        done = folder.begin(job, max_rejected)
        if done is not None:
            return done
        if rows is not None:
            job = replace(job, rows=rows.on(folder.today))
        run = run_on_ray if engine == "ray" else run_locally
        run(job, threads, retries)
        return folder.finish(job, max_rejected)


def _kept(keep: object) -> dict[str, str | None]:
    """Return the kept columns, each with its given type or None."""
    if not isinstance(keep, Mapping):
        return dict.fromkeys(check_columns(keep, "keep"))
    for name, kind in keep.items():
        check_column(name, "keep")
        if kind is not None and not isinstance(kind, str):
            raise InvalidArgumentError(
                f"keep[{name!r}]={kind!r:.60} must name a type of Arrow, such as "
                "'string'"
            )
    return dict(keep)


def _check_rejected(most: object) -> None:
    is_number = isinstance(most, int) and not isinstance(most, bool) and most >= 0
    if not is_number and not (isinstance(most, float) and 0 <= most <= 1):
        raise InvalidArgumentError(
            f"max_rejected={most!r}: give a number of records, such as 100, or a share "
            "of them, such as 0.01"
        )
