"""Whether the person that a piece of work is for is still there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

GRACE_SECONDS = 30.0
"""A window that lost its connection for less long finds its search still running."""

LOOK_SECONDS = 0.5


def leaving() -> Callable[[], bool]:
    """Return what tells, from any thread, whether this session has been gone for a while.

    Streamlit keeps what a session held after its window was closed, and tells nobody: so whoever
    works for it looks. A reload is another session.
    """
    context = get_script_run_ctx()
    return Leaving(_connected(context.session_id)) if context else lambda: False


class Leaving:
    """Tells whether nobody has been seen connected for longer than the grace."""

    def __init__(
        self, connected: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with somebody there; only one thread is to ask."""
        self._connected, self._clock = connected, clock
        self._looked_at = -math.inf
        self._missed_since: float | None = None

    def __call__(self) -> bool:
        """Return whether it is so; a search may ask as often as it likes."""
        now = self._clock()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            if self._connected():
                self._missed_since = None
            elif self._missed_since is None:
                self._missed_since = now
        return self._missed_since is not None and now - self._missed_since >= GRACE_SECONDS


def _connected(session_id: str) -> Callable[[], bool]:
    # Outside a server there is nobody to leave.
    return lambda: not runtime.exists() or runtime.get_instance().is_active_session(session_id)
