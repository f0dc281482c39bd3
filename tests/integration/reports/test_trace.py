"""`trace` says of every row what was delivered, and where that lies in the files."""

import json
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader, write_numbered
from models.mixing import mixture, staged, write_datasets
from pagefeed.cli import main

STEPS = 20
SEPARATOR = 10**7


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    return write_datasets(tmp_path_factory.mktemp("mixed"))


def one_of_several(data: Any, **options: Any) -> pf.Loader:
    return numbered_loader(data, rank=1, world_size=2, epochs=3, **options)


def resumed(data: Any) -> pf.Loader:
    first = one_of_several(data)
    for _ in islice(first, 7):
        pass
    first.skip([9, 10])
    loader = one_of_several(data)
    loader.load_state_dict(json.loads(json.dumps(first.state_dict())))
    return loader


LOADERS = {
    "windows": lambda folder, _: one_of_several(folder),
    "separators": lambda folder, _: one_of_several(
        folder, sequences=pf.Windows(LENGTH, eos=SEPARATOR, bos=SEPARATOR + 1)
    ),
    "packed": lambda folder, _: one_of_several(
        folder, sequences=pf.Packed(LENGTH, eos=SEPARATOR)
    ),
    "documents": lambda folder, _: one_of_several(
        folder, sequences=pf.Documents(max_length=40)
    ),
    "selected": lambda folder, _: one_of_several(
        pf.parquet(folder, column="input_ids").split(a=0.5, b=0.5)["a"]
    ),
    "mixed": lambda _, datasets: numbered_loader(mixture(datasets), epochs=None),
    "stages, packed": lambda _, datasets: numbered_loader(
        staged(datasets, max_steps=200), sequences=pf.Packed(LENGTH)
    ),
    "resumed": lambda folder, _: resumed(folder),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_all_rows_of_random_batches_are_as_delivered(kind, folder, datasets):
    loader = LOADERS[kind](folder, datasets)
    first = loader.step
    delivered, batches = {}, iter(loader)
    for _ in range(60):
        step = loader.step
        delivered[step] = next(batches)["input_ids"].copy()
    steps = np.random.default_rng(3).choice(sorted(delivered), STEPS, replace=False)
    tables: dict[str, Any] = {}
    for step in steps.tolist():
        rows = pf.trace(loader, step)
        assert [row.row for row in rows] == list(range(4))
        for row in rows:
            held = delivered[step][row.row]
            assert row.tokens is not None
            assert (row.step, row.rank) == (step, loader.rank)
            assert held[: len(row.tokens)].tolist() == row.tokens
            assert (held[len(row.tokens) :] == -1).all()
            for part in row.segments:
                origin = part.origin
                if origin.file not in tables:
                    tables[origin.file] = pq.read_table(origin.file)["input_ids"]
                begin, num_tokens = origin.first_token, origin.num_tokens
                if kind == "documents":  # Cut to max_length.
                    num_tokens = min(num_tokens, 40)
                end = begin + num_tokens
                assert part.tokens == tables[origin.file][origin.row].as_py()[begin:end]
            # Nothing is left out but separators and padding.
            named = sum(len(part.tokens or ()) for part in row.segments)
            separators = (-1, SEPARATOR, SEPARATOR + 1)
            assert named == sum(token not in separators for token in row.tokens)
    assert first <= steps.min()


def test_a_number_of_each_row_is_shown(tmp_path):
    numbers = pa.array(range(50), pa.int32())
    pq.write_table(pa.table({"input_ids": numbers}), tmp_path / "a.parquet")
    data = pf.parquet(tmp_path, column="input_ids")
    loader = pf.Loader(data, sequences=pf.Documents(), batch_size=1, shuffle="row")
    [row] = pf.trace(loader, step=4)
    [_, _, _, _, batch, *_] = loader
    assert row.tokens == batch["input_ids"].tolist()
    assert [row.segments[0].origin.row] == row.tokens


def test_tracing_leaves_a_running_loader_alone(folder):
    loader, other = numbered_loader(folder), numbered_loader(folder)
    for batch, same in zip(loader, other, strict=True):
        assert (batch["input_ids"] == same["input_ids"]).all()
        pf.trace(loader, loader.step - 1, 0)
        list(pf.reports.replay(loader, [0]))


def test_steps_are_made_again_exactly(folder):
    fields = ("input_ids", "labels", "position_ids", "cu_seqlens")
    options: dict[str, Any] = {
        "fields": fields,
        "sequences": pf.Packed(LENGTH),
        "transform": lambda batch: batch | {"twice": batch["input_ids"] * 2},
    }
    loader = one_of_several(folder, **options)
    delivered = [
        {k: np.copy(v) for k, v in batch.items()} for batch in islice(loader, 30)
    ]
    found = list(pf.reports.replay(loader, [3, 4, 5, 20]))
    assert [step for step, _ in found] == [3, 4, 5, 20]
    for step, batch in found:
        assert batch.keys() == delivered[step].keys()
        assert all((batch[k] == delivered[step][k]).all() for k in batch)


def test_skipped_steps_are_not_made_again(folder):
    loader = resumed(folder)
    assert [step for step, _ in pf.reports.replay(loader, range(8, 13))] == [8, 11, 12]
    with pytest.raises(pf.errors.InvalidArgumentError, match="skipped"):
        pf.trace(loader, 9)


RUN = ["--column", "input_ids", "--length", str(LENGTH), "--batch-size", "4"]


def test_the_command_line_traces(folder, tmp_path, capsys):
    run = ["trace", str(folder), *RUN, "--seed", "5", "--world-size", "2"]
    loader = numbered_loader(folder, world_size=2, rank=1, padding=0)
    batches = [np.copy(batch["input_ids"]) for batch in loader]
    assert main([*run, "--rank", "1", "--step", "6", "--row", "2", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["tokens"] == batches[6][2].tolist()
    # From the row to its document, and from the document to the row.
    origin = row["segments"][0]["origin"]
    document = f"{origin['file']}:{origin['row']}"
    assert main([*run, "--document", document, "--json"]) == 0
    slots = json.loads(capsys.readouterr().out)
    assert {"step": 6, "rank": 1, "row": 2} in slots
    # A state names the step that follows.
    other = numbered_loader(folder, world_size=2, rank=0, padding=0)
    for _ in islice(other, 6):
        pass
    state = tmp_path / "state.json"
    state.write_text(json.dumps(other.state_dict()))
    assert main([*run, "--rank", "1", "--state", str(state), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["tokens"] for row in rows] == batches[6].tolist()


def test_damage_is_told_and_the_rest_is_shown(tmp_path, capsys):
    write_numbered(tmp_path, write_page_checksum=True, write_page_index=True)
    where = pf.PageIndex.build(tmp_path / "part-0.parquet", "input_ids").locate(40)
    path = tmp_path / "part-0.parquet"
    data = bytearray(path.read_bytes())
    data[where.offset + where.compressed_size - 1] ^= 255
    path.write_bytes(data)
    run = ["trace", str(tmp_path), *RUN]
    row = f"{path}:{where.first_row}"
    assert main([*run, "--document", row, "--json"]) == 0
    slot = json.loads(capsys.readouterr().out)[0]
    assert main([*run, "--step", str(slot["step"]), "--json"]) == 1
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert len(rows) == 4
    assert [bool(row["damage"]) for row in rows].count(False) > 0
    assert rows[slot["row"]]["damage"]["page"] == where.page
    assert "DAMAGED: ChecksumError" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one of"),
        (["--step", "1", "--document", "a:1"], "give one of"),
        (["--document", "part"], "FILE:ROW"),
        (["--state", "nothing.json"], "not a JSON file"),
        (["--step", "1000000"], "not in this iteration"),
    ],
)
def test_wrong_words_are_told(words, message, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["trace", str(folder), *RUN, *words]) == 2
    assert message in capsys.readouterr().err
