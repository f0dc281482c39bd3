"""Threads of this process, as the system sees them."""

import os
import time


def tasks() -> set[str]:
    """The threads there are."""
    return set(os.listdir("/proc/self/task"))


def ends(own: set[str], seconds: float = 30) -> bool:
    """Whether threads end: one that was joined is seen for some time yet."""
    end = time.monotonic() + seconds
    while own & tasks():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
