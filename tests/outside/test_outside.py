"""Extensions of six kinds work with the contract alone, each in under 100 lines."""

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from outside.files_report import tokens_by_file
from outside.first_tokens import FirstTokens
from outside.least_first import LargestLoss
from outside.memory_store import MemoryStore
from outside.numbered_lines import header_lines, write
from outside.step_trainer import StepTrainer

HERE = Path(__file__).parent
EXTENSIONS = sorted(path for path in HERE.glob("*.py") if "__" not in path.name)
ALLOWED = {"pagefeed", "pagefeed.contract", "pagefeed.flat", "pagefeed.core.storage"}

DOCUMENTS = [[10 * row + place for place in range(row % 7)] for row in range(40)]


@pytest.fixture
def data(tmp_path: Path) -> pf.dataset.ParquetDataset:
    for number in range(2):
        rows = pa.array(DOCUMENTS[20 * number :][:20], pa.list_(pa.int32()))
        table = pa.table({"input_ids": rows})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=8)
    return pf.parquet(tmp_path, column="input_ids")


@pytest.mark.parametrize("path", EXTENSIONS, ids=lambda path: path.stem)
def test_extensions_take_the_contract_alone(path):
    text = path.read_text()
    if not path.stem.startswith("test_"):
        assert len(text.splitlines()) < 100
    found = {
        node.module or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
    }
    assert {name for name in found if name.startswith("pagefeed")} <= ALLOWED


def rows_of(loader: pf.Loader) -> list[tuple[int, ...]]:
    return [
        tuple(row[row != -1].tolist()) for batch in loader for row in batch["input_ids"]
    ]


def test_a_store(data, tmp_path):
    store = MemoryStore({p.name: p.read_bytes() for p in tmp_path.glob("*.parquet")})
    inside = pf.parquet("*.parquet", column="input_ids", store=store)
    assert inside.files == ("store://0.parquet", "store://1.parquet")

    def batches(source):
        return rows_of(pf.Loader(source, sequences=pf.Windows(8), batch_size=2, seed=1))

    assert batches(inside) == batches(data)


def test_a_cut(data):
    def loader(**settings):
        return pf.Loader(
            data,
            sequences=FirstTokens(4),
            padding=60000,
            dtype="int64",
            drop_last=False,
            **settings,
        )

    whole = loader(batch_size=8)
    delivered = [row for batch in whole for row in batch["input_ids"].tolist()]
    cut = [[*document[:4], *[60000] * 4][:4] for document in DOCUMENTS]
    assert sorted(delivered) == sorted(cut)
    assert whole.num_dropped_tokens == sum(max(0, len(each) - 4) for each in DOCUMENTS)
    first, second = loader(batch_size=4), loader(batch_size=4, rank=1, world_size=2)
    iterator = iter(first)
    taken = [row for _ in range(3) for row in next(iterator)["input_ids"].tolist()]
    second.load_state_dict(first.state_dict())
    rest = [loader(batch_size=4, rank=rank, world_size=2) for rank in (0, 1)]
    for each in rest:
        each.load_state_dict(first.state_dict())
        taken += [row for batch in each for row in batch["input_ids"].tolist()]
    assert sorted(row for row in taken if row != [60000] * 4) == sorted(
        row for row in cut if row != [60000] * 4
    )
    [origin] = whole.locate(0, 0) or [None]
    assert origin is None or origin.num_tokens <= 4


def test_a_source(tmp_path):
    for number in range(2):
        write(tmp_path / f"{number}.lines", DOCUMENTS[20 * number :][:20])
    lines = header_lines(sorted(tmp_path.glob("*.lines")))
    assert [row["tokens"] for row in lines] == DOCUMENTS
    packed = pf.Loader(lines, sequences=pf.Packed(8), batch_size=2, drop_last=False)
    tokens = np.concatenate([batch["input_ids"].ravel() for batch in packed])
    assert sorted(tokens[tokens > 0]) == sorted(t for d in DOCUMENTS for t in d if t)
    (tmp_path / "0.lines").write_bytes(b"none of this")
    with pytest.raises(pf.errors.CorruptFileError, match=r"0\.lines"):
        len(header_lines([tmp_path / "0.lines"]))


def test_a_policy(data):
    mixture = pf.mix({"a": (data, 0.5), "b": (data.take(share=0.5), 0.5)}, max_steps=6)
    loader = pf.Loader(
        mixture,
        sequences=pf.Windows(4),
        batch_size=2,
        fields=("input_ids", "labels", "dataset_ids"),
    )
    policy = LargestLoss()
    learner = pf.mixing.Learner(loader, policy, every=2)
    for step, batch in enumerate(loader):
        losses = np.full(batch["labels"].shape, 1.0 + step)
        learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
        learner.step()
    assert policy.num_updates >= 2


def test_an_adapter(data):
    def loader(**settings):
        return pf.Loader(data, sequences=pf.Windows(5), batch_size=3, **settings)

    plain = loader(epochs=2)
    expected = [batch["input_ids"].tolist() for batch in plain]
    seen: list[list[list[int]]] = []
    trainer = StepTrainer(
        loader(epochs=2), lambda b: seen.append(b["input_ids"].tolist())
    )
    trainer.train(3)
    saved = trainer.checkpoint()
    trainer.train(2)
    again = StepTrainer(
        loader(epochs=2), lambda b: seen.append(b["input_ids"].tolist())
    )
    again.resume(saved)
    again.train(len(expected) - 3)
    assert seen == [*expected[:5], *expected[3:]]


def test_a_report(data):
    loader = pf.Loader(data, sequences=pf.Windows(4), batch_size=2, drop_last=False)
    counts = tokens_by_file(loader, len(loader))
    tokens = [sum(map(len, DOCUMENTS[20 * number :][:20])) for number in range(2)]
    assert [counts[file] for file in data.files] == tokens
