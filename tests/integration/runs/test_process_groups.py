"""Two processes of a gloo group: their ranks, the proof of them, one checkpoint."""

import json
from pathlib import Path

import pytest

from made.launched import launch
from made.numbered import numbered_loader, write_numbered

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.distributed.checkpoint.state_dict_loader import load  # noqa: E402

from pagefeed.errors import InvalidArgumentError, StateMismatchError  # noqa: E402
from pagefeed.torch import Leaf, as_dataset  # noqa: E402

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("groups")
    (path / "data").mkdir()
    write_numbered(path / "data")
    return path


def run_processes(folder, script, num_processes):
    launch([str(HERE / script), str(folder)], folder, world_size=num_processes)


@pytest.fixture(scope="module")
def found(folder):
    """What each of the two processes reports."""
    run_processes(folder, "groups.py", 2)
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in (0, 1)]


def test_two_by_two_with_tensor_parallelism(folder):
    run_processes(folder, "tensor_parallel.py", 4)
    paths = [folder / f"two-by-two-{rank}.json" for rank in range(4)]
    one, peer, other, its_peer = (json.loads(path.read_text()) for path in paths)
    assert (one["rank"], other["rank"]) == ([0, 2], [1, 2])
    assert one["seen"] == peer["seen"]
    assert other["seen"] == its_peer["seen"]
    seen = one["seen"] + other["seen"]
    # All but what would fill no step of both ranks: the last sequence is padded.
    number = numbered_loader(folder / "data").num_sequences
    assert len(seen) == len(set(seen)) == number // 8 * 8
    for each in (one, peer, other, its_peer):
        assert each["named"] == []
        assert (
            "shared by 2 processes, and groups mesh_tp. It could not prove"
            in (each["shared"][0])
        )
        # RANK taken for the data-parallel rank: all is there once, and all is wrong.
        assert "has one process, and groups mesh_tp" in each["alone"][0]


def test_a_policy_that_fails_on_one_rank_ends_all(folder):
    run_processes(folder, "failing_policy.py", 2)
    first, second = (
        json.loads((folder / f"failing-{rank}.json").read_text()) for rank in (0, 1)
    )
    assert first["first"][0] == second["second"][0] == "ZeroDivisionError"
    assert first["both"][0] == second["both"][0] == "ZeroDivisionError"
    assert second["weights"][0] == "InvalidArgumentError"
    for rank, told in ((0, second["first"]), (1, first["second"])):
        assert told[0] == "CancelledError"
        assert f"the policy Failing failed on rank {rank} at step 2" in told[1]
    assert "on rank 1 at step 2" in first["weights"][1]
    assert [step for *_, step in first.values()] == [1, 1, 1, 1, 9]
    assert [step for *_, step in second.values()] == [1, 1, 1, 1, 9]


def test_ranks_are_those_of_the_data_dimensions(found):
    for rank, one in enumerate(found):
        assert one["data"] == one["both"] == one["group"] == [rank, 2]
        assert one["tensor"] == [0, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("same", "processes 0 and 1 need the same batches, and have ranks 0 and 1"),
        ("seed", "seed is 0 in process 0 and 1 in process 1"),
        ("missing", "no process has rank 1 of world_size=2"),
    ],
)
def test_all_processes_learn_what_is_wrong(found, name, message):
    assert all(message in one[name] for one in found)


def test_the_slowest_rank_is_told_to_all(found):
    mine, everyone = zip(*(one["slowest"] for one in found), strict=True)
    assert everyone == (max(mine), max(mine))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_checkpoint_of_two_ranks_loads_on_one(found, folder):
    loader = numbered_loader(folder / "data", format="torch")
    leaf = Leaf(loader)
    load({"data": leaf}, checkpoint_id=str(folder / "dcp"), no_dist=True)
    before = [row for one in found for step in one["seen"] for row in step]
    rest = [row for batch in loader for row in batch["input_ids"][:, 0].tolist()]
    plain = numbered_loader(folder / "data", format="torch")
    every = [row for batch in plain for row in batch["input_ids"][:, 0].tolist()]
    assert sorted(before + rest) == sorted(every)


def test_a_leaf_refuses_what_is_no_state(folder):
    leaf = Leaf(numbered_loader(folder / "data", format="torch"))
    leaf.load_state_dict({})
    leaf.load_state_dict(leaf.state_dict())
    with pytest.raises(StateMismatchError, match="holds no state of pagefeed"):
        leaf.load_state_dict({"dp_rank_0": b"theirs"})


class Reader:
    """Reads an iterable from inside, as a framework's wrapper does."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        yield from self.dataset


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("accelerate.data_loader", "DataLoaderDispatcher"),
        ("accelerate.data_loader", "IterableDatasetShard"),
        ("transformers.trainer_pt_utils", "IterableDatasetShard"),
    ],
)
def test_a_second_sharding_is_refused(folder, module, name):
    kind = type(name, (Reader,), {"__module__": module})
    loaders = [
        numbered_loader(folder / "data", format="torch", rank=0, world_size=size)
        for size in (1, 2)
    ]
    assert next(iter(kind(as_dataset(loaders[0]))))
    with pytest.raises(InvalidArgumentError, match=f"{name} would shard that again"):
        next(iter(kind(as_dataset(loaders[1]))))
    assert next(iter(Reader(as_dataset(loaders[1]))))


def test_reading_ahead_is_refused_on_any_number_of_ranks(folder):
    names = {"__module__": "ray.train.torch.train_loop_utils"}
    kind = type("_WrappedDataLoader", (Reader,), names)
    loader = numbered_loader(folder / "data", format="torch", rank=0, world_size=1)
    with pytest.raises(InvalidArgumentError, match="iterate over the Loader itself"):
        next(iter(kind(as_dataset(loader))))


def test_nodes_go_on_where_their_state_was_saved(folder):
    nodes = pytest.importorskip("torchdata.nodes", reason="torchdata is not installed")

    def make():
        source = nodes.IterableWrapper(numbered_loader(folder / "data", format="torch"))
        return nodes.Loader(
            nodes.Mapper(source, lambda b: b["input_ids"][:, 0].tolist())
        )

    node = make()
    batches = iter(node)
    first = [next(batches) for _ in range(3)]
    state = node.state_dict()
    rest = list(batches)
    second = list(node)
    again = make()
    again.load_state_dict(state)
    assert list(again) == rest
    assert list(again) == second != first + rest
