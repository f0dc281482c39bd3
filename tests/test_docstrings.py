"""The examples of docstrings run, those too that a reader's doctest skips."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import flat_files
from made.optional import torch
from made.tables import rows_table, write_delta, write_iceberg

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = [
    "pagefeed",
    *sorted(
        module.name
        for module in pkgutil.walk_packages(pf.__path__, "pagefeed.")
        if not module.name.endswith(("._core", ".__main__"))
    ),
]


def examples() -> Iterator[Any]:
    finder, docstrings = doctest.DocTestFinder(exclude_empty=True), set[str | None]()
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except pf.errors.MissingDependencyError:
            continue
        for found in finder.find(module, name):
            # What a module exports may be found there too, as other tests import it.
            if found.examples and found.docstring not in docstrings:
                docstrings.add(found.docstring)
                yield pytest.param(found, id=found.name.removeprefix("pagefeed."))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the examples name it: corpus/web, corpus/code and other formats."""
    folder: Path = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)
    tokens = [rng.integers(5, 99, 300).tolist() for _ in range(400)]
    table = pa.table(
        {
            "input_ids": pa.array(tokens, pa.list_(pa.int32())),
            "quality": np.linspace(0, 1, 400),
            "quality_score": np.linspace(0, 1, 400),
            "perplexity": np.linspace(9, 99, 400),
            "lang": ["en", "de"] * 200,
            "url": [f"https://site.example/{number}" for number in range(400)],
        }
    )
    for name in ("web", "code"):
        (folder / "corpus" / name).mkdir(parents=True)
        pq.write_table(table, folder / "corpus" / name / "part-0.parquet")
    for write in flat_files.KINDS.values():
        write(folder / "corpus", flat_files.some_documents(longest=50))
    texts = [f"Of the {n}th part, and of what it holds: {n * n}." for n in range(400)]
    said = pa.table({"text": texts, "url": texts, "lang": ["en", "de"] * 200})
    for name in ("web", "law"):
        (folder / name).mkdir()
        pq.write_table(said, folder / name / "part-0.parquet")
    pf.prepare.train_tokenizer(
        pf.parquet(folder / "web", column="text"),
        folder / "tokenizer.json",
        vocab_size=300,
    )
    return folder


def loader_of(data: Any, **options: Any) -> pf.Loader:
    fields: Final = ("input_ids", "labels", "document_ids", "cu_seqlens", "max_seqlen")
    settings: dict[str, Any] = {"sequences": pf.Windows(64), "batch_size": 2}
    return pf.Loader(data, fields=fields, **settings | options)


@pytest.fixture(scope="module")
def names(corpus: Path) -> dict[str, Any]:
    """What the examples use without making it."""
    web, code = (
        pf.parquet(corpus / "corpus" / name, column="input_ids")
        for name in ("web", "code")
    )
    mixed = pf.mix({"web": (web, 0.7), "code": (code, 0.3)}, max_steps=1000)
    return {name: getattr(pf, name) for name in pf.__all__} | {
        "np": np,
        "pyarrow": pa,
        "pagefeed": pf,
        "torch": torch,
        "Leg": pf.reports.Leg,
        "web": web,
        "code": code,
        "dataset": web,
        "loader": loader_of(mixed),
        "state": loader_of(web).view().run.initial,
        "train": lambda _batch: None,
    }


def of_one_dataset(names: dict[str, Any]) -> dict[str, Any]:
    return {"loader": loader_of(names["web"])}


def of_fleet(names: dict[str, Any]) -> dict[str, Any]:
    loader = loader_of(names["web"], batch_size=None, global_batch_size=8)
    return {"loader": loader, "model": lambda batch: batch["labels"].mean()}


def of_attention(names: dict[str, Any]) -> dict[str, Any]:
    """A batch of tensors, and what the examples take from torch and elsewhere."""
    attend = torch.nn.functional.scaled_dot_product_attention
    loader = loader_of(names["web"], format="torch", sequences=pf.Windows(16))
    batch = next(iter(loader))
    return {
        "batch": batch,
        "ids": torch.zeros((8, 2048), dtype=torch.int32),
        "q": batch,
        "k": batch,
        "v": batch,
        "scaled_dot_product_attention": attend,
        # One takes half a minute to import, the other runs on a GPU only.
        "create_block_mask": lambda mask, **_: mask(*torch.zeros(4, dtype=torch.int64)),
        "flash_attn_varlen_func": lambda _q, _k, _v, *, cu_seqlens_q, **_: cu_seqlens_q,
    }


def of_extension(_names: dict[str, Any]) -> dict[str, Any]:
    """Two tokenizers, one an extension of the other."""
    old = pf.Tokenizer("tokenizer.json")
    law = pf.parquet("law", column="text")
    pf.prepare.extend_tokenizer(old, law, "extended.json", new_tokens=8)
    return {"tok": old, "extended": pf.Tokenizer("extended.json")}


def of_export(names: dict[str, Any]) -> dict[str, Any]:
    """A loader of an epoch, without fields that are of a whole batch."""
    cut = pf.Windows(2048)
    return {"loader": pf.Loader(names["web"], sequences=cut, batch_size=2)}


def of_comparison(_names: dict[str, Any]) -> dict[str, Any]:
    for copy in ("a.json", "b.json"):
        shutil.copy("tokenizer.json", copy)
    return {}


def of_delta(_names: dict[str, Any]) -> dict[str, Any]:
    write_delta(Path("corpus/delta"), [rows_table(0, 9)])
    return {}


def of_iceberg(_names: dict[str, Any]) -> dict[str, Any]:
    """A table in a catalog of SQLite."""
    Path("corpus").mkdir()
    write_iceberg(Path("corpus").absolute(), [rows_table(0, 9)])
    return {}


OTHER_NAMES = {
    "delta": of_delta,
    "iceberg": of_iceberg,
    "extend_embeddings": of_extension,
    "export": of_export,
    "compare_tokenizers": of_comparison,
    "forecast": of_one_dataset,
    "plan": of_one_dataset,
    "at": of_fleet,
    "varlen_arguments": of_attention,
    "flex_mask": of_attention,
    "check_isolation": of_attention,
}


@pytest.mark.parametrize("example", list(examples()))
def test_examples_of_docstrings_run(example, corpus, names, monkeypatch, tmp_path):
    made, name = names, example.name.rpartition(".")[2]
    # Files of tables have other columns than the corpus that other examples read.
    monkeypatch.chdir(tmp_path if name in {"delta", "iceberg"} else corpus)
    if name in OTHER_NAMES:
        made = names | OTHER_NAMES[name](names)
    own = {k: v for k, v in example.globs.items() if not isinstance(v, ModuleType)}
    scope = made | own
    checker = doctest.OutputChecker()
    for one in example.examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            kind = "single" if one.want else "exec"
            exec(compile(one.source, example.name, kind), scope)
        if one.want:
            assert checker.check_output(one.want, printed.getvalue(), OPTIONS), (
                f"{one.source}printed {printed.getvalue()!r}, not {one.want!r}"
            )
