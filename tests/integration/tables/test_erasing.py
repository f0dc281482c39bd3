"""Erased documents reach no batch; everything else keeps its place."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.flat_files import mds, megatron, stream
from made.shuffles import SHUFFLES
from made.texts_made import make_tokenizer
from models.field_model import model_fields
from pagefeed.core.sequences import with_erased
from pagefeed.dataset import PageIndex, ParquetDataset
from pagefeed.errors import (
    InvalidArgumentError,
    StateMismatchError,
)

PADDING = 7
ROWS, FILES = 100, 3
GONE = frozenset({0, 5, 6, 7, 40, 99, 100, 150, 299})
"""At ends of files, row groups and pages, and in a run."""
FIELDS: Any = (
    *("input_ids", "labels", "position_ids", "document_ids", "cu_seqlens"),
    *("max_seqlen", "doc_lens", "max_doc_lens", "attention_mask", "loss_mask"),
    "metadata",
)
SETTINGS = {
    "windows": pf.Windows(64),
    "separated": pf.Windows(64, eos=2, bos=1),
    "overlapping": pf.Windows(64, eos=2, overlap=24, tail="drop"),
    "by file": pf.Windows(50, eos=2, join="file"),
    "long": pf.Windows(1000),
    "packed": pf.Packed(64),
    "never split": pf.Packed(64, eos=2, bos=1, split="never"),
    "greedy": pf.Packed(64, eos=2, method="greedy", join="file"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Documents with an id, and tokens, labels and spans that tell it."""
    path: Path = tmp_path_factory.mktemp("erasing")
    lengths = np.random.default_rng(0).integers(0, 30, ROWS * FILES).tolist()
    lengths[40] = 200  # Over several sequences and pages.
    for file in range(FILES):
        numbers = range(file * ROWS, (file + 1) * ROWS)
        tokens = [[100 + n] * lengths[n] for n in numbers]
        labels = [[1000 + n] * lengths[n] for n in numbers]
        spans = [[{"start": 0, "end": lengths[n], "name": f"s{n}"}] for n in numbers]
        columns = {
            "id": pa.array(numbers, pa.int64()),
            "tokens": pa.array(tokens, pa.list_(pa.int32())),
            "weights": pa.array(labels, pa.list_(pa.int64())),
            "marks": spans,
        }
        pq.write_table(
            pa.table(columns),
            path / f"{file}.parquet",
            row_group_size=40,
            data_page_size=300,
            write_batch_size=8,
        )
    return path


def data_of(folder: Path, **options: Any) -> ParquetDataset:
    wanted: dict[str, Any] = {"column": "tokens", "metadata": ["id"], **options}
    return pf.parquet(folder, **wanted)


def erased(data: ParquetDataset) -> ParquetDataset:
    """By both ways, in two calls."""
    some, others = sorted(GONE)[:4], sorted(GONE)[4:]
    by_file: dict[str, list[int]] = {}
    for number in others:
        by_file.setdefault(data.files[number // ROWS], []).append(number % ROWS)
    return data.erase(where=f"id in {some}").erase(rows=by_file)


def loader_of(data: Any, sequences: Any, **options: Any) -> pf.Loader:
    wanted = {"batch_size": 4, "seed": 3, "fields": FIELDS, "drop_last": False}
    wanted |= {"padding": PADDING, "rank": 0, "world_size": 1, **options}
    return pf.Loader(data, sequences=sequences, **wanted)


def parts_left(loader: pf.Loader, sequence: int, row: int) -> list[Any]:
    """Parts of documents in a sequence by the whole index, and which are erased."""
    run = loader.view().run
    whole, index = with_erased(run.indexes[0]), run.datasets[0].index
    found = []
    for page, page_row, _, count, offset in zip(*whole.parts(sequence), strict=True):
        number = int(index.first_rows([page])[0]) + int(page_row)
        found.append((number in GONE, (row, int(offset), int(count))))
    return found


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("across", [False, True])
def test_erased_tokens_are_padding_without_loss(folder, kind, across):
    weights = {"weights": pf.Aligned(carries_loss=False)}
    options = {"aligned": weights, "spans": ["marks"]}
    fields = pf.Fields(names=FIELDS, across_documents=across)
    before = loader_of(data_of(folder, **options), SETTINGS[kind], fields=fields)
    after = loader_of(erased(data_of(folder, **options)), SETTINGS[kind], fields=fields)
    assert len(after) == len(before)
    cursor, changed = before.view().run.at(before.view().position.now), []
    for step, (then, now) in enumerate(zip(before, after, strict=True)):
        tokens, weights = then["input_ids"].copy(), then["weights"].copy()
        parts, told = [], []
        for row, sequence in enumerate(cursor.sequences(step, 1).tolist()):
            found = parts_left(after, sequence, row) if sequence >= 0 else []
            parts += [part for is_gone, part in found if not is_gone]
            for is_gone, (_, offset, count) in found:
                if is_gone:
                    tokens[row, offset : offset + count] = PADDING
                    weights[row, offset : offset + count] = 0
            if any(is_gone for is_gone, _ in found):
                changed.append(sequence)
        told = [m for m in then["metadata"].to_pylist() if m["id"] not in GONE]
        assert now.pop("metadata").to_pylist() == told
        assert np.array_equal(now.pop("weights"), weights)
        assert np.array_equal(now["input_ids"], tokens)
        expected = model_fields(tokens, parts, shifted=False, across=across)
        for name, values in now.items():
            assert np.array_equal(values, expected[name]), name
    assert changed
    result = pf.verify(after)
    assert result.ok, result.problems
    assert result.num_erased == len(GONE)
    assert result.changed == sorted(changed)
    before.close()
    after.close()


@pytest.mark.parametrize("kind", ["windows", "packed"])
@pytest.mark.parametrize("across", [False, True])
def test_shifted_columns_have_numbers_where_labels_have_loss(folder, kind, across):
    shifted = {"weights": pf.Aligned(shifted=True)}
    fields = pf.Fields(names=("labels",), shifted=True, across_documents=across)
    data = erased(data_of(folder, aligned=shifted))
    with loader_of(data, SETTINGS[kind], fields=fields) as loader:
        for batch in loader:
            labels = batch["labels"]
            # Numbers are 900 above the tokens, and padding is 0.
            assert np.array_equal(
                batch["weights"], np.where(labels == -100, 0, labels + 900)
            )


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("kind", ["separated", "packed"])
def test_a_run_goes_on(folder, kind, shuffle):
    data, options = data_of(folder), {"shuffle": shuffle}
    whole = [*loader_of(data, SETTINGS[kind], **options)]
    begun = loader_of(data, SETTINGS[kind], **options)
    steps = iter(begun)
    for _ in range(3):
        next(steps)
    state = json.loads(json.dumps(begun.state_dict()))
    seen = begun.steps_of(data.files[0], 40)
    for world_size in (1, 2):
        ranks = [
            loader_of(
                erased(data), SETTINGS[kind], rank=r, world_size=world_size, **options
            )
            for r in range(world_size)
        ]
        for loader in ranks:
            loader.load_state_dict(state)
        if world_size == 1:
            assert ranks[0].steps_of(data.files[0], 40) == seen
        saved = ranks[0].state_dict()
        assert saved["erased"] == {"": saved["erased"][""]}
        assert saved["erased"][""].startswith(f"{len(GONE)} ")
        rows: list[Any] = []
        for batches in zip(*ranks, strict=True):
            found = [batch["input_ids"] for batch in batches]
            rows += np.stack(found, axis=1).reshape(-1, found[0].shape[1]).tolist()
        expected = [row for batch in whole[3:] for row in batch["input_ids"].tolist()]
        for now, then in zip(rows, expected, strict=False):
            same = np.array(now) == np.array(then)
            gone = np.isin(then, [100 + number for number in GONE])
            assert not same[gone].any()
            assert np.isin(np.array(then)[~same & ~gone], [1, 2]).all()
            assert (np.array(now)[~same] == PADDING).all()


def test_states_record_what_is_erased(folder):
    data = data_of(folder)
    first = data.erase(where="id == 5")
    second = first.erase(rows={data.files[1]: [50, 51]})
    sequences = pf.Windows(64)
    state = loader_of(first, sequences).state_dict()
    assert [*state["erased"]] == [""]
    later = loader_of(second, sequences)
    later.load_state_dict(state)
    assert later.state_dict()["erased"][""].startswith("3 ")
    again = data.erase(where="id in [5, 150, 151]")
    loader_of(again, sequences).load_state_dict(later.state_dict())
    for wrong in (data, data.erase(where="id == 6"), data.erase(where="id in [5, 6]")):
        with pytest.raises(StateMismatchError, match="1 documents were erased when"):
            loader_of(wrong, sequences).load_state_dict(state)
    # Nothing is recorded of rows that are not there.
    nothing = data.where("id != 5").erase(where="id == 5")
    assert "erased" not in loader_of(nothing, sequences).state_dict()
    for bad in ("no mapping", {"": 3}, {"": ""}):
        with pytest.raises(StateMismatchError, match="erased="):
            later.load_state_dict({**state, "erased": bad})


def test_documents_leave_empty_places(folder):
    data = erased(data_of(folder, aligned=["weights"]))
    padded = pf.Documents(max_length=16)
    names: Any = ("input_ids", "labels", "attention_mask", "metadata")
    then = [*loader_of(data_of(folder, aligned=["weights"]), padded, fields=names)]
    now = [*loader_of(data, padded, fields=names)]
    for before, after in zip(then, now, strict=True):
        known = {m["sequence"]: m["id"] for m in before["metadata"].to_pylist()}
        left = {m["sequence"]: m["id"] for m in after["metadata"].to_pylist()}
        assert left == {row: n for row, n in known.items() if n not in GONE}
        for row, number in known.items():
            if number in GONE:
                assert after["lengths"][row] == 0
                assert (after["input_ids"][row] == PADDING).all()
                assert (after["labels"][row] == -100).all()
                assert not after["weights"][row].any()
            else:
                length = after["lengths"][row]
                tokens = before["input_ids"][row, :length]
                assert np.array_equal(after["input_ids"][row, :length], tokens)
    rows = pf.Documents(columns=["id", "tokens"])
    ids: list[Any] = []
    for batch in loader_of(data, rows, fields=("input_ids",)):
        found = batch["id"]
        ids += found.tolist() if isinstance(found, np.ndarray) else found.to_pylist()
    assert ids.count(None) == len(GONE)
    assert {*ids} - {None} == {*range(ROWS * FILES)} - GONE
    assert pf.verify(loader_of(data, padded)).changed == sorted(GONE)


def test_selections_keep_their_places(folder):
    data = data_of(folder)
    odd = "id > 3 and id != 151"
    for one in (erased(data.where(odd)), erased(data).where(odd)):
        assert len(one) == ROWS * FILES - 5
        loader = loader_of(one, SETTINGS["separated"])
        found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
        assert not np.isin(found, [100 + n for n in GONE]).any()
        whole = loader_of(data.where(odd), SETTINGS["separated"])
        then = np.concatenate([batch["input_ids"].ravel() for batch in whole])
        left = ~np.isin(then, [100 + n for n in GONE]) & (found != PADDING)
        assert np.array_equal(found[left], then[left])
        assert pf.verify(loader).ok
    parts = erased(data).split(train=0.5, validation=0.5)
    states = [loader_of(p, SETTINGS["packed"]).state_dict() for p in parts.values()]
    counts = [int(state["erased"][""].split()[0]) for state in states]
    assert sum(counts) == len(GONE)


def test_mixtures(folder):
    web, code = data_of(folder), data_of(folder).where("id < 120")

    def mixed(*parts: Any) -> pf.Loader:
        names = ("web", "code")
        return loader_of(
            pf.mix(dict(zip(names, parts, strict=True)), max_steps=40),
            SETTINGS["packed"],
        )

    begun = mixed(web, code)
    steps = iter(begun)
    next(steps)
    state = begun.state_dict()
    now = mixed(erased(web), code)
    now.load_state_dict(state)
    pairs = zip(steps, now, strict=True)
    names = set()
    for then, after in pairs:
        differs = then["input_ids"] != after["input_ids"]
        names |= set(then["input_ids"][differs].tolist())
        assert (after["input_ids"][differs] == PADDING).all()
    assert names <= {100 + n for n in GONE}
    assert [*now.state_dict()["erased"]] == ["web"]
    with pytest.raises(StateMismatchError, match="9 documents of 'web' were erased"):
        mixed(web, code).load_state_dict(now.state_dict())
    # A mixture that has left the dataset out still knows, as it may come again.
    without = loader_of(pf.mix({"code": code}, max_steps=40), SETTINGS["packed"])
    without.load_state_dict(now.state_dict())
    assert without.state_dict()["erased"] == now.state_dict()["erased"]
    both = mixed(erased(web), erased(code))
    both.load_state_dict(now.state_dict())
    assert [*both.state_dict()["erased"]] == ["code", "web"]
    assert pf.verify(both).ok


def test_texts_are_erased(tmp_path):
    words = ["alpha", "beta", "gamma", "delta"]
    texts = [f"{words[n % 4]} {'secret' if n == 5 else n} " * 4 for n in range(40)]
    pq.write_table(pa.table({"text": texts, "id": range(40)}), tmp_path / "a.parquet")
    tokenizer = make_tokenizer()
    plain = pf.parquet(tmp_path, column="text", metadata=["id"])
    gone = plain.erase(where="id == 5").tokenize(tokenizer)
    also = plain.tokenize(tokenizer).erase(rows={plain.files[0]: [5]})
    states = []
    for data in (gone, also):
        loader = loader_of(data, pf.Windows(32, eos=0))
        for batch in loader:
            assert 5 not in {m["id"] for m in batch["metadata"].to_pylist()}
            for row in batch["input_ids"]:
                assert "secret" not in tokenizer.decode(row.tolist())
        states.append(loader.state_dict()["erased"])
    assert states[0] == states[1]
    with pytest.raises(InvalidArgumentError, match="select the others by where"):
        pf.TextLoader(
            plain.erase(where="id == 5"),
            tokenizer,
            sequences=pf.Windows(8, eos=1),
            batch_size=1,
        )


@pytest.mark.parametrize("sequences", [pf.Windows(32, eos=7), pf.Packed(32)])
def test_infilled_documents_are_erased(folder, sequences):
    infill = pf.Infill(prefix=60_001, middle=60_002, suffix=60_003, rate=0.9)
    data = data_of(folder)
    rows = {data.files[0]: [40, 57], data.files[2]: [99]}
    numbers = {140, 157, 399}
    whole = loader_of(data.infill(infill), sequences)
    first = loader_of(data.infill(infill).erase(rows=rows), sequences)
    second = loader_of(data.erase(rows=rows).infill(infill), sequences)
    for epoch in (0, 1):
        for loader in (whole, first, second):
            loader.set_epoch(epoch)
        found = set()
        for before, one, other in zip(whole, first, second, strict=True):
            ids = one["input_ids"]
            np.testing.assert_array_equal(ids, other["input_ids"])
            changed = ids != before["input_ids"]
            assert {*ids[changed].tolist()} <= {PADDING}
            assert not numbers & {*ids.ravel().tolist()}
            found |= {*before["input_ids"][changed].tolist()}
        assert numbers & found
        assert found <= numbers | {7, 60_001, 60_002, 60_003}
    assert pf.verify(first).ok
    assert first.state_dict()["erased"] == second.state_dict()["erased"]


@pytest.mark.parametrize("make", [megatron, mds, stream])
def test_flat_files_that_know_documents(tmp_path, make):
    documents = [[100 + n] * (1 + n % 9) for n in range(60)]
    data = make(tmp_path, documents)
    numbers = [0, 18, 19]
    gone = data.erase(rows={data.files[0]: numbers})
    for sequences in (pf.Windows(32, eos=2), pf.Packed(32)):
        loader = loader_of(gone, sequences, fields=("input_ids", "labels"))
        found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
        assert not {100 + n for n in numbers} & {*found.tolist()}
        left = {100 + n for n in range(60) if n not in numbers}
        assert {*found.tolist()} - {2, PADDING} == left
        assert pf.verify(loader).ok
    with pytest.raises(InvalidArgumentError, match="convert cannot leave them out"):
        pf.convert(gone, tmp_path / "out", to="stream")


def test_what_cannot_be_erased_is_refused(tmp_path, folder):
    documents = [[n] * 5 for n in range(10)]
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "raw.bin")
    bare = pf.tokens(tmp_path / "raw.bin", dtype="uint16")
    with pytest.raises(InvalidArgumentError, match=r"erase\(\) needs documents"):
        bare.erase(rows={bare.files[0]: [0]})
    flat = megatron(tmp_path, documents)
    with pytest.raises(InvalidArgumentError, match="where= asks columns"):
        flat.erase(where="id == 5")
    data = data_of(folder)
    wrong: list[tuple[Callable[[], Any], str]] = [
        (data.erase, "takes one of"),
        (lambda: data.erase(where="id == 1", rows={}), "takes one of"),
        (
            lambda: data.erase(rows={"other.parquet": [1]}),
            "is not a file of the dataset",
        ),
        (lambda: data.erase(rows={data.files[0]: [100]}), "row 100 is out of range"),
        (lambda: data.erase(rows={data.files[0]: [-1]}), "row -1 is out of range"),
        (lambda: data.erase(rows=[1]), "must be rows of files"),  # type: ignore[arg-type]
        (lambda: data.erase(snapshot=data), "no argument 'snapshot': give where="),
        (lambda: data.erase(where="id = 5"), "write == for equality"),
        (lambda: data.erase(where="id=5"), "write == for equality"),
    ]
    for call, message in wrong:
        with pytest.raises(InvalidArgumentError, match=message):
            call()


def test_rows_and_views_do_not_show_erased_values(folder):
    data = erased(data_of(folder))
    assert data[5] == {"tokens": None, "id": None}
    shown = {row["id"] for row in data}
    assert shown == {None, *range(ROWS * FILES)} - GONE
    view = pf.SequenceView(data, pf.Windows(64))
    tokens = {int(t) for n in range(len(view)) for t in view[n]["input_ids"]}
    assert not tokens & {100 + n for n in GONE}
    for one in (pickle.loads(pickle.dumps(data)), copy.copy(data)):
        found, wanted = one.spans.erased, data.spans.erased
        assert found
        assert wanted
        assert found.records == wanted.records
        assert one[5]["id"] is None
    loader = loader_of(data, pf.Windows(64))
    for row in range(4):
        assert all(o.row not in {5, 6, 7} for o in loader.locate(0, row))


def test_places_are_kept_beside_the_index(folder, tmp_path, caplog):
    for _ in range(2):
        caplog.clear()
        with caplog.at_level("INFO", "pagefeed"):
            data = data_of(folder, cache_dir=tmp_path).erase(where="id == 41")
            loader_of(data, pf.Windows(64))
    assert not [r for r in caplog.records if "erased" in r.message]
    # Those of other rows are others, as are those of as many of another selection.
    for selected, gone in [("id >= 0", 150), ("id >= 9", 50), ("id >= 19", 60)]:
        found, expected = (
            loader_of(
                data.where(selected).erase(where=f"id == {gone}"),
                pf.Windows(64),
                fields=("input_ids",),
            )
            for data in (data_of(folder, cache_dir=tmp_path), data_of(folder))
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one["input_ids"], other["input_ids"])


def test_rows_that_are_left_are_read_a_page_at_a_time(folder, monkeypatch):
    data, real = erased(data_of(folder)), PageIndex.read_page
    read = list[tuple[str, int]]()

    def read_page(index, page):
        read.append((index.column, page))
        return real(index, page)

    monkeypatch.setattr(PageIndex, "read_page", read_page)
    assert sum(1 for _ in data) == ROWS * FILES
    assert 0 < len(read) == len({*read})
