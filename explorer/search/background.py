"""Any long work in the background: start it, watch it, stop it, take its result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from explorer.config.errors import InputError
from explorer.search.certificate import Progress, Stopped
from explorer.search.stopping import EndedError, Stopping
from explorer.search.turns import TURNS

Result = TypeVar("Result")
State = Literal["waiting", "working", "done", "stopped", "failed"]
Work: TypeAlias = Callable[[Progress, Stopped], Result]


@dataclass(frozen=True)
class TaskStatus(Generic[Result]):
    """A consistent picture of a task.

    Attributes:
        state: what it is doing; ``stopped`` when it was asked to end early.
        done, total: how far it is, in units of its own; 0 and 0 until it says so.
        ahead: while it waits for its turn, how many must end before it.
        result: what it returned, or None; of a stopped task what it had by then, None where its
            turn had not come.
        error: why it failed, one sentence; empty unless it did.
    """

    state: State = "waiting"
    done: int = 0
    total: int = 0
    ahead: int = 0
    result: Result | None = None
    error: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in ("done", "stopped", "failed")


class Task(Generic[Result]):
    """Runs one piece of work in a daemon thread, when its turn has come."""

    def __init__(self, work: Work[Result], abandoned: Stopped | None = None) -> None:
        """Prepare the task.

        Args:
            work: is handed where to report and whom to ask when to stop.
            abandoned: asked with it, beside ``stop``: whether nobody waits for it any more.
        """
        self._work = work
        self._stopped = Stopping(abandoned)
        self._lock = threading.Lock()
        self._status: TaskStatus[Result] = TaskStatus()
        self._thread = threading.Thread(target=self._run, name="task", daemon=True)

    def start(self) -> Task[Result]:
        """Start the thread and return the task; to be called once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ask the task to end; returns at once."""
        self._stopped.tell()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the thread, at most ``seconds``; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def status(self) -> TaskStatus[Result]:
        """Return what is known now."""
        with self._lock:
            return self._status

    def _run(self) -> None:
        try:
            with TURNS.turn(self._stopped, lambda ahead: self._set(ahead=ahead)):
                result = None if self._stopped() else self._begin()
            self._set(result=result, state="stopped" if self._stopped.told else "done")
        except InputError as error:
            self._set(state="failed", error=str(error))
        except Exception as error:  # the thread's last resort: whatever it was, it is shown
            self._set(state="failed", error=f"{type(error).__name__}: {error}")

    def _begin(self) -> Result | None:
        self._set(state="working", ahead=0)
        try:
            return self._work(self._on_progress, self._stopped)
        except EndedError:
            return None

    def _on_progress(self, done: int, total: int) -> None:
        self._set(done=done, total=total)

    def _set(self, **changes: object) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)  # type: ignore[arg-type]
