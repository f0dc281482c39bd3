"""Each framework is tested where it is installed: `make test-trainers`."""

from pathlib import Path

import pytest

from trainers.running import write_data


def pytest_collection_modifyitems(items):
    """What frameworks warn of is theirs."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the numbered tokens, and room for checkpoints."""
    path: Path = tmp_path_factory.mktemp("trainer")
    write_data(path)
    return path
