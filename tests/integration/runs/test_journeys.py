"""What people do with a loader, as guides say: each sample counted on each rank."""

import itertools
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader, write_numbered

RANKS = (0, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("journeys")
    write_numbered(path)
    return path


def ranks_of(data, **options):
    return [numbered_loader(data, rank=r, world_size=2, **options) for r in RANKS]


def firsts(batches):
    """First tokens of the rows: the numbers of the sequences."""
    return [int(row) for batch in batches for row in batch["input_ids"][:, 0]]


def all_of(loader):
    """The sequences of whole steps, as the order of the files has them."""
    num_steps = loader.num_sequences // (2 * loader.batch_size)
    return loader.num_sequences, num_steps * 2 * loader.batch_size


def test_plain_loop(folder):
    loaders = ranks_of(folder)
    epochs = [[firsts(loader) for loader in loaders] for _ in range(2)]
    _, whole = all_of(loaders[0])
    for mine, other in epochs:
        assert len(mine) == len(other) == whole / 2
        assert len({*mine, *other}) == whole
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_data_loader(folder, num_workers):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    from pagefeed.torch import as_dataset

    plain = [[firsts(loader) for _ in range(2)] for loader in ranks_of(folder)]
    for rank, loader in enumerate(ranks_of(folder, format="torch", batch_size=4)):
        batches = data.DataLoader(
            as_dataset(loader),
            batch_size=None,
            num_workers=num_workers,
            multiprocessing_context="fork" if num_workers else None,
        )
        assert [firsts(batches) for _ in range(2)] == plain[rank]


# torchdata calls what torch has left.
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_stateful_data_loader(folder, num_workers):
    torchdata = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )
    from pagefeed.torch import as_dataset

    def rank_of(rank):
        loader = ranks_of(folder, format="torch", batch_size=4)[rank]
        return torchdata.StatefulDataLoader(
            as_dataset(loader),
            batch_size=None,
            num_workers=num_workers,
            multiprocessing_context="fork" if num_workers else None,
        )

    plain = [[firsts(loader) for _ in range(2)] for loader in ranks_of(folder)]
    for rank, epochs in enumerate(plain):
        first, again = rank_of(rank), rank_of(rank)
        head = firsts(itertools.islice(iter(first), 5))
        again.load_state_dict(first.state_dict())
        assert head + firsts(again) == epochs[0]
        assert firsts(again) == epochs[1]


def test_notebook(folder):
    """Cells are run twice, a batch is looked at, a loop is interrupted."""
    expected = [firsts(loader) for loader in ranks_of(folder)]
    for rank, loader in enumerate(ranks_of(folder)):
        for _ in range(2):
            next(iter(loader))
        assert "steps" in repr(loader)
        seen: list[Any] = []
        batches = iter(loader)

        def cell(batches=batches, seen=seen):
            for batch in batches:
                seen.append(batch)
                if len(seen) == 4:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cell()
        state = loader.state_dict()
        # The next cell goes on with the iterator; another kernel with the state.
        assert firsts([*seen, *batches]) == expected[rank]
        again = ranks_of(folder)[rank]
        again.load_state_dict(state)
        assert firsts([*seen, *again]) == expected[rank]


def test_mixed_sources(folder, tmp_path):
    write_numbered(tmp_path, num_rows=100, first_token=10**6)
    parts = {"web": folder, "code": tmp_path}
    data = {name: pf.parquet(path, column="input_ids") for name, path in parts.items()}
    sizes = {name: numbered_loader(path).num_sequences for name, path in parts.items()}
    mixture = pf.mix(
        data, unit="sequences", stop="all_exhausted", max_epochs=dict.fromkeys(data, 1)
    )
    assert sum(sizes.values()) == numbered_loader(mixture).num_sequences
    loaders = ranks_of(mixture)
    seen = [*itertools.chain(*(firsts(loader) for loader in loaders))]
    assert len(seen) == len(set(seen)) > 0.9 * sum(sizes.values())
    code = [row for row in seen if row >= 10**6]
    assert len(code) / len(seen) == pytest.approx(
        sizes["code"] / sum(sizes.values()), abs=0.05
    )


def test_extremes(folder, tmp_path):
    """A step of the whole epoch; more ranks than sequences; a single row; no end."""
    number = numbered_loader(folder).num_sequences
    [batch] = numbered_loader(folder, batch_size=number)
    assert len(set(batch["input_ids"][:, 0].tolist())) == number
    write_numbered(tmp_path, num_files=1, num_rows=2)
    few = numbered_loader(tmp_path, batch_size=1).num_sequences
    ranks = [
        numbered_loader(
            tmp_path, batch_size=1, rank=rank, world_size=few + 3, drop_last=False
        )
        for rank in range(few + 3)
    ]
    rows = [row for loader in ranks for row in firsts(loader)]
    assert len([row for row in rows if row >= 0]) == few
    with pytest.raises(pf.errors.InvalidArgumentError, match="no step is complete"):
        numbered_loader(tmp_path, batch_size=few + 1)
    endless = itertools.islice(numbered_loader(folder, epochs=None), number // 2)
    assert len(firsts(endless)) == number // 2 * 4
    assert batch["input_ids"].shape[1] == LENGTH
