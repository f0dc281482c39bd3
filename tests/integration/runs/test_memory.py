"""A run holds what it was given, however much data there is."""

import json
import re
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shared_data import shared
from pagefeed.core._base import FIELDS
from pagefeed.errors import ReloadWarning

MEMORY = 8 << 20
SLACK = 64 << 20
PAGE = 1 << 18  # the last page that is needed may always be loaded
LATE = 1 << 20  # known once they are there: dictionaries of each thread, plans
ROW = 1024
NUM_TOKENS = 50 * MEMORY // 4  # 50 times the memory, as int32

PROGRAM = """
import json, re, sys, warnings
import pagefeed as pf
from pagefeed.errors import ReloadWarning

warnings.simplefilter("ignore", ReloadWarning)  # memory is meant to be too little

def private():
    status = open("/proc/self/status").read()
    return int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) * 1024

before = private()
loader = pf.Loader(
    pf.parquet(sys.argv[1], column="input_ids"),
    sequences=pf.Windows(1024), batch_size=16, memory={memory}, num_threads=2,
    shuffle={shuffle!r}, fields={fields!r},
)
peak, steps = before, 0
for batch in loader:
    steps += 1
    if steps % 16 == 0:
        peak = max(peak, private())
print(json.dumps([peak - before, steps, loader.stats()["peak_bytes"]]))
"""


@pytest.fixture(scope="module")
def large_file(tmp_path_factory) -> Path:
    """Random tokens in row groups of 4 MB, small pages."""
    path: Path = tmp_path_factory.mktemp("large") / "large.parquet"
    rng = np.random.default_rng(0)
    schema = pa.schema({"input_ids": pa.list_(pa.int32())})
    rows = 1024
    with pq.ParquetWriter(path, schema, data_page_size=1 << 16) as writer:
        for _ in range(NUM_TOKENS // (rows * ROW)):
            tokens = rng.integers(0, 30_000, rows * ROW, dtype=np.int32)
            offsets = np.arange(rows + 1, dtype=np.int32) * ROW
            lists = pa.ListArray.from_arrays(offsets, tokens)
            writer.write_table(pa.table({"input_ids": lists}))
    return path


@pytest.mark.parametrize(
    ("shuffle", "fields"), [("page", ("input_ids",)), (None, tuple(FIELDS))]
)
def test_private_memory_stays_within_the_budget(
    large_file, run_python, shuffle, fields
):
    program = PROGRAM.format(memory=MEMORY, shuffle=shuffle, fields=fields)
    program = f"import sys; sys.argv[1:] = [{str(large_file)!r}]\n" + program
    grown, steps, peak_bytes = json.loads(run_python(program))
    assert steps == NUM_TOKENS // ROW // 16
    assert peak_bytes <= MEMORY + PAGE + LATE
    assert grown <= MEMORY + SLACK, f"{grown >> 20} MiB"


SHORT_PROGRAM = """
import json, re, sys, warnings
from itertools import islice
from pathlib import Path
import pagefeed as pf
from pagefeed.errors import ReloadWarning

warnings.simplefilter("ignore", ReloadWarning)

def private():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) * 1024

sequences = {{"windows": pf.Windows(8), "documents": pf.Documents()}}[sys.argv[3]]
before = private()
loader = pf.Loader(
    pf.parquet(sys.argv[1], column=sys.argv[2]),
    sequences=sequences, batch_size=64, memory={memory}, num_threads=2,
    shuffle=pf.Shuffle(window="64MiB"), rank=0, world_size=1,
)
peak = before
for place in (0, len(loader) // 2):
    loader.seek(place)
    for batch in islice(loader, 100):
        peak = max(peak, private())
print(json.dumps([peak - before, loader.stats()["peak_bytes"]]))
"""


@pytest.mark.parametrize("kind", ["windows", "documents"])
def test_plans_of_short_sequences_are_inside_the_budget(
    large_file, tmp_path, run_python, kind
):
    """Windows of 8 tokens, and rows of a number: millions of them are mixed."""
    path, column = large_file, "input_ids"
    if kind == "documents":
        path, column = tmp_path / "numbers.parquet", "number"
        numbers = pa.table({"number": pa.array(np.arange(10**7))})
        pq.write_table(numbers, path, use_dictionary=False, row_group_size=1 << 20)
    memory = 2 * MEMORY
    program = SHORT_PROGRAM.format(memory=memory)
    arguments = [str(path), column, kind]
    program = f"import sys; sys.argv[1:] = {arguments!r}\n" + program
    grown, peak_bytes = json.loads(run_python(program))
    assert peak_bytes <= memory + PAGE
    assert grown <= memory + SLACK, f"{grown >> 20} MiB"


DOCUMENTS_PROGRAM = """
import json, re, sys, warnings
from itertools import islice
import pagefeed as pf
from pagefeed.errors import ReloadWarning

warnings.simplefilter("ignore", ReloadWarning)

def private():
    status = open("/proc/self/status").read()
    return int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) * 1024

before = private()
loader = pf.Loader(
    pf.parquet(sys.argv[1:], column="text"),
    sequences=pf.Documents(columns=["id", "text"]), batch_size=16, num_threads=2,
    memory={memory}, rank=0, world_size=1,
)
peak = before
for batch in islice(loader, 30):
    peak = max(peak, private())
print(json.dumps([peak - before, loader.stats()["pages_loaded"]]))
"""


def test_private_memory_of_documents(run_python):
    """Pages of 10 MB, whose dictionaries are as large: each read needs many buffers."""
    paths = sorted(map(str, shared("data", "corpus").glob("*.parquet")))
    memory = 64 << 20
    program = DOCUMENTS_PROGRAM.format(memory=memory)
    program = f"import sys; sys.argv[1:] = {paths!r}\n" + program
    grown, loads = json.loads(run_python(program))
    assert loads > 200  # Far more than there are: they do not fit.
    assert grown <= memory + SLACK, f"{grown >> 20} MiB"


def take(large_file, num_steps, memory, shuffle):
    loader = pf.Loader(
        pf.parquet(large_file, column="input_ids"),
        sequences=pf.Windows(ROW),
        batch_size=16,
        memory=memory,
        shuffle=shuffle,
        rank=0,
        world_size=1,
    )
    for _ in islice(loader, num_steps):
        pass
    return loader


def test_too_little_memory_is_told_once(large_file):
    wide = pf.Shuffle(window="256MiB")
    with pytest.warns(ReloadWarning, match=f"memory={MEMORY} bytes is too") as told:
        loader = take(large_file, 400, MEMORY, wide)
    assert len(told) == 1
    assert told[0].filename == __file__
    stats = loader.stats()
    assert stats["pages_reloaded"] > 0.1 * stats["pages_loaded"]


def test_memory_that_suffices_is_not_told_of(large_file):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take(large_file, 400, "256MiB", pf.Shuffle(window="64MiB"))
        take(large_file, 400, "256MiB", "row")


def test_rows_of_data_beyond_memory_are_told_of_once(large_file):
    with pytest.warns(ReloadWarning, match="about [0-9]+ times an epoch") as told:
        loader = take(large_file, 400, MEMORY, "row")
    assert len(told) == 1
    [times] = map(int, re.findall("about ([0-9]+) times", str(told[0].message)))
    run = loader.view().run
    epochs = 400 * run.batch_size / run.num_sequences
    seen = loader.stats()["pages_loaded"] / len(run.datasets[0].index) / epochs
    assert seen / 1.5 < times < seen * 1.5


@pytest.mark.parametrize(("memory", "batch_size"), [(16, 1), (24, 4), (32, 4), (64, 8)])
def test_the_counter_has_the_values_of_rows_that_are_there(
    tmp_path, memory, batch_size
):
    """A batch that is being made has few of its values: they are counted as read."""
    size, path = 1 << 20, tmp_path / "large.parquet"
    schema = pa.schema([("id", pa.int64()), ("blob", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="none") as out:
        for number in range(40):
            row = {"id": [number], "blob": [bytes([number]) * size]}
            out.write_table(pa.table(row, schema))
    loader = pf.Loader(
        pf.parquet(path, column="id"),
        sequences=pf.Documents(columns=["blob"]),
        batch_size=batch_size,
        memory=f"{memory}MiB",
        num_threads=2,
        epochs=1,
    )
    for _ in loader:
        pass
    peak = loader.stats()["peak_bytes"]
    assert 2 * batch_size * size < peak <= memory << 20
