"""The programs of docs/explanation/other-frameworks.md, where their framework is.

`make test-trainers ARGS=frameworks` runs them.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from made.pages import FENCE
from made.shared_data import ROOT
from pagefeed.cli.demo.data import write_data

PAGE = (ROOT / "docs/explanation/other-frameworks.md").read_text()
PROGRAMS = {
    needs[1]: found["text"]
    for found in FENCE.finditer(PAGE)
    if (needs := re.search(r"needs ([\w.]+)", found["skip"] or ""))
}
[RUN] = [found["text"] for found in FENCE.finditer(PAGE) if "run.py" in found["more"]]
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "JAX_PLATFORMS": "cpu",
}


def is_installed(name: str) -> bool:
    """Whether a module can be imported; its package may be one of several parts."""
    package = name.rpartition(".")[0]
    return (not package or is_installed(package)) and find_spec(name) is not None


def test_the_page_has_all_four():
    assert {*PROGRAMS} == {"tensorflow", "datasets", "nvidia.dali", "flax"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_takes_batches_and_tells_the_next_step(name, tmp_path):
    if not is_installed(name):
        pytest.skip("make test-trainers ARGS=frameworks")
    write_data(tmp_path / "corpus")
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, "program.py"],
        check=False,
        cwd=tmp_path,
        env=os.environ | QUIET | {"HF_HOME": str(tmp_path / "hf")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shape = r"\(128,\)" if name == "datasets" else r"\(8, 128\)"
    assert re.search(rf"{shape}\D* 6\b", done.stdout.splitlines()[-1]), done.stdout
