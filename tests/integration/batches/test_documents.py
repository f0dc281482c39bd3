"""Documents on real files: every row once, with any columns, resumed anywhere."""

from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shuffles import SHUFFLES
from pagefeed.core.run import DatasetRun
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError

NUM_ROWS = 700
COLUMNS = ["number", "text", "tags", "input_ids"]


def make_table() -> pa.Table:
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 40, NUM_ROWS)
    numbers = range(NUM_ROWS)
    texts = [None if n % 11 == 0 else f"text {n} " * (n % 30) for n in numbers]
    tags = [None if n % 7 == 0 else {"name": f"t{n}", "at": [n, None]} for n in numbers]
    tokens = [list(range(n, n + length)) for n, length in enumerate(lengths.tolist())]
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "text": texts,
            "tags": tags,
            "input_ids": pa.array(tokens, pa.list_(pa.int32())),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("documents")
    table = make_table()
    for number, part in enumerate([table.slice(0, 450), table.slice(450)]):
        pq.write_table(
            part,
            path / f"part-{number}.parquet",
            row_group_size=200,
            data_page_size=400,
            write_batch_size=8,
        )
    return path


def make_loader(folder, documents, *, column="text", aligned=(), **options):
    settings: dict[str, Any] = {
        "batch_size": 8,
        "seed": 4,
        "memory": "16MiB",
        "num_threads": 2,
        "rank": 0,
        "world_size": 1,
    }
    dataset = pf.parquet(folder, column=column, aligned=aligned)
    return pf.Loader(dataset, sequences=documents, **settings | options)


def numbers_of(batches):
    return [n for batch in batches for n in pa.array(batch["number"]).to_pylist()]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_row_arrives_once_and_whole(folder, shuffle):
    loader = make_loader(
        folder, pf.Documents(columns=COLUMNS), shuffle=shuffle, drop_last=False
    )
    batches = [
        pa.table({name: pa.array(batch[name]) for name in COLUMNS}) for batch in loader
    ]
    whole = pa.concat_tables(batches)
    delivered = whole.filter(whole["number"].is_valid()).sort_by("number")
    assert delivered.equals(make_table().cast(delivered.schema))
    assert len(whole) == -(-NUM_ROWS // 8) * 8


def test_tokens_are_cut_and_padded(folder):
    documents = pf.Documents(columns=["number"], max_length=20, pad="max_length")
    fields = ("input_ids", "attention_mask", "position_ids")
    loader = make_loader(
        folder, documents, column="input_ids", padding=9, fields=fields
    )
    expected = make_table()["input_ids"].to_pylist()
    seen = 0
    for batch in loader:
        assert batch["input_ids"].shape == (8, 20)
        numbers = pa.array(batch["number"]).to_pylist()
        for row, number in enumerate(numbers):
            tokens = expected[number][:20]
            assert batch["lengths"][row] == len(tokens)
            assert batch["input_ids"][row].tolist() == tokens + [9] * (20 - len(tokens))
            assert batch["attention_mask"][row].sum() == len(tokens)
            seen += 1
    assert seen == NUM_ROWS // 8 * 8


def test_the_longest_document_sets_the_length(folder):
    loader = make_loader(folder, pf.Documents(max_length=64), column="input_ids")
    for batch in loader:
        assert batch["input_ids"].shape[1] == max(1, batch["lengths"].max())


def test_resumes_at_another_world_size(folder):
    documents = pf.Documents(columns=["number"])
    whole = numbers_of(make_loader(folder, documents))
    ranks = [make_loader(folder, documents, rank=r, world_size=2) for r in range(2)]
    heads = [numbers_of(islice(iter(loader), 10)) for loader in ranks]
    head = [n for pair in zip(*heads, strict=True) for n in pair]
    states = [loader.state_dict() for loader in ranks]
    assert states[0] == states[1]
    resumed = make_loader(folder, documents, memory="32MiB")
    resumed.load_state_dict(states[0])
    assert head + numbers_of(resumed) == whole


def test_a_document_is_located(folder):
    loader = make_loader(folder, pf.Documents(columns=["number"]))
    batch = next(iter(loader))
    numbers = pa.array(batch["number"]).to_pylist()
    (source,) = loader.locate(step=0, row=3)
    first = 0 if source.file.endswith("part-0.parquet") else 450
    assert first + source.row == numbers[3]
    assert (0, 0, 3) in loader.steps_of(source.file, source.row)


def test_what_is_cut_is_not_counted_where_a_document_is_located(folder):
    loader = make_loader(folder, pf.Documents(max_length=20), column="input_ids")
    batch = next(iter(loader))
    found = [loader.locate(step=0, row=row)[0].num_tokens for row in range(8)]
    assert found == batch["lengths"][:8].tolist()
    assert max(found) == 20 > min(found)


def test_mixtures_of_documents(folder):
    dataset = pf.parquet(folder, column="text")
    some = dataset.where("number < 300")
    loader = pf.Loader(
        pf.mix({"all": (dataset, 0.5), "some": (some, 0.5)}, stop="first_exhausted"),
        sequences=pf.Documents(columns=["number"]),
        batch_size=4,
        rank=0,
        world_size=1,
    )
    numbers = np.array(numbers_of(loader))
    assert len(numbers) >= 500
    assert np.mean(numbers < 300) > 0.6


def test_wrong_settings_are_refused(folder):
    with pytest.raises(ColumnNotFoundError, match="nothing"):
        make_loader(folder, pf.Documents(columns=["nothing"]))
    with pytest.raises(InvalidArgumentError, match="max_length"):
        make_loader(folder, pf.Documents(columns=["text"]), fields=("labels",))
    with pytest.raises(InvalidArgumentError, match="list"):
        pf.Documents(columns="text")
    with pytest.raises(InvalidArgumentError, match="SequenceView"):
        pf.SequenceView(pf.parquet(folder, column="text"), pf.Documents())


NUMBERS = {
    "float": pa.array(np.arange(NUM_ROWS) / 3),
    "floats": pa.array([[n / 3] * (n % 4) for n in range(NUM_ROWS)]),
    "lists": pa.array([[[n], [n, n]] for n in range(NUM_ROWS)]),
}


@pytest.mark.parametrize("column", NUMBERS)
def test_documents_of_other_numbers_are_located(tmp_path, column):
    path = tmp_path / "part-0.parquet"
    table = pa.table(NUMBERS)
    pq.write_table(table, path, data_page_size=400, write_batch_size=8)
    loader = make_loader(tmp_path, pf.Documents(columns=[column]), column=column)
    batch = next(iter(loader))
    rows = pa.array(batch[column])
    for place in range(8):
        (source,) = loader.locate(step=0, row=place)
        assert source.num_tokens == 0
        assert table[column][source.row] == rows[place]
        assert (0, 0, place) in loader.steps_of(source.file, source.row)


def write_two(folder):
    """Rows with two token columns, and columns called like what is made."""
    rng = np.random.default_rng(8)
    lengths = rng.integers(1, 30, 60).tolist()
    tok_a = [list(range(n, n + length)) for n, length in enumerate(lengths)]
    tok_b = [[5000 + n] * (n % 9 + 1) for n in range(60)]
    columns = {
        "tok_a": pa.array(tok_a, pa.list_(pa.int32())),
        "tok_b": pa.array(tok_b, pa.list_(pa.int32())),
        "labels": pa.array([[-token for token in row] for row in tok_a]),
        "weights": pa.array([[1 / 2] * len(row) for row in tok_a]),
        "input_ids": pa.array([f"id {n}" for n in range(60)]),
        "lengths": pa.array(range(100, 160), pa.int64()),
        "number": pa.array(range(60), pa.int64()),
    }
    table = pa.table(columns)
    for number in range(2):
        path = folder / f"part-{number}.parquet"
        part = table.slice(30 * number, 30)
        pq.write_table(part, path, data_page_size=128, write_batch_size=4)
    return table.to_pydict()


def test_every_dataset_of_a_mixture_gives_its_own_tokens(tmp_path):
    expected = write_two(tmp_path)
    parts = {name: pf.parquet(tmp_path, column=name) for name in ("tok_a", "tok_b")}
    loader = pf.Loader(
        pf.mix(parts, stop="all_exhausted"),
        sequences=pf.Documents(columns=["number"], max_length=40),
        batch_size=4,
        rank=0,
        world_size=1,
    )
    seen = set()
    for batch in loader:
        numbers = pa.array(batch["number"]).to_pylist()
        for row, length, number in zip(
            batch["input_ids"].tolist(), batch["lengths"].tolist(), numbers, strict=True
        ):
            name = "tok_b" if row[0] >= 5000 else "tok_a"
            assert row[:length] == expected[name][number]
            seen.add((name, number))
    assert len(seen) > 100
    with pytest.raises(InvalidArgumentError, match=r"tok_b.*columns="):
        pf.Loader(pf.mix(parts), sequences=pf.Documents(), batch_size=4)


@pytest.mark.parametrize("pad", ["longest", "max_length"])
def test_columns_with_a_value_per_token_are_cut_alike(tmp_path, pad):
    expected = write_two(tmp_path)
    documents = pf.Documents(
        columns=["tok_b", "number", "weights"], max_length=12, pad=pad
    )
    fields = ("input_ids", "labels", "attention_mask")
    given = {"column": "tok_a", "aligned": ["labels"]}
    loader = make_loader(tmp_path, documents, fields=fields, **given)
    for batch in loader:
        assert batch["labels"].shape == batch["input_ids"].shape
        assert batch["labels"].dtype == np.int64
        is_token = batch["attention_mask"]
        assert (batch["labels"][:, 0] == -100).all()  # Nothing predicts it.
        is_token[:, 0] = False
        assert (batch["labels"][is_token] == -batch["input_ids"][is_token]).all()
        assert (batch["labels"][~is_token] == -100).all()
        for number, other in zip(
            pa.array(batch["number"]).to_pylist(),
            pa.array(batch["tok_b"]).to_pylist(),
            strict=True,
        ):
            assert other == expected["tok_b"][number]
        # As many values as tokens do not make a column aligned.
        for number, weights in zip(
            batch["number"].tolist(),
            pa.array(batch["weights"]).to_pylist(),
            strict=True,
        ):
            assert weights == expected["weights"][number]


def test_rows_that_are_not_as_long_as_their_tokens_are_told(tmp_path):
    tokens = [[1, 2], [3], [4, 5], [6, 7, 8]]
    other = [[1, 2], [3], [4, 5, 6], [7, 8]]
    table = pa.table({"tokens": tokens, "labels": other})
    # The first page looks as if it fitted.
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    given = {"column": "tokens", "aligned": ["labels"], "batch_size": 4}
    loader = make_loader(tmp_path, pf.Documents(max_length=2), **given)
    with pytest.raises(ValueError, match=r"labels: row . of the batch has . values"):
        next(iter(loader))


@pytest.mark.parametrize("tokens", [[[1, 2], []], [[1], [2]]])
def test_plain_numbers_are_no_lists_though_there_are_as_many(tmp_path, tokens):
    columns = {"number": [7, 8], "score": [0.5, 1.5], "labels": tokens}
    table = pa.table({"tokens": tokens, **columns})
    pq.write_table(table, tmp_path / "a.parquet")
    documents = pf.Documents(columns=[*columns], max_length=1)
    options = {"shuffle": None, "batch_size": 2}
    loader = make_loader(tmp_path, documents, column="tokens", **options)
    (batch,) = loader
    assert pa.array(batch["number"]).to_pylist() == [7, 8]
    assert pa.array(batch["score"]).to_pylist() == [0.5, 1.5]
    assert pa.array(batch["labels"]).to_pylist() == tokens


def test_columns_called_like_made_fields_are_the_users(tmp_path):
    write_two(tmp_path)
    documents = pf.Documents(columns=["lengths", "number"], max_length=8)
    for batch in make_loader(tmp_path, documents, column="tok_a"):
        numbers = pa.array(batch["number"]).to_pylist()
        assert pa.array(batch["lengths"]).to_pylist() == [100 + n for n in numbers]
        assert batch["input_ids"].dtype == np.int64
    taken = pf.Documents(columns=["input_ids"], max_length=8)
    with pytest.raises(InvalidArgumentError, match=r"'input_ids'.*'tok_a'"):
        make_loader(tmp_path, taken, column="tok_a")
    whole = make_loader(tmp_path, pf.Documents(columns=["input_ids"]), column="tok_a")
    assert pa.array(next(iter(whole))["input_ids"]).to_pylist()[0].startswith("id")


def test_metadata_arrives_as_columns_of_rows(tmp_path):
    write_two(tmp_path)
    dataset = pf.parquet(tmp_path, column="tok_a", metadata=["number"])
    loader = pf.Loader(
        dataset, sequences=pf.Documents(), batch_size=4, rank=0, world_size=1
    )
    assert set(next(iter(loader))) == {"tok_a", "number"}
    unknown = pf.parquet(tmp_path, column="tok_a", metadata=["nothing"])
    with pytest.raises(ColumnNotFoundError, match="nothing"):
        _ = unknown.index
    for wrong in (["tok_a"], ["number", "number"]):
        with pytest.raises(InvalidArgumentError, match="columns other than"):
            pf.parquet(tmp_path, column="tok_a", metadata=wrong)


PAIRS: list[dict[str, Any]] = [
    {
        "chosen_ids": [10 + n] * (n % 7),
        "rejected_ids": [500 + n] * (n % 5 + 1),
        "labels": [-100, *[n] * (n % 3)],
        "prompt": f"question {n}",
        "margin": n / 8,
    }
    for n in range(40)
]


@pytest.mark.parametrize("max_length", [None, 3])
@pytest.mark.parametrize("format_name", ["numpy", "torch"])
def test_pairs_need_no_collator(tmp_path, max_length, format_name):
    pq.write_table(pa.Table.from_pylist(PAIRS), tmp_path / "a.parquet")
    pad = {"chosen_ids": 0, "rejected_ids": 1, "labels": -100}
    names = [*pad, "prompt", "margin"]
    feed = pf.Loader(
        pf.parquet(tmp_path, column="chosen_ids"),
        sequences=pf.Documents(columns=names, max_length=max_length, pad=pad),
        batch_size=8,
        seed=1,
        shuffle=None,
        format=format_name,
        rank=0,
        world_size=1,
    )
    batches = list(feed)
    for number, batch in enumerate(batches):
        rows = PAIRS[number * 8 :][:8]
        for name, filling in pad.items():
            lists = [row[name][:max_length] for row in rows]
            longest = max_length or max(1, *map(len, lists))
            expected = [each + [filling] * (longest - len(each)) for each in lists]
            assert batch[name].tolist() == expected
            assert batch[f"{name}_lengths"].tolist() == list(map(len, lists))
        assert pa.array(batch["prompt"]).to_pylist() == [row["prompt"] for row in rows]
    assert len(batches) == 5


def test_what_cannot_be_padded_is_refused(tmp_path):
    pq.write_table(pa.Table.from_pylist(PAIRS), tmp_path / "a.parquet")
    dataset = pf.parquet(tmp_path, column="chosen_ids")
    settings: dict[str, Any] = {"batch_size": 2, "seed": 1, "rank": 0, "world_size": 1}

    def start(**documents: Any) -> object:
        return pf.Loader(dataset, sequences=pf.Documents(**documents), **settings)

    with pytest.raises(InvalidArgumentError, match="columns that are there"):
        start(columns=["prompt"], pad={"labels": 0})
    with pytest.raises(InvalidArgumentError, match="'longest', 'max_length'"):
        start(pad=3)
    with pytest.raises(InvalidArgumentError, match=r"pad\['labels'\]"):
        start(pad={"labels": 0.5})
    assert hash(pf.Documents(pad={"a": 0})) == hash(pf.Documents(pad={"a": 0}))


@pytest.mark.parametrize(("column", "most"), [("input_ids", 5), ("text", None)])
def test_tokens_are_counted_as_they_are_cut(folder, column, most):
    documents = pf.Documents(columns=["number"], max_length=most)
    loader = make_loader(folder, documents, column=column)
    for _ in loader:
        pass
    lengths = [len(row) for row in make_table()["input_ids"].to_pylist()]
    total = sum(min(length, most) for length in lengths) if most else 0
    # Less the last, incomplete step, which is dropped.
    found = loader.metrics()["data/tokens_total"]
    assert found == pytest.approx(total, rel=0.01)


def test_pages_of_texts_are_weighed_by_their_bytes(folder):
    loader = make_loader(folder, pf.Documents(columns=["text"]))
    index, source = loader.dataset.index, loader.view().run
    assert isinstance(source, DatasetRun)
    assert source.orders.page_bytes == index.mean_row_bytes * NUM_ROWS / len(index)
