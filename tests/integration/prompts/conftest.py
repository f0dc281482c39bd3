"""Prompts that all tests of queues share."""

from pathlib import Path

import pytest

import pagefeed as pf
from made.prompts import write


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("prompts")
    return folder


@pytest.fixture(scope="session")
def math(folder) -> pf.dataset.ParquetDataset:
    return write(folder, "math")


@pytest.fixture(scope="session")
def code(folder) -> pf.dataset.ParquetDataset:
    return write(folder, "code", 300)
