"""Who works first in one process: pages before searches, and searches in order of asking."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from explorer.config.errors import refuse

TURNS_VARIABLE = "EXPLORER_SEARCHES"
LEAST_TURNS, MOST_TURNS = 2, 64
POLL_SECONDS = 0.2


class Turns:
    """A queue whose first few may work.

    Whoever waits asks now and then whether it shall go on waiting, so that a search that is
    stopped, or whose person has left, takes no turn.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        """Start with nobody in it; ``most`` tells how many may work at once."""
        self._most = most
        self._changed = threading.Condition()
        self._queue: list[object] = []

    @contextmanager
    def turn(self, stopped: Callable[[], bool], waiting: Callable[[int], None]) -> Iterator[None]:
        """Wait for a turn and keep it while the block lasts; a stopped one enters without.

        Args:
            stopped: asked while it waits; True ends the waiting.
            waiting: called while it waits, with how many must end before it: 1 for the next.

        Raises:
            InputError: when the environment states no usable number of turns.
        """
        most, place = self._most(), object()
        with self._changed:
            self._queue.append(place)
        try:
            with self._changed:
                while (ahead := self._queue.index(place) - most + 1) > 0 and not stopped():
                    waiting(ahead)
                    self._changed.wait(POLL_SECONDS)
            yield
        finally:
            with self._changed:
                self._queue.remove(place)
                self._changed.notify_all()


class Foreground:
    """Counts the runs of pages, which people wait for, so that long work lets them go first."""

    def __init__(self) -> None:
        """Start with no page running."""
        self._lock = threading.Lock()
        self._running = 0
        self._idle = threading.Event()
        self._idle.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a page's run while the block lasts."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Leave out a page's run while it stands still inside the block."""
        self._add(-1)
        try:
            yield
        finally:
            self._add(1)

    def wait(self, seconds: float) -> None:
        """Return once no page runs, or after so many seconds."""
        self._idle.wait(seconds)

    def _add(self, runs: int) -> None:
        with self._lock:
            self._running += runs
            if self._running:
                self._idle.clear()
            else:
                self._idle.set()


def searches_at_once() -> int:
    """Return how many searches may run at once: as the environment says, else one a processor.

    Raises:
        InputError: when the environment says anything but a whole number from 1.
    """
    text = os.environ.get(TURNS_VARIABLE)
    if not text:
        return min(max(os.cpu_count() or 1, LEAST_TURNS), MOST_TURNS)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_TURNS):
        raise refuse(TURNS_VARIABLE, text, f"expected a whole number from 1 to {MOST_TURNS}")
    return int(text)


TURNS = Turns(searches_at_once)
"""The turns of this process."""
FOREGROUND = Foreground()
"""The pages of this process."""
