"""Reads mutated files under a memory limit: a line of JSON in, one out.

Usage: child.py MEMORY, the bytes it may take beyond what an idle process has.
"""

import json
import os
import re
import resource
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from readers import READERS, warm

import pagefeed as pf

STATUS = Path("/proc/self/status")


def attempt(job: dict[str, Any]) -> str:
    """What came of it; "" is well."""
    for name in job["read"]:
        try:
            is_whole = READERS[name](job)
        except pf.errors.InternalError as error:
            return f"{name}: InternalError: {error}"
        except pf.errors.PagefeedError as error:
            if job.get("is_sound"):
                return f"{name}: a sound file is refused: {error!r}"
            continue
        except BaseException as error:  # noqa: BLE001  a panic is not an Exception
            return f"{name}: {type(error).__name__}: {error}"
        if is_whole and job.get("is_cut"):
            return f"{name}: a file that is cut is taken for a whole one"
        if not is_whole and job.get("is_sound"):
            return f"{name}: parts of a sound file are rejected"
    return ""


def main() -> None:
    # Standard error is shown where a file ends the process: it is for that alone.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="pagefeed-fuzz-") as folder:
        os.chdir(folder)
        warm()
        limit_memory(int(sys.argv[1]))
        print(flush=True)  # Ready: what follows is under the caller's timeout.
        for line in sys.stdin:
            print(json.dumps(attempt(json.loads(line))), flush=True)


def limit_memory(beyond: int) -> None:
    """Limit memory to what is taken now, and so much beyond."""
    # What may be written to. Of addresses alone, malloc sets aside 64 MiB for each of 8
    # arenas a processor: these say nothing about memory, and differ by machine.
    (taken,) = re.findall(r"VmData:\s+(\d+) kB", STATUS.read_text())
    limit = (int(taken) << 10) + beyond
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
