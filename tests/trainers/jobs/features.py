"""Loaders with each feature, and what a plain loop sees of them."""

import traceback
from functools import partial

import numpy as np
import pyarrow as pa

import pagefeed as pf
from adapters import Megatron, digest_of
from job import BATCH_SIZE, LENGTH, Job
from pagefeed.selection.table_columns import TableColumns
from pagefeed.tables.snapshot import DataFile, snapshot_dataset

STEPS, SAVED, INTERRUPTED = 20, 6, 5
COUNTED = (Megatron,)
"""Those that keep a number of samples, and no state of the loader."""


class Drawn:
    """A policy that remembers how often it was asked."""

    def __init__(self):
        self.draws = 0

    def update(self, step, losses):
        del losses
        self.draws += 1
        one, other = np.random.default_rng([step, self.draws]).random(2).tolist()
        return {"one": one, "other": other}

    def state_dict(self):
        return {"draws": self.draws}

    def load_state_dict(self, state):
        self.draws = state["draws"]


class Feature:
    """A feature of loaders: the data, the settings, what an adapter is told."""

    def __init__(self, job: Job, name: str, options) -> None:
        self.job, self.name, self.options = job, name, options

    def data(self, *, before: bool):
        """The dataset, or what it was before something was erased or added."""
        folder = self.job.folder
        files = sorted((folder / "data").glob("*.parquet"))
        first = pf.parquet(folder / "data", column="input_ids")
        match self.name:
            case "infilling":
                return first.infill(pf.Infill(prefix=4000, middle=4001, suffix=4002))
            case "teacher":
                aligned = {"teacher_ids": -1}
                path = folder / "teacher"
                return pf.parquet(path, column="input_ids", aligned=aligned)
            case "policy":
                one, other = (pf.parquet(each, column="input_ids") for each in files)
                parts = {"one": (one, 1.0), "other": (other, 1.0)}
                return pf.mix(parts, max_steps=14)
            case "table":
                rows = [
                    DataFile(str(each), {}, np.array([3, 17, 44])) for each in files
                ]
                columns = TableColumns("delta:3", {"input_ids": pa.list_(pa.int32())})
                log, column = str(folder), "input_ids"
                return snapshot_dataset(rows, columns, log, None, None, column=column)
            case "erasure" if not before:
                return first.erase(rows={first.files[1]: [5, 6, 30]})
            case "growth" if not before:
                return pf.parquet(folder / "grown", column="input_ids")
        return first

    def loader(self, *, before: bool = False, batch_size: int = BATCH_SIZE):
        """A loader of this rank."""
        settings = {**self.options, "batch_size": batch_size}
        match self.name:
            case "balance":
                settings["balance"] = "attention"
            case "budget":
                settings["sequences"] = pf.Documents(max_length=2 * LENGTH)
                settings |= {"batch_size": None, "batch_tokens": batch_size * LENGTH}
            case "policy":
                settings["fields"] = ("input_ids", "labels", "dataset_ids")
        return self.job.loader(self.data(before=before), **settings)

    def new(self):
        """A loader that a run begins with."""
        loader = self.loader()
        if self.name == "growth":
            loader.load_state_dict(self.state(), grown=self.grown)
        return loader

    def state(self):
        """The state of a plain loop over the data as they were, after some steps."""
        loader = self.loader(before=True)
        self.taken(loader, SAVED)
        return loader.state_dict()

    @property
    def grown(self):
        return "next-epoch" if self.name == "growth" else None

    @property
    def told(self):
        """What an adapter is told."""
        if self.name == "policy":
            return {"policy": Drawn(), "every": 3}
        return {} if self.grown is None else {"grown": self.grown}

    def taken(self, loader, steps, *, beside=True):
        """What a plain loop sees."""
        learner = None
        if self.name == "policy":
            learner = pf.mixing.Learner(loader, Drawn(), every=3)
        seen = []
        while True:
            for batch in loader:
                taught = {"teacher_ids"} & {*batch} if beside else ()
                columns = {name: batch[name] for name in taught}
                seen.append(digest_of(batch["input_ids"], **columns))
                if learner is not None:
                    learner.step()
                if len(seen) == steps:
                    return seen

    def plain(self, case, make):
        """What the runs of a case should see."""
        taken = partial(self.taken, beside=make.takes_columns)
        if case in ("resumed", "other size"):
            size = BATCH_SIZE // 2 if case == "other size" else BATCH_SIZE
            loader = self.loader(batch_size=size)
            loader.load_state_dict(self.state(), grown=self.grown)
            return taken(loader, STEPS)
        loader = self.new()
        if case == "peeked":
            next(iter(loader))
        if case == "interrupted":  # A policy begins anew with a run, not with a loop.
            self.taken(loader, INTERRUPTED - 1)
            loader = self.new() if self.name == "policy" else loader
        if case != "second":
            return taken(loader, STEPS)
        self.taken(loader, STEPS)
        epoch, loader = loader.epoch, self.new()
        if make not in COUNTED:
            loader.set_epoch(epoch)
        return taken(loader, STEPS)

    def adapted(self, case, make):
        """What they see in a framework."""
        options = self.job.options
        options["run"] = f"{self.name}-{case}".replace(" ", "-")
        if case in ("resumed", "other size"):
            options["max_steps"] = SAVED + 2
            make(self.loader(before=True), **self.told).train(save_at=(SAVED,))
            options["max_steps"] = SAVED + STEPS
            size = BATCH_SIZE // 2 if case == "other size" else BATCH_SIZE
            loader = self.loader(batch_size=size)
            adapter = make(loader, **self.told)
            return adapter.train(stop_at=STEPS + 1, resume=str(SAVED))
        options["max_steps"] = STEPS
        loader = self.new()
        if case == "peeked":
            next(iter(loader))
        adapter = make(loader, **self.told)
        if case == "interrupted":
            adapter.train(stop_at=INTERRUPTED)
        if case == "second":
            adapter.train(stop_at=STEPS + 1)
        return adapter.train(stop_at=STEPS + 1)


def runs(job: Job, make):
    """Yield each feature and case, what a framework saw, and what a plain loop does."""
    for name, case in job.options["cells"]:
        feature = Feature(job, name, make.options)
        try:
            seen = feature.adapted(case, make)
        except Exception:  # noqa: BLE001 - the test shows it
            seen = traceback.format_exc()
        yield name, case, seen, feature.plain(case, make)
