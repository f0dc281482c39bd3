"""Read columns of broken files under a memory limit; one line of JSON for each.

Usage: probe.py MEMORY < jobs, the bytes it may allocate. A job is {"path", "column",
"expected", "options"}; `expected` is a sound file whose column pyarrow reads, or null.
"""

import functools
import json
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import pagefeed
from models import golden

for name in pagefeed.__all__:  # While there is memory.
    getattr(pagefeed, name)


@functools.lru_cache(maxsize=16)
def expected_column(path: str, column: str) -> pa.ChunkedArray:
    return golden.plain(golden.whole_column(Path(path), column))


def read(job: dict[str, Any]) -> str:
    """What came of it: "same", "different", "wrong length", "wrong counts"..."""
    index = pagefeed.PageIndex.build(
        job["path"], column=job["column"], **job["options"]
    )
    pages = golden.read_pages(index)
    for page in pages:
        try:
            page.validate(full=True)
        except pa.ArrowInvalid as error:
            return f"invalid array: {error}"
    if [len(page) for page in pages] != index.page_rows.tolist():
        return "wrong length"
    counts = [list(golden.leaf_counts(golden.plain(page))) for page in pages]
    # Without lists, the values of texts are as many as the writer's statistics say.
    single = index.value_bytes > 0 and all(len(count) == 1 for count in counts)
    if single and [count[0] for count in counts] != index.page_values.tolist():
        return "wrong counts"
    if job["expected"] is None:
        return "values"
    whole = expected_column(job["expected"], job["column"])
    if sum(map(len, pages)) != len(whole):
        return "wrong length"
    pages = [golden.plain(page) for page in pages]
    if any(page.type != whole.type for page in pages):
        return "different"
    joined = pa.chunked_array(pages, whole.type)
    return "same" if golden.same(joined, whole) else "different"


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"outcome": read(job), "message": ""}
    except pagefeed.errors.PagefeedError as error:
        named = error.file == job["path"] and job["path"] in str(error)
        kind = type(error).__name__
        return {"outcome": kind, "message": str(error), "names_file": named}
    except BaseException as error:  # noqa: BLE001  a panic is not an Exception
        return {"outcome": f"untyped {type(error).__name__}", "message": str(error)}


def main() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print(flush=True)  # Ready: what follows is under the caller's timeout.
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line))), flush=True)


main()
