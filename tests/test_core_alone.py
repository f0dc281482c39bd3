"""The core works without any room: copied alone, it delivers what the package does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagefeed import _core

DATA_PLANE = Path(_core.__file__)
PACKAGE = DATA_PLANE.parent
CORE = ("core", "errors.py", "parsing.py", "contract.py", DATA_PLANE.name)
"""The core and the contract, with the data plane and the names that it exports."""

RUN = """
import hashlib, json, sys
from pagefeed.contract import LoaderState
from pagefeed.core.dataset import ParquetRows
from pagefeed.core.loader import Loader
from pagefeed.core.sequences import Packed, Windows
from pagefeed.core.storage import located

found = located(sys.argv[1])
data = ParquetRows(files=found.files, storage=found.storage, column="input_ids")

def digest(batches):
    each = [
        b"".join(batch[name].tobytes() for name in sorted(batch)) for batch in batches
    ]
    return len(each), hashlib.sha256(b"".join(each)).hexdigest()

for cut in (Windows(64), Packed(64)):
    def loader():
        return Loader(data, sequences=cut, batch_size=4, seed=3, epochs=2)
    first, again = loader(), loader()
    batches = iter(first)
    begun = [next(batches) for _ in range(7)]
    state = json.loads(json.dumps(first.state_dict()))
    again.load_state_dict(state)
    print(cut, *digest([*begun, *again]), *digest(loader()))
"""


@pytest.fixture
def folder(tmp_path):
    rows = [[(n * 31 + k) % 500 for k in range(n * 7 % 150)] for n in range(400)]
    for part in range(2):
        table = pa.table({"input_ids": rows[part::2]})
        pq.write_table(table, tmp_path / f"{part}.parquet", data_page_size=2000)
    return tmp_path


def delivered(path: Path, data: Path) -> list[str]:
    """Run the core of the package in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(data)],
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_core_delivers_alone_what_the_package_does(tmp_path_factory, folder):
    alone = tmp_path_factory.mktemp("alone")
    package = alone / "pagefeed"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in CORE:
        copy = shutil.copytree if (PACKAGE / name).is_dir() else shutil.copy
        copy(PACKAGE / name, package / name)
    found = delivered(alone, folder)
    assert found == delivered(PACKAGE.parent, folder)
    for line in found:
        *_, resumed_steps, resumed, steps, whole = line.split()
        assert (resumed_steps, resumed) == (steps, whole)
