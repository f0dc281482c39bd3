"""Samples of WebDataset's tars and folders of images, as rows of Parquet."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any

from pagefeed.core._base import Work, require
from pagefeed.core.storage import (
    Paths,
    Storage,
    is_url,
    plain_paths,
)
from pagefeed.errors import CorruptFileError, InvalidArgumentError, MissingFileError
from pagefeed.parsing import check_small
from pagefeed.prepare.jobs import (
    ShardFolder,
    begun_job,
    reading_job,
)
from pagefeed.prepare.parquet_output import FILES, LOCK
from pagefeed.prepare.parquet_sinks import GROUP_BYTES, Compression, ListSink
from pagefeed.remote import OutputFolder

TARS = (".tar", ".tar.gz", ".tgz")
IMAGES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".PNG", ".JPG", ".JPEG", ".WEBP"),
)
_TEXTS = {"json", "txt", "text", "cls", "caption", "url"}
Row = dict[str, Any]


def are_samples(paths: Sequence[str]) -> bool:
    """Return whether paths are tars, or files or folders of images."""
    return not any(map(is_url, paths)) and _kind(paths) is not None


def _kind(paths: Sequence[str]) -> str | None:
    for kind, ends in (("tar", TARS), ("images", IMAGES)):
        try:
            found = [Storage().list_files(path, ends) for path in paths]
        except MissingFileError:
            continue
        if all(file.endswith(ends) for files in found for file in files):
            return kind
    return None


def samples_of(paths: Paths) -> tuple[list[str], dict[str, str], Iterator[Row]]:
    """Return the files that paths mean, the types of columns, and the rows.

    A sample of a tar is a row, and an extension a column: text for ``json``, ``txt``
    and ``cls``, else bytes. A file of images is a row of ``image``, ``label``, the
    folder below the one that was given, and ``path``.

    Raises:
        InvalidArgumentError: If they are neither tars nor images.
        CorruptFileError: If a tar cannot be read.
    """
    given = plain_paths(paths)
    kind = _kind(given)
    if kind is None:
        raise InvalidArgumentError(
            f"{', '.join(given):.200} are not tars of WebDataset or folders of "
            "images: give files that end in .tar, or in .png, .jpg and the like"
        )
    if kind == "images":
        types = {"image": "binary", "label": "string", "path": "string"}
        placed = [
            (file, _below(Storage().name_of(path), file))
            for path in given
            for file in Storage().list_files(path, IMAGES)
        ]
        return [file for file, _ in placed], types, _images(placed)
    files = Storage().list_files(given, TARS)
    names = dict.fromkeys(e for f in files for _, e, _ in _members(f, read=False))
    types = {name: "string" if name in _TEXTS else "binary" for name in names}
    return files, {"__key__": "string"} | types, _of_tars(files, types)


def _below(folder: str, file: str) -> str:
    """Return the path of a file below a folder; else with the folder that it is in."""
    if file.startswith(f"{folder}/"):
        return file.removeprefix(f"{folder}/")
    return "/".join(file.split("/")[-2:])


def _images(placed: list[tuple[str, str]]) -> Iterator[Row]:
    for file, path in placed:
        label = path.partition("/")[0] if "/" in path else None
        yield {"image": Storage().read_all(file), "label": label, "path": path}


def _members(file: str, *, read: bool) -> Iterator[tuple[str, str, bytes]]:
    """Yield key, extension and bytes of the files in a tar."""
    try:
        with tarfile.open(file) as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                key, _, extension = name.partition(".")
                if not member.isreg() or not key or not extension:
                    continue
                check_small(f"{file}: {member.name}", member.size)
                source = tar.extractfile(member) if read else None
                data = b"" if source is None else source.read()
                yield f"{folder}/{key}".lstrip("/"), extension.lower(), data
    except (tarfile.TarError, OSError, EOFError) as problem:
        raise CorruptFileError(
            f"{file} cannot be read as a tar: {problem}; fetch it again"
        ).at(file=file) from problem


def _of_tars(files: list[str], types: dict[str, str]) -> Iterator[Row]:
    for file in files:
        row: Row = {}
        for key, name, data in _members(file, read=True):
            if row and row["__key__"] != key:
                yield row
                row = {}
            if name in row:
                raise CorruptFileError(
                    f"{file}: sample {key!r} has two files .{name}: rename one"
                ).at(file=file)
            row["__key__"] = key
            is_text = types[name] == "string"
            try:
                row[name] = data.decode() if is_text else data
            except UnicodeDecodeError as problem:
                raise CorruptFileError(
                    f"{file}: {key}.{name} is not UTF-8: {problem}"
                ).at(file=file) from problem
        if row:
            yield row


def write_samples(
    paths: Paths,
    folder: OutputFolder,
    *,
    shard_bytes: int,
    page_bytes: int,
    compression: Compression,
) -> tuple[list[str], int]:
    """Write samples as rows of Parquet; return the files and the number of rows.

    A killed call that starts again keeps its finished files.

    Raises:
        InvalidArgumentError: If the paths hold no samples, or the folder is of another
            job.
        CorruptFileError: If an input cannot be read.
    """
    arrow = require("pyarrow", extra="pyarrow", purpose="Parquet files")
    files, types, rows = samples_of(paths)
    kinds = {"string": arrow.string(), "binary": arrow.binary()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in types.items()])
    settings = {
        "inputs": [[file, Storage().size(file)] for file in files],
        "columns": types,
        "shard_bytes": shard_bytes,
        "compression": compression,
    }
    out = ShardFolder(folder, settings, FILES)
    manifest, _ = begun_job(folder, settings)
    shards = [] if manifest is None else manifest["shards"]
    if manifest is None:
        with out.claimed(LOCK), Work("samples", total=0, unit="rows") as work:
            shards = out.finished_first()
            with reading_job(folder):
                num_done = sum(shard["rows"] for shard in shards)
                rows = itertools.islice(rows, num_done, None)
            groups = _groups(rows, min(GROUP_BYTES, shard_bytes))
            while (first := next(groups, None)) is not None:
                name = f"part-{len(shards):05}.parquet"
                with ListSink(
                    folder.writer(name),
                    {},
                    schema,
                    compression=compression,
                    page_bytes=page_bytes,
                ) as sink:
                    count = size = 0
                    for group, num_bytes in itertools.chain([first], groups):
                        sink.end_group(arrow.Table.from_pylist(group, schema))
                        count, size = count + len(group), size + num_bytes
                        work.advance(len(group))
                        if size >= shard_bytes:
                            break
                    folder.check_claim()
                shards.append(sink.output.record(name) | {"rows": count})
                out.finish_shard(len(shards) - 1, shards[-1:])
            out.finish("pagefeed samples", shards)
    return [folder.path_of(s["file"]) for s in shards], sum(s["rows"] for s in shards)


def _groups(rows: Iterator[Row], most: int) -> Iterator[tuple[list[Row], int]]:
    """Yield rows of a row group, and their bytes."""
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value or "") for value in row.values())
        if size >= most:
            yield group, size
            group, size = [], 0
    if group:
        yield group, size
