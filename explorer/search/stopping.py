"""When long work shall end early: it was told to, or nobody waits for it any more."""

from __future__ import annotations

import threading
import time

from explorer.search.certificate import Stopped
from explorer.search.turns import FOREGROUND

WORK_SECONDS, WAIT_SECONDS = 0.005, 0.1
"""While pages run, work goes on for at least so long, then waits for them for at most so long."""


class EndedError(Exception):
    """Raised by work that was told to end and has nothing to show by then."""


class Stopping:
    """Asked from the working thread, set from any; once it is true it stays so.

    One interpreter serves all threads, so that being asked is also where work lets pages go first.
    """

    def __init__(self, abandoned: Stopped | None = None) -> None:
        """Start with nothing to stop for.

        Args:
            abandoned: tells whether nobody waits for the work any more.
        """
        self._abandoned = abandoned
        self._told = threading.Event()
        self._began_seconds = 0.0

    def tell(self) -> None:
        """Ask the work to end; returns at once."""
        self._told.set()

    def __call__(self) -> bool:
        """Return whether to end, after letting pages go first."""
        if self._abandoned is not None and self._abandoned():
            self._told.set()
        if time.monotonic() - self._began_seconds > WORK_SECONDS:
            FOREGROUND.wait(WAIT_SECONDS)
            self._began_seconds = time.monotonic()
        return self.told

    @property
    def told(self) -> bool:
        """Whether it was told so far, without looking who is there."""
        return self._told.is_set()
