"""When long work shall end early: it was told to, or nobody waits for it any more."""

from __future__ import annotations

import threading

from explorer.search.certificate import Stopped


class EndedError(Exception):
    """Raised by work that was told to end and has nothing to show by then."""


class Stopping:
    """Asked from the working thread, set from any; once it is true it stays so."""

    def __init__(self, abandoned: Stopped | None = None) -> None:
        """Start with nothing to stop for.

        Args:
            abandoned: tells whether nobody waits for the work any more.
        """
        self._abandoned = abandoned
        self._told = threading.Event()

    def tell(self) -> None:
        """Ask the work to end; returns at once."""
        self._told.set()

    def __call__(self) -> bool:
        """Return whether to end."""
        if self._abandoned is not None and self._abandoned():
            self._told.set()
        return self.told

    @property
    def told(self) -> bool:
        """Whether it was told so far, without looking who is there."""
        return self._told.is_set()
