"""Reads mutated files under a memory limit: a line of JSON in, one out.

Usage: child.py MEMORY, the bytes it may take beyond what an idle process has.
"""

import json
import re
import resource
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from saved_files import digest_of

import pagefeed as pf

BATCHES = 200
MOST = 1 << 22
STATUS = Path("/proc/self/status")


def read_pages(job: dict[str, Any]) -> None:
    """Every page by itself, as an array that pyarrow finds sound."""
    index = pf.PageIndex.build(job["path"], column=job["column"], **job["options"])
    rows = index.page_rows.tolist()
    for number, expected in enumerate(rows):
        page = pa.array(index.read_page(number))
        page.validate(full=len(page) < MOST)
        if len(page) != expected:
            raise AssertionError(f"page {number}: {len(page)} rows, not {expected}")


def read_batches(job: dict[str, Any]) -> None:
    """The same through the engine: as windows, as packed rows or as columns."""
    options: dict[str, Any] = {
        "memory": "16MiB",
        "num_threads": 2,
        "rank": 0,
        "world_size": 1,
    }
    sequences: Any = {
        "windows": pf.Windows(8),
        "packed": pf.Packed(8, eos=1),
        "documents": pf.Documents(columns=[job["column"]]),
    }[job["sequences"]]
    dataset = pf.parquet(job["path"], column=job["column"])
    loader = pf.Loader(dataset, sequences=sequences, batch_size=1, **options)
    for _ in islice(loader, BATCHES):
        pass


def read_saved(job: dict[str, Any]) -> None:
    """By way of a cache folder with a damaged file: what is read stays the same."""
    digest = digest_of(job["cache"])
    if digest != job["digest"]:
        raise AssertionError("other batches than those of a sound cache folder")


def attempt(job: dict[str, Any]) -> str:
    """What came of it; "" is well."""
    for read in [read_saved] if "cache" in job else [read_pages, read_batches]:
        try:
            read(job)
        except pf.errors.InternalError as error:
            return f"{read.__name__}: InternalError: {error}"
        except pf.errors.PagefeedError:
            continue
        except BaseException as error:  # noqa: BLE001  a panic is not an Exception
            return f"{read.__name__}: {type(error).__name__}: {error}"
    return ""


def main() -> None:
    # Standard error is shown where a file ends the process: it is for that alone.
    warnings.simplefilter("ignore", pf.errors.PaddingWarning)
    # What may be written to. Of addresses alone, malloc sets aside 64 MiB for each of 8
    # arenas a processor: these say nothing about memory, and differ by machine.
    (taken,) = re.findall(r"VmData:\s+(\d+) kB", STATUS.read_text())
    limit = (int(taken) << 10) + int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print(flush=True)  # Ready: what follows is under the caller's timeout.
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
