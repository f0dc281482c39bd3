"""What killed processes leave of caches serves the next, see ``simulate_caches.py``."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_caches_whose_users_are_killed_at_any_write():
    command = [sys.executable, str(TESTS / "simulate_caches.py"), "--count", "25"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "25 seeds" in done.stdout
    for end in ("read all", "died of a write", "were killed"):
        assert f" 0 {end}" not in done.stdout, (
            "a fault that never happens tests nothing"
        )
