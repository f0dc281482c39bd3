"""NumPy alone is enough to import the package and to ask for help."""

import json

import pytest

BLOCK = """
import sys

ALLOWED = {*sys.stdlib_module_names, "numpy", "pagefeed"}

class OnlyNumPy:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, OnlyNumPy())
"""

LOADED = """
import json
import sys
before = {name.partition(".")[0] for name in sys.modules}
import pagefeed
for name in pagefeed.__all__:
    getattr(pagefeed, name)
after = {name.partition(".")[0] for name in sys.modules}
print(json.dumps(sorted(after - before - sys.stdlib_module_names)))
"""


@pytest.mark.parametrize("name", ["torch", "pyarrow", "tokenizers", "pandas", "polars"])
def test_the_block_blocks(run_python, name):
    run_python(f"import importlib.util as util; assert util.find_spec({name!r})")
    with pytest.raises(AssertionError, match=f"{name} is blocked"):
        run_python(f"{BLOCK}\nimport {name}")


def test_import_without_extras(run_python):
    program = f"{BLOCK}\nfrom pagefeed import *\nprint(Loader, parquet)"
    assert run_python(program).strip()


def test_help_without_extras(run_python):
    program = f"""{BLOCK}
from pagefeed.cli import main
sys.argv = ["pagefeed", "--help"]
try:
    main()
except SystemExit as exit:
    assert not exit.code
"""
    assert "usage: pagefeed" in run_python(program)


def test_import_leaves_installed_extras_alone(run_python):
    assert json.loads(run_python(LOADED)) == ["numpy", "pagefeed"]


@pytest.mark.parametrize(
    "name",
    [
        *("accelerate", "deepspeed", "jax", "lightning", "megatron"),
        *("olmo", "ray", "torchtitan", "transformers"),
    ],
)
def test_adapters_name_their_extra(run_python, name):
    program = f"""{BLOCK}
try:
    import pagefeed.integrations.{name}
except ImportError as error:
    print(type(error).__name__, error)
"""
    said = run_python(program)
    assert said.startswith("MissingDependencyError")
    assert f"pip install 'pagefeed[{name}]'" in said


def test_attention_names_its_extra(run_python):
    program = f"{BLOCK}\nimport pagefeed.integrations.attention as found\nprint(found)"
    assert "attention" in run_python(program)
