"""Each framework is tested where it is installed: `make test-trainers`."""

import sys
from pathlib import Path

import pytest

from trainers.running import ADAPTERS, write_data


def pytest_collection_modifyitems(items):
    """What frameworks warn of is theirs."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="module")
def adapter() -> str:
    """The adapter of the framework that this environment has."""
    name = Path(sys.prefix).name
    if name not in ADAPTERS:
        pytest.skip("make test-trainers ARGS=transformers")
    return name


@pytest.fixture(scope="session")
def ray_nodes():
    """A Ray cluster for all tests of a run: those that end a node get another."""
    from trainers.ray_nodes import Nodes

    nodes = Nodes()
    yield nodes
    nodes.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the numbered tokens, and room for checkpoints."""
    path: Path = tmp_path_factory.mktemp("trainer")
    write_data(path)
    return path
