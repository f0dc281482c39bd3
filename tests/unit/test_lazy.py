"""Lazy attributes: computed once, and no lock that a fork could leave locked."""

import subprocess
import sys
from pathlib import Path

from pagefeed.core._base.late import lazy

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "pagefeed"

FORKED = """
import os, threading
from pagefeed.core._base import lazy

class Thing:
    def __init__(self, make):
        self.make = make
    @lazy
    def value(self):
        return self.make()

begun, end = threading.Event(), threading.Event()
def slowly():
    begun.set()
    end.wait()
slow = Thing(slowly)
thread = threading.Thread(target=lambda: slow.value)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(Thing(lambda: 7).value)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
end.set()
thread.join()
"""


class Counted:
    calls = 0

    @lazy
    def value(self) -> int:
        """Number of calls."""
        self.calls += 1
        return self.calls


def test_a_value_is_computed_once_for_each_object():
    first, second = Counted(), Counted()
    assert [first.value, first.value, second.value] == [1, 1, 1]
    assert first.calls == 1
    assert Counted.value.__doc__ == "Number of calls."


def test_a_fork_while_a_thread_computes_leaves_the_child_free():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["7"]


def test_no_module_takes_the_lock_of_functools():
    users = [
        path
        for path in PACKAGE.rglob("*.py")
        if "import cached_property" in path.read_text()
    ]
    assert users == []
