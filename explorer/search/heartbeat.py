"""Signs of life: a thread that tells the storage that a worker's trial still runs."""

from __future__ import annotations

import contextlib
import threading

import optuna
from optuna.exceptions import StorageInternalError

from explorer.search.storage import Storage


class Heartbeat:
    """A thread that gives signs of life for the trial that runs now.

    Only a database takes them; elsewhere there is no thread.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._trial_id: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        if self._storage.server is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def of(self, trial: optuna.Trial | None) -> None:
        """Take over another trial, with a first sign of life."""
        self._trial_id = None if trial is None else trial._trial_id
        if self._trial_id is not None:
            self._storage.beat(self._trial_id)

    def _run(self) -> None:
        while not self._ended.wait(self._storage.heartbeat_seconds):
            trial_id = self._trial_id
            # A server that cannot be reached is reported by the search itself.
            with contextlib.suppress(StorageInternalError):
                if trial_id is not None:
                    self._storage.beat(trial_id)
