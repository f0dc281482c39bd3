"""Count the reads of each file: requests, bytes, retries and times."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from pagefeed import _core
from pagefeed.checks import BAD_PAGES
from pagefeed.errors import shown_path

MOST_FILES = 10
"""Files that metrics and reports name."""


def reads_by_file() -> dict[str, dict[str, float]]:
    """Return the reads of each file, see :meth:`Loader.stats`."""
    num_bad = Counter(file for file, *_ in BAD_PAGES)
    found = {}
    for path, requests, size, retries, seconds, times in _core.reads_of_files(
        [0.5, 0.99]
    ):
        name = shown_path(path)
        found[name] = {
            "requests": requests,
            "bytes": size,
            "retries": retries,
            "seconds": seconds,
            "p50_seconds": times[0],
            "p99_seconds": times[1],
            "bad_pages": num_bad[name],
        }
    by_time = sorted(found.items(), key=lambda file: -file[1]["seconds"])
    return dict(by_time)


def slowest_files() -> dict[str, dict[str, float]]:
    """Return the reads of the files that took most time, ten at most."""
    return dict(islice(reads_by_file().items(), MOST_FILES))
