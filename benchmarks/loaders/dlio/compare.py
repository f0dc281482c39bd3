"""DLIO's loop on the same samples, by its own readers and by those that read Parquet.

    PYTHONPATH=benchmarks python benchmarks/loaders/dlio/compare.py [--tokens 16e6]

Needs an environment with `dlio-benchmark` (README.md). Rates are those that DLIO writes
into its summary, of an epoch without computation, in turns; medians of the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import data

HERE = Path(__file__).resolve().parent
LENGTH = 2048
ROW_GROUP = 64

READERS = {
    "npy, DLIO's reader": ("npy", {}),
    "HDF5, DLIO's reader": ("hdf5", {}),
    "Parquet, pyarrow": ("npz", {"reader_classname": "pagefeed_reader.PyarrowReader"}),
    "Parquet, pagefeed's reader": (
        "npz",
        {"reader_classname": "pagefeed_reader.PagefeedReader"},
    ),
    "Parquet, pagefeed's loader": (
        "npz",
        {
            "data_loader_classname": "pagefeed_reader.PagefeedLoader",
            "data_loader_sampler": "iterative",
        },
    ),
}
"""Name, suffix by which DLIO finds the files, and options of its section `reader`."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=float, default=16e6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    made = data.make(
        num_tokens=int(options.tokens), row_length=LENGTH, row_group_rows=ROW_GROUP
    )
    rates: dict[str, list[float]] = {name: [] for name in READERS}
    with tempfile.TemporaryDirectory(dir=data.CACHE) as folder:
        _write(Path(folder), made)
        for _ in range(options.rounds):
            for name in READERS:
                rates[name].append(_rate(Path(folder), name, made, options))
    print("| reader | samples a second |")
    print("|---|---|")
    for name, found in rates.items():
        print(f"| {name} | {statistics.median(found):,.0f} |")


def _write(folder: Path, made: data.Data) -> None:
    """The same samples, where and as DLIO looks for each kind."""
    import h5py

    for kind in ("npy", "hdf5", "npz"):
        (folder / kind / "train").mkdir(parents=True)
        (folder / kind / "valid").mkdir()
    rows = np.memmap(made.flat, np.uint16, "r").reshape(
        len(made.parquet), -1, made.row_length
    )
    for number, path in enumerate(made.parquet):
        samples = rows[number].astype(np.int32)
        # Samples lie along the last axis of npy files, along the first of HDF5.
        np.save(folder / f"npy/train/{number}.npy", np.moveaxis(samples, 0, -1))
        with h5py.File(folder / f"hdf5/train/{number}.hdf5", "w") as file:
            file["records"] = samples
        # DLIO knows no Parquet: it finds files by the suffix of a format it knows.
        (folder / f"npz/train/{number}.npz").symlink_to(path.resolve())


def _rate(
    folder: Path, name: str, made: data.Data, options: argparse.Namespace
) -> float:
    kind, reader = READERS[name]
    settings = {
        "framework": "pytorch",
        "workflow.generate_data": False,
        "workflow.train": True,
        "workflow.checkpoint": False,
        "workflow.evaluation": False,
        "dataset.data_folder": folder / kind,
        "dataset.format": kind,
        "dataset.keep_files": True,
        "dataset.num_files_train": len(made.parquet),
        "dataset.num_files_eval": 0,
        "dataset.num_subfolders_train": 0,
        "dataset.num_samples_per_file": made.num_rows // len(made.parquet),
        "dataset.record_length": made.row_length * 4,
        "reader.data_loader": "pytorch",
        "reader.batch_size": options.batch_size,
        "reader.read_threads": options.workers,
        "reader.read_type": "memory",
        "reader.sample_shuffle": "seed",
        "train.epochs": 1,
        "train.computation_time": 0.0,
        **{f"reader.{key}": value for key, value in reader.items()},
    }
    output = Path(tempfile.mkdtemp(dir=folder))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "dlio_benchmark.main", "workload=default"),
            *(f"++workload.{key}={value}" for key, value in settings.items()),
            f"++workload.output.folder={output}",
            f"hydra.run.dir={output}",
        ],
        env=os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{_inherited()}"},
        cwd=output,
        capture_output=True,
        text=True,
        check=False,
    )
    summaries = list(output.rglob("summary.json"))
    if not summaries:
        raise SystemExit(f"{name}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    metrics = json.loads(summaries[0].read_text())["metric"]
    return float(metrics["train_throughput_mean_samples_per_second"])


def _inherited() -> str:
    return os.environ.get("PYTHONPATH", "")


if __name__ == "__main__":
    main()
