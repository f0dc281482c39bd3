"""What one pass over uncounted text is: how much came not at all, or twice."""

import itertools
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.streamed import open_loader, write_texts


def encode(text):
    first, _, rest = text.partition(" ")
    if not first.isdigit():  # Texts by which a tokenizer is identified.
        return []
    return list(range(int(first), int(first) + int(rest.partition(" ")[0])))


def write_groups(path, sizes, seed=3):
    """Row groups of documents of about so many tokens; no two tokens are equal."""
    rng = np.random.default_rng(seed)
    first = 0
    writer = pq.ParquetWriter(path, pa.schema({"text": pa.string()}))
    for size in sizes:
        texts = []
        for count in rng.integers(size // 2, 2 * size, 16).tolist():
            texts.append(f"{first} {count} {rng.bytes(2 * count).hex()}")
            first += count
        table = pa.table({"text": texts})
        writer.write_table(table)
    writer.close()
    return first


def test_lanes_without_tokens_pass_as_often_as_a_batch_asks(tmp_path):
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, pa.schema({"text": pa.string()})) as writer:
        for texts in ([""] * 400, ["a text of many letters"] * 16):
            writer.write_table(pa.table({"text": texts}))
    loader = open_loader(pf.parquet(path, column="text"), sequences=pf.Windows(16))
    assert loader.view().facts()["num_lanes"] == 2
    several = open_loader(
        pf.parquet(path, column="text"), sequences=pf.Windows(16), batch_size=8
    )
    shares = [several.stats()["coverage"] for _ in itertools.islice(several, 100)]
    assert 0.9 < max(shares) <= 1, "a lane that is ahead counts once"
    many = open_loader(
        pf.parquet(path, column="text"), sequences=pf.Windows(16), batch_size=512
    )
    assert next(iter(many))["input_ids"].shape == (512, 16)


def test_tokens_of_all_iterations_are_counted(tmp_path):
    write_texts(tmp_path)
    loader = open_loader(pf.parquet(tmp_path, column="text"), epochs=1, batch_size=4)
    tokens = 0
    for _ in range(3):
        tokens += sum(batch["input_ids"].size for batch in loader)
        assert loader.view().progress()["data/tokens_total"] == tokens


EQUAL = [150] * 60, 32
UNLIKE = [20] * 100 + [200] * 100, 256  # One source behind the other.


def coverage(dataset, tok, num_tokens, length, *, world_size, **given):
    """Tokens unseen and seen twice, in shares, after one pass's worth of steps."""
    loaders = [
        pf.TextLoader(
            dataset,
            tok,
            sequences=pf.Windows(length),
            batch_size=1,
            epochs=None,
            rank=rank,
            world_size=world_size,
            **given,
        )
        for rank in range(world_size)
    ]
    steps = num_tokens // (length * world_size)
    seen = np.zeros(num_tokens, dtype=np.int64)
    for loader in loaders:
        for batch in itertools.islice(loader, steps):
            seen[batch["input_ids"]] += 1  # No two tokens of a row are equal.
    return (seen == 0).mean(), (seen > 1).mean(), loaders


@pytest.fixture(scope="module", params=[EQUAL, UNLIKE], ids=["equal", "unlike"])
def written(request, tmp_path_factory):
    """A dataset, its tokenizer, its tokens, and the length of a sequence."""
    path = tmp_path_factory.mktemp("texts") / "a.parquet"
    sizes, length = request.param
    num_tokens = write_groups(path, sizes)
    tok = pf.Tokenizer(encode, vocab_size=num_tokens, name="numbers")
    return pf.parquet(path, column="text"), tok, num_tokens, length


@pytest.mark.parametrize(
    ("world_size", "shuffle"), [(1, None), (2, "page"), (8, "page"), (8, None)]
)
def test_a_pass_sees_nearly_everything_once(written, shuffle, world_size):
    unseen, twice, loaders = coverage(*written, world_size=world_size, shuffle=shuffle)
    print("unseen", unseen, "twice", twice)
    assert max(unseen, twice) <= 0.02
    stats = [loader.stats() for loader in loaders]
    passed = [each["passes"] + each["coverage"] for each in stats]
    assert np.mean(passed) == pytest.approx(1, abs=0.01)
    assert max(passed) - min(passed) < 0.1


def test_one_epoch_ends_when_all_documents_came(written):
    dataset, tok, num_tokens, length = written
    loader = pf.TextLoader(
        dataset, tok, sequences=pf.Windows(length), batch_size=2, rank=0, world_size=1
    )
    seen = np.zeros(num_tokens, dtype=np.int64)
    for epoch in range(2):
        assert loader.epoch == epoch
        for step, batch in enumerate(loader):
            assert loader.step == step + 1
            seen[batch["input_ids"].ravel()] += 1
        assert seen.min() == epoch + 1
        assert seen.mean() < (epoch + 1) * 1.02
        assert loader.step == 0


def test_an_epoch_ends_where_it_would_after_a_resume(written):
    dataset, tok, _, length = written
    given: dict[str, Any] = {
        "sequences": pf.Windows(length),
        "batch_size": 4,
        "epochs": 1,
    }
    loader = pf.TextLoader(dataset, tok, rank=0, world_size=1, **given)
    expected = [batch["input_ids"].copy() for batch in loader]
    middle = len(expected) // 2
    loader.set_epoch(0)
    again = iter(loader)
    for _ in range(middle):
        next(again)
    other = pf.TextLoader(dataset, tok, rank=0, world_size=1, **given)
    other.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    other.set_epoch(0)  # As trainers do: it is in that epoch.
    rest = [batch["input_ids"] for batch in other]
    np.testing.assert_array_equal(rest, expected[middle:])
