"""Worker processes of a DataLoader: which step comes next, whatever was done before."""

import copy
import inspect
import pickle
import random
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import first_tokens, numbered_loader
from pagefeed.errors import CorruptFileError, InvalidArgumentError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
stateful = pytest.importorskip(
    "torchdata.stateful_dataloader", reason="torchdata is not installed"
)

from torch.utils.data import (  # noqa: E402 - torch may be absent
    ChainDataset,
    DataLoader,
    IterableDataset,
)

from pagefeed.torch import as_dataset  # noqa: E402 - likewise

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:set_epoch.* goes back"),
]

STEPS = 9


def make_loader(folder, **options):
    return numbered_loader(folder, batch_size=60, format="torch", **options)


@pytest.fixture(scope="module")
def epochs(folder):
    loader = make_loader(folder)
    return [[first_tokens(batch) for batch in loader] for _ in range(6)]


def feed(dataset, num_workers=2, kind=DataLoader, method="fork", **options):
    return kind(
        dataset,
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context=method,
        **options,
    )


def steps_of(batches):
    return [first_tokens(batch) for batch in batches]


class RandomUse:
    """A dataset in DataLoaders, beside a model: the step of the epoch that is next.

    Without workers the model is that of a loader: a loop that is left early begins its
    epoch again, also one that began in its middle.
    """

    def __init__(self, folder, epochs, seed, methods=("fork",)):
        self.draw, self.folder, self.epochs = random.Random(seed), folder, epochs
        self.methods = methods
        self.epoch = self.step = 0
        self.done = [seed]
        self.dataset = as_dataset(make_loader(folder))
        self.another()

    def another(self):
        """Take another DataLoader of the same dataset."""
        self.workers = self.draw.choice([0, 1, 2, 3])
        self.options: dict[str, Any] = {"method": None}
        if self.workers:
            self.options = {"persistent_workers": self.draw.random() < 0.5}
            self.options["method"] = self.draw.choice(self.methods)
        self.is_stateful = self.draw.random() < 0.6
        if self.is_stateful:
            every = self.draw.choice([1, 2, 4, 5, 9, 100])
            self.options |= {"snapshot_every_n_steps": every}
            self.options["kind"] = stateful.StatefulDataLoader
        self.done.append((self.workers, self.options))
        self.batches = feed(self.dataset, self.workers, **self.options)

    def serve(self, dataset):
        self.dataset = dataset
        self.batches = feed(dataset, self.workers, **self.options)

    @property
    def rest(self):
        return self.epochs[self.epoch][self.step :]

    def check_end(self, got):
        assert got == self.rest, self.done
        self.epoch, self.step = self.epoch + 1, 0

    def loop(self):
        self.check_end(steps_of(self.batches))

    def leave(self):
        if len(self.rest) > 1:
            taken = self.draw.randint(1, len(self.rest) - 1)
            got = steps_of(islice(self.batches, taken))
            assert got == self.rest[:taken], self.done
            self.step = 0

    def set_epoch(self):
        self.epoch, self.step = self.draw.randint(0, 2), 0
        self.dataset.set_epoch(self.epoch)
        self.dataset.loader.seek(0)

    def seek(self):
        self.step = self.draw.randint(0, STEPS - 1)
        self.dataset.loader.seek(self.step)

    def copy(self):
        twin = self.draw.choice([copy.copy, copy.deepcopy, repickled])
        self.serve(twin(self.dataset))

    def save(self):
        """Save a state inside of a loop or after it, for another DataLoader."""
        if not self.is_stateful:
            return
        rest = self.rest
        some = self.draw.randint(1, len(rest))
        taken = self.draw.choice([some, len(rest), len(rest) + 1])
        assert steps_of(islice(self.batches, taken)) == rest[:taken], self.done
        state = self.batches.state_dict()
        self.serve(as_dataset(make_loader(self.folder)))
        self.batches.load_state_dict(state)
        self.step += min(taken, len(rest))
        if taken >= len(rest):
            self.check_end([])
        if taken == len(rest):  # Perhaps an empty loop first: as_dataset says why.
            self.check_end(steps_of(self.batches) or steps_of(self.batches))
        elif self.draw.random() < 0.5:
            self.leave()
        if taken != len(rest):
            self.loop()  # Until then this process knows no epoch but its own.

    def run(self):
        """Some calls of which each is made or left out, then a loop that tells."""
        moves = [(0.6, self.draw.choice([self.seek, self.seek, self.set_epoch]))]
        moves += [(0.6, self.leave), (0.2, self.copy), (0.4, self.another)]
        moves += [(0.5, self.save), (1.0, self.loop)]
        for _ in range(3):
            for chance, call in moves:
                if self.draw.random() < chance and self.epoch < 4:
                    self.done.append(call.__name__)
                    call()
            if self.epoch > 2:
                self.set_epoch()


def repickled(dataset):
    return pickle.loads(pickle.dumps(dataset))


def test_loops_copies_moves_and_states_in_any_order(folder, epochs):
    for seed in range(8):
        RandomUse(folder, epochs, seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 208, 20))
def test_many_more_orders_of_loops_copies_moves_and_states(folder, epochs, first):
    for seed in range(first, first + 20):
        RandomUse(folder, epochs, seed).run()


@pytest.mark.parametrize("workers", [2, 3])
def test_a_state_in_the_last_round_of_workers_is_not_at_the_end(
    folder, epochs, workers
):
    kind = stateful.StatefulDataLoader
    options: dict[str, Any] = {"method": "fork", "kind": kind}
    for start in (0, 1):
        dataset = as_dataset(make_loader(folder))
        dataset.loader.seek(start)
        batches = feed(dataset, workers, **options)
        for taken in range(STEPS - start - workers, STEPS - start - 1):
            got = steps_of(islice(batches, taken))
            assert got == epochs[0][start : start + taken]
            state = batches.state_dict()
            resumed = feed(as_dataset(make_loader(folder)), workers, **options)
            resumed.load_state_dict(state)
            assert steps_of(islice(resumed, 1)) == [epochs[0][start + taken]]
            assert steps_of(resumed) == epochs[0], (start, taken)
            dataset.loader.seek(start)


@pytest.mark.slow
def test_any_order_with_workers_of_every_start(folder, epochs):
    for seed in range(3):
        RandomUse(folder, epochs, seed, ["spawn", "forkserver", "fork"]).run()


def test_a_loop_left_after_a_seek_begins_its_epoch_again(folder, epochs):
    """Whichever loop of a dataset is next: of the process, or of its workers."""
    fresh: dict[str, Any] = {}
    kept, own = {"persistent_workers": True}, {"num_workers": 0}
    for first, second in ((fresh, fresh), (fresh, own), (own, kept), (kept, fresh)):
        dataset = as_dataset(make_loader(folder))
        before, after = (
            feed(dataset, **{"method": None if one is own else "fork"} | one)
            for one in (first, second)
        )
        assert steps_of(after) == epochs[0]
        dataset.loader.seek(7)
        assert steps_of(islice(before, 1)) == epochs[1][7:8]
        twin = copy.copy(dataset)
        assert steps_of(after) == epochs[1], (first, second)
        assert steps_of(before) == epochs[2], (first, second)
        assert steps_of(twin) == epochs[1]


def test_a_state_saved_after_the_loop_is_of_the_next_epoch(folder, epochs):
    """Also where the end is none of the steps at which workers' states are kept."""
    for workers, every in ((1, 2), (2, 4), (2, 100)):
        options: dict[str, Any] = {"kind": stateful.StatefulDataLoader}
        options["snapshot_every_n_steps"] = every
        first = feed(as_dataset(make_loader(folder)), workers, **options)
        assert steps_of(first) == epochs[0]
        second = feed(as_dataset(make_loader(folder)), workers, **options)
        second.load_state_dict(first.state_dict())
        assert steps_of(second) == epochs[1], (workers, every)


class Passes(IterableDataset):
    """Some passes of a dataset in each loop."""

    def __init__(self, dataset, number):
        self.dataset, self.number = dataset, number

    def __iter__(self):
        for _ in range(self.number):
            yield from self.dataset


class First(Passes):
    """The first steps of a dataset."""

    def __iter__(self):
        for number, batch in enumerate(self.dataset):
            if number == self.number:
                return
            yield batch


def test_several_datasets_have_their_epochs_each(folder, epochs):
    for persistent in (False, True):
        both = ChainDataset([as_dataset(make_loader(folder)) for _ in range(2)])
        batches = feed(both, persistent_workers=persistent)
        for epoch in range(2):
            got = steps_of(batches)
            for step in epochs[epoch]:
                assert got.count(step) == 2


def test_several_passes_in_a_loop_are_several_epochs(folder, epochs):
    got = steps_of(feed(Passes(as_dataset(make_loader(folder)), 2)))
    assert sorted(got) == sorted(epochs[0] + epochs[1])


def test_a_wrapper_that_ends_early_loses_no_step(folder, epochs):
    for persistent in (False, True):
        dataset = First(as_dataset(make_loader(folder)), 2)
        batches = feed(dataset, persistent_workers=persistent)
        for _ in range(2):
            assert sorted(steps_of(batches)) == sorted(epochs[0][:4])


@pytest.fixture
def damaged(tmp_path):
    """A file of 200 rows in order, a page of which is damaged: steps 20 to 23."""
    path = tmp_path / "damaged.parquet"
    rows = pa.array([[n] for n in range(200)], pa.list_(pa.int32()))
    pq.write_table(
        pa.table({"input_ids": rows}),
        path,
        row_group_size=16,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
        write_page_index=True,
    )
    chunk = pq.ParquetFile(path).metadata.row_group(5).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 0xFF
    path.write_bytes(content)
    return str(path)


def test_errors_of_workers_name_their_steps_and_the_loop_ends(damaged):
    for workers in (1, 2):
        loader = numbered_loader(damaged, sequences=pf.Windows(1), shuffle=None)
        batches = iter(feed(as_dataset(loader), workers))
        got, errors = [], []
        while True:
            try:
                got += first_tokens(next(batches))
            except StopIteration:
                break
            except CorruptFileError as error:
                errors.append(error)
                loader.skip(error.steps)
        assert got == [*range(80), *range(96, 200)]
        assert len(errors) == 4
        assert errors[0].steps == (20, 21, 22, 23)
        assert (errors[0].file, errors[0].row_group) == (damaged, 5)


def test_calls_while_workers_run_act_or_are_refused(folder):
    """Every public method and property: a new one needs a line here."""
    loader = make_loader(folder)
    batches = iter(feed(as_dataset(loader)))
    next(batches)
    refused = {
        "skip": ([5],),
        "set_weights": ({"a": 1.0},),
        "state_dict": (),
        "step": None,
        "num_steps_left": None,
    }
    # These ask for nothing that depends on the consumer's position, or move the loader:
    # the next loop begins there, as their documentation says.
    answered = {
        *("load_state_dict", "seek", "set_epoch", "locate", "plan", "steps_of"),
        *("stats", "metrics", "view", "check_ranks", "close", "at", "weight", "epoch"),
    }
    settings = {"dataset_names", "num_sequences", "num_dropped_tokens"}
    settings |= {"num_padding_tokens"}
    settings |= {name for name in dir(loader.view().settings) if name[0] != "_"}
    public = {name for name, _ in inspect.getmembers(pf.Loader) if name[0] != "_"}
    assert public <= refused.keys() | answered | settings
    for name, arguments in refused.items():
        with pytest.raises(InvalidArgumentError, match="worker processes"):
            getattr(loader, name) if arguments is None else getattr(loader, name)(
                *arguments
            )
    loader.seek(4)  # The consumer says where it is, and the state keeps the skip.
    loader.skip([6])
    assert loader.state_dict()["step"] == 4


def test_skipping_nothing_after_an_error_is_refused(damaged):
    loader = numbered_loader(damaged, sequences=pf.Windows(1), shuffle=None)
    loader.skip(())
    batches = iter(loader)
    with pytest.raises(CorruptFileError):
        list(batches)
    with pytest.raises(InvalidArgumentError, match="got no steps"):
        loader.skip(())
    loader.skip([20, 21, 22, 23])
    next(batches)
    loader.skip(())
