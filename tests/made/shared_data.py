"""Where the data that is too large for the repository lies, for tests that read it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shared(*parts: str) -> Path:
    """The path of shared data, or a skip that says where it was looked for.

    The folder is `$PAGEFEED_SHARED`, or else `shared` beside the repository.
    """
    folder = Path(os.environ.get("PAGEFEED_SHARED") or ROOT.parent / "shared")
    path = folder.joinpath(*parts)
    if not path.exists():
        import pytest  # Recipes are tried on wheels without it.

        pytest.skip(f"{path} is absent; PAGEFEED_SHARED names the folder of test data")
    return path
