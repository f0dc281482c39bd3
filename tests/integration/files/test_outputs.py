"""Whatever names an output is found by signature, and takes no URL for a local path."""

import ast
import importlib
import os
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
import pagefeed.cli
from made.flat_files import opened
from made.texts_made import make_tokenizer
from pagefeed.cli import main
from pagefeed.dataset import write_index
from pagefeed.errors import (
    CacheWarning,
    FileAccessError,
    InvalidArgumentError,
    PagefeedError,
)
from pagefeed.flat import FLAT_FORMATS, FlatName
from servers.refusing_store import refusing

PACKAGE = Path(pf.__file__).parent
COLUMN: Any = {"column": "input_ids"}

INPUTS = {"checkpoint", "file", "folders", "index", "inputs", "paths", "prefixes"}
"""Arguments that name what is read."""
READ = {
    *("delta.table", "iceberg.table", "check_index.output", "load_tokenizer.path"),
    *("PagefeedDataLoader.work_dir", "save.folder", "convert.dataset"),
    *("Dataset.cache_dir", "Columns.cache_dir", "cache_folder.given", "rows.rows"),
    *("dataset_of.cache_dir",),
}
"""The same of one function; folders of OLMo's and Ray's own; what is handed on."""


class Output(NamedTuple):
    """How an output is written, and what it may be."""

    write: Callable[[Any, Any], object]
    """Takes path and settings of remote storage."""
    buckets: bool = False
    is_file: bool = False
    end: str = ""
    """How its name must end."""


def index_of(dataset: Any) -> object:
    return dataset.index


def cached(name: str, path: Any, _: object) -> object:
    """The index of flat files that are called as their format."""
    return index_of(opened(name, name, cache_dir=path))


def texts() -> Any:
    return pf.parquet("a.parquet", column="text")


def extended(path: Any, options: Any) -> object:
    extend = pf.prepare.extend_tokenizer
    more: Any = {"new_tokens": 1, "min_gain": 1, "storage_options": options}
    return extend(make_tokenizer(), texts(), path, **more)


OUTPUTS = {
    "convert.output": Output(
        lambda path, options: pf.convert(
            pf.parquet("a.parquet", **COLUMN),
            path,
            to="parquet",
            storage_options=options,
        ),
        buckets=True,
    ),
    "convert.output of a stream": Output(
        lambda path, _: pf.convert(pf.parquet("a.parquet", **COLUMN), path, to="stream")
    ),
    "tokenize.output": Output(
        lambda path, options: pf.tokenize(
            "a.jsonl", path, tokenizer=make_tokenizer(), storage_options=options
        ),
        buckets=True,
    ),
    "export.output": Output(
        lambda path, options: pf.export(
            pf.Loader(
                pf.parquet("a.parquet", **COLUMN),
                sequences=pf.Windows(2),
                batch_size=1,
                rank=0,
                world_size=1,
            ),
            path,
            storage_options=options,
        ),
        buckets=True,
    ),
    "stage.output": Output(
        lambda path, _: pf.prepare.stage(pf.parquet("a.parquet", **COLUMN), path)
    ),
    "write_index.output": Output(
        lambda path, options: write_index(
            "a.parquet", path, **COLUMN, storage_options=options
        ),
        buckets=True,
    ),
    "StreamWriter.folder": Output(lambda path, _: pf.StreamWriter(path, dtype="u2")),
    "train_tokenizer.output": Output(
        lambda path, options: pf.prepare.train_tokenizer(
            texts(), path, vocab_size=260, storage_options=options
        ),
        buckets=True,
        is_file=True,
    ),
    "extend_tokenizer.output": Output(extended, buckets=True, is_file=True),
    "PageIndex.build.cache_dir": Output(
        lambda path, _: pf.PageIndex.build("a.parquet", **COLUMN, cache_dir=path)
    ),
    "parquet.cache_dir": Output(
        lambda path, _: index_of(pf.parquet("a.parquet", **COLUMN, cache_dir=path))
    ),
    "arrow.cache_dir": Output(
        lambda path, _: index_of(pf.arrow("a.arrow", **COLUMN, cache_dir=path))
    ),
    "rows.cache_dir": Output(lambda path, _: pf.rows("a.jsonl", cache_dir=path).index),
    **{
        f"{reader.__name__}.cache_dir": Output(partial(cached, name))
        for name, (reader, _) in FLAT_FORMATS.items()
    },
}


def named(of: str, arguments: list[ast.arg]) -> Iterator[str]:
    for one in arguments:
        told = "" if one.annotation is None else ast.unparse(one.annotation)
        if "PathLike" in told or "Paths" in told:
            yield f"{of}.{one.arg}"


def paths_of(path: Path) -> Iterator[str]:
    """Yield the arguments that are paths, of whatever a module gives to others."""
    nodes: list[tuple[str, ast.AST]] = [("", ast.parse(path.read_text()))]
    while nodes:
        of, node = nodes.pop()
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                nodes.append((f"{each.name}.", each))
            elif isinstance(each, ast.FunctionDef):
                is_hidden = each.name.startswith("_") and each.name != "__init__"
                given = [*each.args.args, *each.args.kwonlyargs]
                name = (
                    of.removesuffix(".") if each.name == "__init__" else of + each.name
                )
                yield from () if is_hidden else named(name, given)
            elif isinstance(each, ast.AnnAssign) and of:
                field = ast.arg(ast.unparse(each.target), each.annotation)
                yield from named(of.removesuffix("."), [field])


def opens_files(path: Path) -> bool:
    """Whether it is a part of storage, which opens what others name."""
    is_remote = path.parent.name == "remote" and "index" not in path.name
    return is_remote or "storage" in path.parts


def test_every_argument_that_is_a_path_is_known():
    modules = [p for p in PACKAGE.rglob("*.py") if not opens_files(p)]
    found = {name for module in modules for name in paths_of(module)}
    outputs = {n for n in found if n.rpartition(".")[2] not in INPUTS} - READ
    assert outputs == {name.partition(" ")[0] for name in OUTPUTS}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PAGEFEED_CACHE_DIR", raising=False)
    table = pa.table({"input_ids": [[1, 2, 3]] * 9, "text": ["ab cd ab"] * 9})
    pq.write_table(table, "a.parquet")
    with pa.OSFile("a.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    Path("a.jsonl").write_text('{"text": "words"}\n' * 9)
    data = pf.parquet("a.parquet", **COLUMN)
    for to in get_args(FlatName):
        pf.convert(data, to, to=to, dtype="uint16")
    return tmp_path


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "azure")
SCHEMES = (*BUCKETS, "http", "https", "hf", "ftp", "S3")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_url_is_no_folder(scheme: str):
    """It is written to as a bucket, or refused by the name of the argument."""
    before = sorted(os.walk("."))
    with refusing(403, "AccessDenied") as store:
        settings = {
            "endpoint_url": store.options["endpoint_url"],
            "aws_region": "here",
            "azure_storage_account_name": "account",
            "skip_signature": True,
            "allow_http": True,
            "deadline": 2,
        }
        for name, output in OUTPUTS.items():
            url = f"{scheme}://bucket/secret/out{output.end}"
            argument = name.partition(" ")[0].rpartition(".")[2]
            with pytest.raises(PagefeedError) as told:
                output.write(url, settings)
            if output.buckets and scheme in BUCKETS:
                assert f"{scheme}://bucket/" in str(told.value), name
                assert isinstance(told.value, FileAccessError), name
            else:
                assert f"{argument} is a URL, {scheme}://" in str(told.value), name
                assert "secret" not in str(told.value)
            assert sorted(os.walk(".")) == before, name


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_there_is_no_output_of_another_kind(name: str, here: Path):
    output = OUTPUTS[name]
    place = Path(f"there{output.end}")
    if output.is_file:
        place.mkdir()
    else:
        place.write_bytes(b"mine")
    before = contents()
    for path in (place, f"file://{here / place}"):
        if name.endswith("cache_dir"):  # A cache is done without, with a warning.
            with warnings.catch_warnings(action="ignore", category=CacheWarning):
                output.write(path, None)
        else:
            with pytest.raises((FileAccessError, InvalidArgumentError)):
                output.write(path, None)
        assert contents() == before


OPTIONS = {"--cache-dir", "--output", "--facts", "--data", "--folder"}
RUN = ["a.parquet", "--column", "input_ids", "--length", "2"]
VERBS = {
    ("check", "--facts"): RUN,
    ("convert", "--output"): [*RUN[:3], "--to", "parquet"],
    ("demo", "--data"): [],
    ("demo", "--folder"): [],
    ("export", "--output"): RUN,
    ("index", "--output"): RUN[:3],
    ("report", "--output"): RUN,
    ("stage", "--output"): RUN,
    ("tokenize", "--output"): ["a.jsonl", "--tokenizer", "tokenizer.json"],
    ("tokenizer extend", "--output"): [
        "tokenizer.json",
        "a.parquet",
        "--column",
        "text",
    ],
    ("tokenizer train", "--output"): [
        *("a.parquet", "--column", "text", "--vocab-size", "260")
    ],
}


LOCAL = ("check", "demo")
"""Verbs whose outputs are of this machine."""


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    for one in pkgutil.walk_packages(pagefeed.cli.__path__, "pagefeed.cli."):
        found = getattr(importlib.import_module(one.name), "ARGUMENTS", None)
        if found is not None:
            verb = one.name.removeprefix("pagefeed.cli.").replace(".", " ")
            yield verb, found


def test_every_option_that_is_an_output_is_known():
    found = {(verb, name) for verb, table in tables() for name in OPTIONS & {*table}}
    with_cache = {verb for verb, name in found if name == "--cache-dir"}
    inputs = {("tokenizer compare", "--data")}
    assert found - {(verb, "--cache-dir") for verb in with_cache} - inputs == {*VERBS}
    read = {"--chat-template", "--state", "--compare", "--tokenize", "--tokenizer"}
    for verb, table in tables():
        for name, given in table.items():
            if given.get("metavar") in ("FILE", "FOLDER") and name.startswith("-"):
                assert name in OPTIONS | read, (verb, name)


@pytest.mark.parametrize("option", VERBS, ids=" ".join)
def test_an_option_takes_no_url_for_a_path(option: tuple[str, str], capsys):
    verb, name = option
    Path("tokenizer.json").write_text(make_tokenizer().to_json())
    before = sorted(os.walk("."))
    buckets = ["s3://secret/a.svg?X-Amz-Signature=a"] * (verb in LOCAL)
    for url in ("https://host/secret/a.svg?sig=abc", "hf://secret/a.svg", *buckets):
        assert main([*verb.split(), *VERBS[option], name, url]) == 2
        told = capsys.readouterr().err
        assert "is a URL" in told
        assert "secret" not in told
        assert sorted(os.walk(".")) == before
