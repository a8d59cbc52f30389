"""Where studies are kept: in memory, in a journal file, or in a PostgreSQL database."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import (
    BaseStorage,
    InMemoryStorage,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
    get_storage,
)
from optuna.trial import FrozenTrial

from explorer.config.errors import InputError, refuse
from explorer.search.journal import open_journal

STORAGE_VARIABLE = "EXPLORER_STORAGE"
HEARTBEAT_SECONDS = 10
LONGEST_HEARTBEAT = 3600
GRACE_HEARTBEATS = 3
HANGING_GRACES = 4
SECRETS = (
    (re.compile(r"(?<=://)([^/@:]*):.*@"), r"\1:***@"),
    (re.compile(r"((?:password|passfile)=)[^&]*", re.IGNORECASE), r"\1***"),
)


@dataclass(frozen=True)
class Storage:
    """An open place of studies; any number of threads may use it.

    Attributes:
        backend: what Optuna reads and writes.
        label: its address as it may be shown, without password.
        heartbeat_seconds: how often a running trial gives a sign of life, where it can.
        server: the database behind ``backend``, or None.
    """

    backend: BaseStorage
    label: str
    heartbeat_seconds: int = HEARTBEAT_SECONDS
    server: RDBStorage | None = None

    @property
    def patience_seconds(self) -> float:
        """Seconds after which a trial that still runs has lost its worker.

        A database knows signs of life, so only a trial that got none at all, or hangs, becomes so
        old. Elsewhere it is all there is: no trial of a search takes nearly so long.
        """
        grace = GRACE_HEARTBEATS * self.heartbeat_seconds
        return grace * HANGING_GRACES if self.server is not None else grace

    def close(self) -> None:
        """End the connections to a database."""
        if self.server is not None:
            self.server.remove_session()
            self.server.engine.dispose()

    def beat(self, trial_id: int) -> None:
        """Give a sign of life for a running trial."""
        if self.server is not None:
            self.server.record_heartbeat(trial_id)

    def retry_lost(self, study: optuna.Study) -> None:
        """Queue again what ran on workers that give no sign of life any more."""
        _hush()
        optuna.storages.fail_stale_trials(study)

    def retry(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Queue a failed trial again, with the same parameters."""
        _hush()
        # It keeps the history of retries in the trial that it is given.
        RetryHeartbeatStaleTrialCallback()(study, copy.deepcopy(trial))

    def ask(self, study: optuna.Study) -> optuna.Trial:
        """Return the next trial of a study: a queued one, or a new one."""
        _hush()
        return study.ask()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what goes wrong with the storage into an InputError."""
        try:
            yield
        except StorageInternalError as error:
            raise self._lost(_reason(error)) from None
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from None

    def _lost(self, reason: str) -> InputError:
        kept = "what was recorded is kept, and the same search goes on once it can be used again"
        return refuse("storage", self.label, f"was lost: {reason}; {kept}")


def open_storage(
    address: str | None, heartbeat_seconds: int = HEARTBEAT_SECONDS, create: bool = True
) -> Storage:
    """Return the storage at an address.

    Args:
        address: None for memory, ``postgresql://...``, or the path of a journal file.
        heartbeat_seconds: how often a running trial gives a sign of life; the same for all who
            share a study. One that gives none for three times as long is tried again.
        create: whether a file or tables may be made where there are none.

    Raises:
        InputError: names the address, without its password, and what is wrong with it.
    """
    if not 1 <= heartbeat_seconds <= LONGEST_HEARTBEAT:
        raise refuse("heartbeat", heartbeat_seconds, f"expected 1 to {LONGEST_HEARTBEAT} seconds")
    if address is None:
        return Storage(InMemoryStorage(), "memory", heartbeat_seconds)
    label = shown_address(address)
    if "://" in address:
        # A quarter of a second, which only a database is worth.
        from explorer.search.server import open_server  # noqa: PLC0415

        grace = GRACE_HEARTBEATS * heartbeat_seconds
        _hush()
        server = open_server(address, label, heartbeat_seconds, grace, create)
        return Storage(get_storage(server), label, heartbeat_seconds, server)
    if not address.strip():
        raise refuse("storage", address, "expected a journal file or a database")
    return Storage(open_journal(address, create), label, heartbeat_seconds)


def storage_address() -> str | None:
    """Return the address that the environment names, None where it names none."""
    return os.environ.get(STORAGE_VARIABLE) or None


def shown_address(address: str) -> str:
    """Return an address with the passwords in it replaced by stars."""
    for secret, stars in SECRETS:
        address = secret.sub(stars, address)
    return address


def _reason(error: StorageInternalError) -> str:
    from explorer.search.server import reason  # noqa: PLC0415 - as above

    return reason(error)


def _hush() -> None:
    """Silence Optuna's remarks that heartbeats are experimental and meant for its own loop.

    For the whole process: a filter that is taken back again would be taken from other threads too.
    """
    warnings.filterwarnings("ignore", category=ExperimentalWarning)
    warnings.filterwarnings("ignore", message="Heartbeat of storage")
