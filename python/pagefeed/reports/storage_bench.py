"""Measure remote storage: latency, and bandwidth by size and number of requests."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from timeit import timeit

from pagefeed.core._base import check_positive, parse_bytes
from pagefeed.core.storage import Located
from pagefeed.errors import InvalidArgumentError

__all__ = ["Measured", "StorageBench", "bench_storage"]

SIZES = ("64KiB", "1MiB", "8MiB")
DEPTHS = (1, 8, 32)
LATENCIES = 16
ENOUGH = 0.8
"""Share of the best bandwidth that is enough: more would cost requests and memory."""
SCATTER = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Bandwidth of reads of one size, at one number of requests at a time."""

    request_bytes: int
    depth: int
    """Requests at a time."""
    requests: int
    bytes_per_second: float


@dataclass(frozen=True, kw_only=True)
class StorageBench:
    """Measurements of a storage from this machine, and advice."""

    files: int
    file_bytes: int
    """Bytes of the file that was read."""
    latency_seconds: tuple[float, float, float]
    """Latency of requests for one byte: least, median and greatest."""
    measured: list[Measured]
    """Bandwidth for each size and number of requests."""
    best_bytes_per_second: float
    request_bytes: int
    """Smallest size of a request that gives most of the best bandwidth."""
    max_in_flight: int
    """Fewest requests at a time that reach enough bandwidth."""
    retries: int
    """Requests that had to be sent again."""

    @property
    def advice(self) -> list[str]:
        """Settings to change, in sentences."""
        under_way = self.max_in_flight * self.request_bytes / 1e6
        lines = [
            (
                f"{self.max_in_flight} requests of {self.request_bytes >> 10} KiB at a "
                f"time give {ENOUGH:.0%} of the best: {under_way:.1f} MB under way"
            )
        ]
        if self.request_bytes > 256 << 10:
            lines.append(
                "pages much smaller than this leave bandwidth unused: "
                'shuffle="row_group", or a larger data_page_size at writing'
            )
        if self.retries:
            lines.append(f"{self.retries} requests failed and were sent again")
        return lines


def bench_storage(
    located: Located,
    *,
    sizes: Sequence[str | int] | None = None,
    depths: Sequence[int] | None = None,
    seconds: float = 1.0,
) -> StorageBench:
    """Measure reads of pieces from all over the largest of some files.

    Args:
        located: The files, in any storage.
        sizes: Bytes of requests to try; 64 KiB, 1 MiB and 8 MiB by default.
        depths: Numbers of requests at a time to try; 1, 8 and 32 by default.
        seconds: Time for each pair of these.

    Raises:
        InvalidArgumentError: If the file is too small to say anything.
        FileAccessError: If it cannot be read.

    Example:
        >>> from pagefeed.core.storage import located
        >>> found = located("corpus/")  # Or a URL.  # doctest: +SKIP
        >>> bench_storage(
        ...     found, sizes=[1024], depths=[1], seconds=0.1
        ... ).max_in_flight  # doctest: +SKIP
        1
    """
    storage = located.storage
    file_bytes, file = max((storage.size(file), file) for file in located.files)
    given = [parse_bytes(size, name="sizes") for size in sizes or SIZES]
    depths = [check_positive(depth, "depths") for depth in depths or DEPTHS]
    wanted = [size for size in given if size <= file_bytes]
    if not wanted:
        raise InvalidArgumentError(
            f"the largest file, {file}, has {file_bytes} bytes: name one that is "
            f"larger than the requests to be tried, of {min(given)} bytes and more"
        )
    before = storage.counts().get("retries", 0)

    def read(request: int, size: int) -> None:
        begin = request * SCATTER % (file_bytes - size + 1)
        storage.read(file, begin, begin + size)

    read(0, 1)  # Connects.
    latencies = sorted(
        timeit(partial(read, request, 1), number=1) for request in range(LATENCIES)
    )
    measured = [
        _measured(read, size, depth, seconds) for size in wanted for depth in depths
    ]
    best = max(result.bytes_per_second for result in measured)
    enough = [result for result in measured if result.bytes_per_second >= ENOUGH * best]
    chosen = min(enough, key=lambda result: (result.request_bytes, result.depth))
    return StorageBench(
        files=len(located.files),
        file_bytes=file_bytes,
        latency_seconds=(latencies[0], statistics.median(latencies), latencies[-1]),
        measured=measured,
        best_bytes_per_second=best,
        request_bytes=chosen.request_bytes,
        max_in_flight=chosen.depth,
        retries=storage.counts().get("retries", 0) - before,
    )


def _measured(
    read: Callable[[int, int], None], size: int, depth: int, seconds: float
) -> Measured:
    numbers = count(1)
    begin = time.perf_counter()
    end = begin + seconds

    def reader(_: int) -> int:
        done = 0
        while not done or time.perf_counter() < end:
            read(next(numbers), size)
            done += 1
        return done

    with ThreadPoolExecutor(depth) as pool:
        requests = sum(pool.map(reader, range(depth)))
    elapsed = time.perf_counter() - begin
    return Measured(
        request_bytes=size,
        depth=depth,
        requests=requests,
        bytes_per_second=requests * size / elapsed,
    )
