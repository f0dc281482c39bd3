"""What is exported is what the loader gives, in the order of all ranks, once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError, PagefeedError, TokenRangeError
from pagefeed.prepare.exporting import job
from pagefeed.remote import FileWriter

FIELDS = (
    *("input_ids", "labels", "position_ids", "document_ids", "doc_lens"),
    *("attention_mask", "loss_mask", "dataset_ids"),
)
ONE: Any = {"rank": 0, "world_size": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(3)
    for name, first in (("a", 0), ("b", 40_000)):
        lengths = rng.integers(1, 50, 300).tolist()
        rows = [list(range(first, first + n)) for n in lengths]
        weights = [[0.5] * n for n in lengths]
        texts = [f"{name}{n}é" for n in range(300)]
        columns = {
            "input_ids": pa.array(rows, pa.list_(pa.int32())),
            "weights": pa.array(weights, pa.list_(pa.float32())),
            "text": texts,
            "image": [text.encode() for text in texts],
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=90)
    return folder


def opened(data: Path, name: str, **more: Any) -> Any:
    return pf.parquet(data / f"{name}.parquet", column="input_ids", **more)


def mixed(data: Path, **more: Any) -> pf.Loader:
    parts = {
        name: (opened(data, name, aligned=["weights"]), weight)
        for name, weight in (("a", 0.6), ("b", 0.4))
    }
    settings: Any = {"batch_size": 4, "fields": FIELDS, "seed": 5} | ONE | more
    cut = settings.pop("cut", pf.Packed(32, eos=1))
    return pf.Loader(pf.mix(parts, max_steps=9), sequences=cut, **settings)


def plain(data: Path, **more: Any) -> pf.Loader:
    settings: Any = {"batch_size": 4, "seed": 5, "fields": ["input_ids"]} | ONE | more
    cut = settings.pop("cut", pf.Windows(32))
    return pf.Loader(opened(data, "a"), sequences=cut, **settings)


def delivered(loader: pf.Loader, name: str) -> list[Any]:
    """The rows of a field, without padding of the last step."""
    rows: list[Any] = []
    view = loader.view()
    for batch in loader:
        kept = view.last_datasets() >= 0
        some = [row for row, is_kept in zip(batch[name], kept, strict=True) if is_kept]
        rows += [row.tolist() if hasattr(row, "tolist") else row for row in some]
    return rows


def trimmed(name: str, rows: list[Any]) -> list[Any]:
    return [[n for n in row if n] for row in rows] if name == "doc_lens" else rows


def read(done: Any, name: str) -> list[Any]:
    """The rows of a field in the files, by the library of their format."""
    if done.files[0].endswith(".parquet"):
        return [
            row for file in done.files for row in pq.read_table(file)[name].to_pylist()
        ]
    paths = [Path(file) for file in done.files if Path(file).stem[:-6] == name]
    if paths[0].suffix == ".npy":
        return [row for path in paths for row in np.load(path).tolist()]
    shards = json.loads(Path(done.manifest).read_text())["shards"]
    shapes = [shard["shape"] for shard in shards if shard["file"].startswith(name)]
    kind = done.dtype if name == "input_ids" else "int32"
    both = zip(paths, shapes, strict=True)
    return [
        r for p, shape in both for r in np.fromfile(p, kind).reshape(shape).tolist()
    ]


@pytest.mark.parametrize("to", ["parquet", "npy", "raw"])
def test_every_field_is_that_of_the_loader(data, tmp_path, to):
    names = FIELDS if to != "raw" else ("input_ids", "labels", "doc_lens")
    done = pf.export(mixed(data, fields=names), tmp_path / "out", to=to, shard_size=999)
    assert (done.num_steps, done.num_sequences) == (9, 36)
    assert len(done.files) > 2 * (1 if to == "parquet" else len(names))
    for name in (*names, *(("weights",) if to != "raw" else ())):
        want = trimmed(name, delivered(mixed(data, fields=names), name))
        assert trimmed(name, read(done, name)) == want, name
    assert not list(tmp_path.rglob(".*"))


LOADERS: dict[str, Any] = {
    "windows": {},
    "padded last step": {"drop_last": False, "batch_size": 7},
    "two epochs": {"epochs": 2},
    "row": {"shuffle": "row"},
    "torch": {"format": "torch"},
    "fleet": {"batch_size": None, "global_batch_size": [(0, 3), (4, 6)]},
    "budget": {"batch_size": None, "batch_tokens": 200},
    "balanced": {"balance": "attention", "cut": pf.Packed(32)},
    "int32": {"dtype": "int32"},
}


@pytest.mark.parametrize("kind", LOADERS)
def test_any_loader_is_written_in_its_order(data, tmp_path, kind):
    want = delivered(plain(data, **LOADERS[kind]), "input_ids")
    loader = plain(data, **LOADERS[kind])
    done = pf.export(loader, tmp_path / "out", to="npy", shard_size=700)
    assert read(done, "input_ids") == want
    assert done.num_sequences == len(want)
    assert loader.step == 0, "the loader moved"
    next_epoch = plain(data, **LOADERS[kind])
    next_epoch.load_state_dict(done.state)
    both = plain(data, **LOADERS[kind])
    list(both)
    got, follows = (delivered(x, "input_ids") for x in (next_epoch, both))
    assert (got or delivered(next_epoch, "input_ids")) == follows


def test_of_any_rank_all_ranks_are_written(data, tmp_path):
    ranks = [plain(data, rank=rank, world_size=3, batch_size=2) for rank in range(3)]
    rows = [
        [r.tolist() for r in b["input_ids"]]
        for s in zip(*ranks, strict=True)
        for b in s
    ]
    steps = [rows[n : n + 3] for n in range(0, len(rows), 3)]
    want = [step[rank][row] for step in steps for row in range(2) for rank in range(3)]
    one = plain(data, rank=1, world_size=3, batch_size=2)
    done = pf.export(one, tmp_path / "out", shard_size=1000)
    assert read(done, "input_ids") == want


def test_it_begins_where_the_loader_is(data, tmp_path):
    loader = plain(data)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    loader.skip([8, 9])
    done = pf.export(loader, tmp_path / "out", shard_size=1000)
    want = [row.tolist() for batch in batches for row in batch["input_ids"]]
    assert read(done, "input_ids") == want


def test_rows_of_any_columns_and_what_a_transform_adds(data, tmp_path):
    def add(batch: Any) -> Any:
        count = len(batch["text"])
        return batch | {"many": np.arange(count * 6.0).reshape(count, 3, 2)}

    cut = pf.Documents(columns=["text", "image"])
    loader = plain(data, cut=cut, transform=add, fields=None)
    done = pf.export(loader, tmp_path / "out", shard_size=1000)
    want = delivered(plain(data, cut=cut, fields=None), "text")
    assert read(done, "text") == want
    assert read(done, "image") == [text.encode() for text in want]
    assert read(done, "many")[0] == [[0, 1], [2, 3], [4, 5]]
    assert len(done.files) > 1


def test_what_cannot_be_written_is_refused_before_anything_is(data, tmp_path):
    text = pf.parquet(data / "a.parquet", column="text")
    tokenizer = pf.Tokenizer(lambda text: list(text.encode()), vocab_size=256)
    uncounted: Any = pf.TextLoader(
        text, tokenizer, sequences=pf.Packed(32), batch_size=2, **ONE
    )
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (uncounted, {}, "Loader"),
        ([1], {}, "Loader"),
        (plain(data, epochs=None), {}, "never ends"),
        (plain(data, fields=["cu_seqlens", "input_ids"]), {}, "cu_seqlens"),
        (plain(data), {"to": "csv"}, "csv"),
        (plain(data), {"dtype": "int64"}, "32 bits"),
        (plain(data), {"shard_size": "much"}, "shard_size"),
        (plain(data), {"compression": "lzo"}, "lzo"),
        (plain(data), {"num_threads": -1}, "num_threads"),
        (plain(data), {"engine": "dask"}, "dask"),
        (
            plain(data, balance="attention", epochs=2, cut=pf.Packed(32), world_size=3),
            {},
            "epochs=1",
        ),
    ]
    for loader, more, said in cases:
        with pytest.raises(PagefeedError, match=said):
            pf.export(loader, tmp_path / "out", **more)
        assert not (tmp_path / "out").exists(), said


def test_what_does_not_fit_leaves_no_file(data, tmp_path):
    big = plain(data, transform=lambda b: b | {"input_ids": b["input_ids"] + 99_999})
    with pytest.raises(TokenRangeError, match="wider dtype"):
        pf.export(big, tmp_path / "out", dtype="uint16")
    texts = plain(data, cut=pf.Documents(columns=["text"]), fields=None)
    with pytest.raises(InvalidArgumentError, match="to='parquet'"):
        pf.export(texts, tmp_path / "text", to="npy")
    fewer = plain(data, transform=lambda b: {"input_ids": b["input_ids"][:2]})
    with pytest.raises(InvalidArgumentError, match="no row for each"):
        pf.export(fewer, tmp_path / "fewer")
    assert not [p for p in tmp_path.rglob("*") if p.suffix in (".parquet", ".npy")]


@pytest.mark.parametrize("to", ["parquet", "npy"])
def test_stopped_anywhere_and_started_again_the_files_are_the_same(
    data, tmp_path, monkeypatch, to
):
    settings: Any = {"to": to, "shard_size": 3000, "num_threads": 2}
    monkeypatch.setattr(job, "_LEAST_MEMORY", 1 << 20)
    pf.export(mixed(data), tmp_path / "whole", **settings)
    commit, left = FileWriter.commit, [0]

    def stopped(file: FileWriter) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise InterruptedError
        commit(file)

    monkeypatch.setattr(FileWriter, "commit", stopped)
    for number in range(60):
        left[0] = 5 * number % 23
        try:
            pf.export(mixed(data), tmp_path / "out", **settings)
        except InterruptedError:
            continue
        break
    assert number > 1
    same = [
        {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()}
        for name in ("whole", "out")
    ]
    assert same[0] == same[1]


def test_another_export_is_refused_and_the_same_is_done(data, tmp_path):
    out = tmp_path / "out"
    done = pf.export(plain(data), out, shard_size=1000)
    assert pf.export(plain(data), out, shard_size=1000) == done
    for other, more in (
        (plain(data, seed=6), {}),
        (plain(data, batch_size=5), {}),
        (plain(data, transform=dict), {}),
        (plain(data, cut=pf.Windows(16)), {}),
        (plain(data, fields=None), {}),
        (plain(data), {"shard_size": 2000}),
        (plain(data), {"to": "npy"}),
    ):
        with pytest.raises(InvalidArgumentError, match="another job"):
            pf.export(other, out, **{"shard_size": 1000} | more)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("")
    with pytest.raises(InvalidArgumentError, match="other files"):
        pf.export(plain(data), tmp_path / "full")


def test_a_full_disk_is_refused_before_it_begins(data, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(PagefeedError, match="has room for 1000 B"):
        pf.export(plain(data), tmp_path / "out", to="raw")
    assert not list((tmp_path / "out").iterdir())
