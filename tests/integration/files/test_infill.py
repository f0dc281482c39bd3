"""Infilled datasets of every kind, their states, and what cannot be infilled."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.texts_made import make_tokenizer
from models.infill_model import infilled
from pagefeed.errors import (
    InvalidArgumentError,
    StateMismatchError,
    UnsupportedError,
)

TOKENIZER = make_tokenizer()
INFILL = pf.Infill(prefix=60_001, middle=60_002, suffix=60_003, rate=0.7, end=60_004)
ROWS = [[n % 200 + 1] * (n % 29) for n in range(200)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("infill")
    table = {"tokens": ROWS, "text": ["a b " * len(row) for row in ROWS]}
    pq.write_table(pa.table(table), path / "a.parquet", row_group_size=60)
    kinds = [("token", "u2"), ("weights", "i4")]
    with pf.StreamWriter(path / "stream", dtype=kinds, serialize="bytes") as out:
        for number, row in enumerate(ROWS):
            record = np.zeros(len(row), dtype=[("token", "u2"), ("weights", "i4")])
            record["token"], record["weights"] = row, np.arange(len(row))
            spans = [(1, 4, bytes([1 + number % 255]))] if len(row) > 4 else []
            out.append(record, spans=spans)
    return path


def loader_of(dataset: Any, **options: Any) -> pf.Loader:
    wanted: dict[str, Any] = {
        "sequences": pf.Windows(32, eos=7),
        "batch_size": 4,
        "rank": 0,
        "world_size": 1,
        "num_threads": 2,
        "shuffle": None,
        "drop_last": False,
    }
    return pf.Loader(dataset, **wanted | options)


def line_of(loader: pf.Loader, epoch: int) -> list[int]:
    loader.set_epoch(epoch)
    batches = [batch["input_ids"].copy() for batch in loader]
    return [int(token) for token in np.concatenate(batches).ravel()]


def expected(rows: list[list[int]], epoch: int) -> list[int]:
    held = [infilled(INFILL, number, epoch, row) for number, row in enumerate(rows)]
    return [token for row in held for token in [*row, 7]]


@pytest.mark.parametrize("kind", ["tokens", "text", "stream"])
@pytest.mark.parametrize("epoch", [0, 3])
def test_the_line_is_that_of_the_model(folder, kind, epoch):
    rows = ROWS
    if kind == "stream":
        dataset: Any = pf.stream(folder / "stream")
    elif kind == "tokens":
        dataset = pf.parquet(folder / "a.parquet", column="tokens")
    else:
        texts = pf.parquet(folder / "a.parquet", column="text")
        dataset = texts.tokenize(TOKENIZER)
        rows = [TOKENIZER.encode("a b " * len(row)).tolist() for row in ROWS]
    wanted = expected(rows, epoch)
    found = line_of(loader_of(dataset.infill(INFILL)), epoch)
    assert found[: len(wanted)] == wanted
    assert not any(found[len(wanted) :])


def test_fields_and_spans_of_streams_follow_their_tokens(folder):
    dataset = pf.stream(folder / "stream", aligned=["weights"], spans=["spans"])
    dataset = dataset.infill(INFILL)
    fields = ("input_ids", "metadata")
    num_spans = 0
    for batch in loader_of(dataset, fields=fields, sequences=pf.Packed(64, eos=7)):
        tokens, weights = batch["input_ids"], batch["weights"]
        assert not weights[(tokens > 60_000) | (tokens == 0)].any()
        for part in batch["metadata"].to_pylist():
            held = slice(part["start"], part["stop"])
            numbers = weights[part["sequence"], held]
            assert numbers.tolist() == [
                *range(part["first_token"], part["first_token"] + len(numbers))
            ]
            for span in part["spans"]:
                where = weights[part["sequence"], span["start"] : span["end"]]
                assert set(where.tolist()) <= {1, 2, 3}
                num_spans += len(where)
    assert num_spans == sum(3 for row in ROWS if len(row) > 4)
    shown = [(row[dataset.column], row["weights"]) for row in dataset.head(9)]
    assert all(len(row) == len(weights) for row, weights in shown)
    documents = loader_of(dataset, sequences=pf.Documents(max_length=40))
    batch = next(iter(documents))
    assert batch["input_ids"].shape == batch["weights"].shape


def test_documents_of_a_later_shard_are_found(tmp_path):
    for shard in range(2):
        with pf.StreamWriter(tmp_path / str(shard), dtype="uint16") as out:
            for row in ROWS[:20]:
                out.append([token + shard for token in row])
    dataset = pf.stream(tmp_path).infill(INFILL)
    assert dataset.index.num_values > dataset.index.plain.num_values
    for number in (0, 8, 28, 39):
        shard, place = divmod(number, 20)
        found = dataset[number]["input_ids"]
        row = [token + shard for token in ROWS[place]]
        assert sorted(found)[: len(row)] == sorted(row)


def test_a_selection_keeps_what_its_documents_were(folder):
    whole = pf.parquet(folder / "a.parquet", column="tokens")
    kept = whole.split(a=0.4, b=0.6, seed=2)["a"]
    rows = {tuple(row["tokens"]) for row in whole.infill(INFILL)}
    for dataset in (
        kept.infill(INFILL),
        whole.infill(INFILL).split(a=0.4, b=0.6, seed=2)["a"],
    ):
        assert len(dataset) == len(kept)
        assert {tuple(row["tokens"]) for row in dataset} <= rows


def test_a_mixture_holds_infilled_and_plain_documents(folder):
    plain = pf.parquet(folder / "a.parquet", column="tokens")
    parts = {"code": plain.infill(INFILL), "web": plain}
    mixed = pf.mix(parts, max_epochs={"code": 2, "web": 2})
    for sequences in (pf.Windows(32, eos=7), pf.Packed(32, eos=7)):
        options: dict[str, Any] = {"sequences": sequences, "shuffle": "page"}
        one = loader_of(mixed, batch_size=1, **options)
        alone = [batch["input_ids"][0].tolist() for batch in one]
        ranks = [loader_of(mixed, rank=r, world_size=2, **options) for r in range(2)]
        rows: list[list[int]] = []
        for number, batches in enumerate(zip(*ranks, strict=True)):
            rows += [
                row
                for both in zip(
                    *(b["input_ids"].tolist() for b in batches), strict=True
                )
                for row in both
            ]
            if number == 2:
                break
        state = ranks[0].state_dict()
        again = loader_of(mixed, batch_size=3, **options)
        again.load_state_dict(state)
        rows += [row for batch in again for row in batch["input_ids"].tolist()]
        assert [row for row in rows if any(row)] == alone
        markers = [token for row in alone for token in row if token > 60_000]
        assert markers.count(60_001) == 2 * sum(
            infilled(INFILL, n, 0, row) != row for n, row in enumerate(ROWS)
        )
        second = loader_of(mixed, batch_size=1, **options)
        second.set_epoch(1)
        later = [batch["input_ids"][0].tolist() for batch in second]
        assert len(later) == len(alone)
        assert sorted(map(sum, later)) != sorted(map(sum, alone))


def test_reports_know_infilled_datasets(folder):
    dataset = pf.parquet(folder / "a.parquet", column="tokens").infill(INFILL)
    loader = loader_of(dataset, shuffle="page", drop_last=True)
    assert not pf.verify(loader).problems
    assert pf.forecast(loader).tokens == dataset.spans.num_values
    [row] = pf.trace(loader, step=1, row=2)
    assert row.segments
    assert pf.inspect(dataset).tokens == dataset.spans.num_values
    [slot, *_] = loader.steps_of(str(folder / "a.parquet"), 100)
    origins = loader.locate(slot.step, slot.row)
    assert 100 in {origin.row for origin in origins}
    view = pf.SequenceView(dataset, pf.Windows(32, eos=7))
    assert view[0]["input_ids"].tolist() == expected(ROWS, 0)[:32]


@pytest.mark.parametrize(
    "other",
    [
        {"rate": 0.6},
        {"spm": 0.1},
        {"seed": 1},
        {"prefix": 9},
        {"end": None},
        {"within": "sequence"},
    ],
)
def test_a_state_of_other_settings_is_refused_by_name(folder, other):
    plain = pf.parquet(folder / "a.parquet", column="tokens")
    changed, packed = replace(INFILL, **other), {"sequences": pf.Packed(32, eos=7)}
    state = loader_of(plain.infill(INFILL), **packed).state_dict()
    with pytest.raises(StateMismatchError) as caught:
        loader_of(plain.infill(changed), **packed).load_state_dict(state)
    assert f"{INFILL.identity} then, now {changed.identity}" in str(caught.value)
    with pytest.raises(StateMismatchError, match="then, now none"):
        loader_of(plain, **packed).load_state_dict(state)
    loader_of(plain.infill(INFILL), **packed).load_state_dict(state)


@pytest.mark.parametrize("other", [{"rate": 0.6}, {"seed": 1}, {"end": None}])
def test_what_is_kept_of_infilled_documents_is_of_their_choice(folder, tmp_path, other):
    path = folder / "a.parquet"
    changed = replace(INFILL, **other)
    _, kept, anew = (
        pf.parquet(path, column="tokens", cache_dir=cache).infill(infill).index
        for infill, cache in [(INFILL, tmp_path), (changed, tmp_path), (changed, None)]
    )
    pages = np.arange(len(anew) + 1)
    assert kept.first_values(pages).tolist() == anew.first_values(pages).tolist()


def test_what_cannot_be_infilled_is_refused(folder, tmp_path):
    tokens = pf.parquet(folder / "a.parquet", column="tokens")
    texts = pf.parquet(folder / "a.parquet", column="text")
    with pytest.raises(UnsupportedError, match="tokenize texts"):
        texts.infill(INFILL)
    with pytest.raises(InvalidArgumentError, match="infilled already"):
        tokens.infill(INFILL).infill(INFILL)
    with pytest.raises(InvalidArgumentError, match=r"give pagefeed\.Infill"):
        tokens.infill({"rate": 0.5})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="of one dataset"):
        pf.mix({"a": tokens}).infill(INFILL)
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    with pytest.raises(InvalidArgumentError, match="needs documents"):
        pf.tokens(tmp_path / "a.bin", dtype="uint16").infill(INFILL)
    with pytest.raises(InvalidArgumentError, match="vocab_size=60000"):
        loader_of(tokens.infill(INFILL), vocab_size=60_000)
    wide = pf.Infill(prefix=70_000, middle=2, suffix=3)
    with pytest.raises(InvalidArgumentError, match=r"Infill\(prefix=\)=70000"):
        loader_of(tokens.infill(wide), dtype="uint16")
    whole = pf.Infill(prefix=1, middle=2, suffix=3, within="sequence")
    for sequences in (pf.Windows(32), pf.Documents(max_length=32)):
        with pytest.raises(InvalidArgumentError, match="give Packed"):
            loader_of(tokens.infill(whole), sequences=sequences)
    fields = ("input_ids", "metadata")
    with pytest.raises(InvalidArgumentError, match="with Documents leave it out"):
        loader_of(
            tokens.infill(INFILL), sequences=pf.Documents(max_length=32), fields=fields
        )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0}, "rate=0 infills nothing"),
        ({"rate": 1.1}, "from 0 to 1"),
        ({"spm": float("nan")}, "from 0 to 1"),
        ({"middle": 1}, "one token twice"),
        ({"suffix": None}, "needs the special tokens"),
        ({"end": -1}, "must be the number of a token"),
        ({"within": "file"}, "within"),
        ({"seed": "a"}, "seed"),
    ],
)
def test_settings_are_checked(wrong, message):
    right: dict[str, Any] = {"prefix": 1, "middle": 2, "suffix": 3}
    with pytest.raises(InvalidArgumentError, match=message):
        pf.Infill(**right | wrong)
