"""Report a batch that does not come, while the loop still waits for it.

One thread of the process looks at all loops. It sleeps until a wait may be due, which
is once in ``warn_after`` seconds where none is, and ends when the last loop is gone.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pagefeed.checks.awaited import awaited_by
from pagefeed.core._base import logger
from pagefeed.core.batches import AnyView, Locked

SHORTEST_LOOK = 0.02
"""Seconds between two looks at least, however small a wait is asked for."""

Call = Callable[[float, AnyView], object]
"""Function of the seconds waited so far, and of the view that waits."""


class _Listener(NamedTuple):
    """A function that is called for waits of some seconds or more."""

    after: float
    call: Call


Listeners = dict[object, _Listener]
"""Listeners by their alarm; None for the log of a loader."""
Wait = tuple[float, dict[object, float]]
"""When a wait began, and the seconds at which each listener hears of it next."""


class Watcher(Locked):
    """Looks at the waits of all loops of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._views = WeakKeyDictionary[AnyView, Wait]()
        self._alarms: Listeners = {}
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def watch(self, view: AnyView) -> None:
        """Look at the waits of a view from now on."""
        with self.lock:
            if self._process != os.getpid():  # Loops of another process wait there.
                self._views.clear()
                self._process = os.getpid()
            self._views.setdefault(view, (0, {}))
            self._start()

    def listen(self, alarm: object, after: float, call: Call) -> None:
        """Call a function for every wait of the process that lasts some seconds."""
        with self.lock:
            self._alarms[alarm] = _Listener(after, call)
            self._start()

    def leave(self, alarm: object) -> None:
        """Stop calling the function of an alarm."""
        with self.lock:
            self._alarms.pop(alarm, None)

    def _start(self) -> None:
        """Start the thread if anything listens, or wake it."""
        if not any(map(self._listeners, self._views)):
            return
        if self._thread is not None and self._thread.is_alive():
            self._wake.set()
            return
        self._wake = threading.Event()  # A fork may leave the old event locked.
        thread = threading.Thread(
            target=self._run, args=(self._wake,), name="waits", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as problem:  # The limit of threads is reached.
            logger.info("waits cannot be logged: %s", problem)
        else:
            self._thread = thread

    def _run(self, wake: threading.Event) -> None:
        while (pause := self._look()) is not None:
            wake.wait(max(pause, SHORTEST_LOOK))
            wake.clear()

    def _look(self) -> float | None:
        """Report the waits that are due; return seconds until the next look, if any.

        No view is referenced between two looks.
        """
        with self.lock:
            listeners = [(view, self._listeners(view)) for view in self._views]
            pauses = [each.after for _, all_of in listeners for each in all_of.values()]
            if not pauses:
                self._thread = None
                return None
        pause = min(pauses)
        for view, of_view in listeners:
            since = view.waits.since
            if since is None:
                continue
            begun, due_at = self._views[view]
            if begun != since:
                due_at = {}
                self._views[view] = since, due_at
            for key, listener in of_view.items():
                due = due_at.get(key, listener.after)
                seconds = time.monotonic() - since
                if seconds >= due and view.waits.since == since:
                    while due <= seconds:
                        due *= 2
                    _call(listener.call, seconds, view)
                due_at[key] = due
                pause = min(pause, since + due - time.monotonic())
        return pause

    def _listeners(self, view: AnyView) -> Listeners:
        """Return the functions to call for waits of a view."""
        after = view.settings.warn_after
        own: Listeners = {} if after is None else {None: _Listener(after, tell_wait)}
        return own | self._alarms


def _call(call: Call, seconds: float, view: AnyView) -> None:
    """Call a function for a wait; log an error that it raises."""
    try:
        call(seconds, view)
    except Exception:  # noqa: BLE001 - training and this thread continue
        logger.warning("an alarm of waits raised:\n%s", traceback.format_exc())


waits = Watcher()
"""That of this process."""


def watch_waits(view: AnyView) -> None:
    """Look at the waits of a view from now on."""
    waits.watch(view)


def tell_wait(seconds: float, view: AnyView) -> None:
    """Say in the log that a batch does not come, and what it waits for."""
    logger.warning("pagefeed: no batch for %.3g s%s", seconds, awaited_by(view))
