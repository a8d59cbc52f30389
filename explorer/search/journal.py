"""Studies in one file: Optuna's journal, with a lock that a killed process cannot keep."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from explorer.config.errors import InputError, refuse

RECORD = b'{"op_code":'
"""How every line of a journal begins."""

CHUNK = 4096
NONSENSE = (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError)


def open_journal(path: str, create: bool) -> JournalStorage:
    """Return the studies in a journal file.

    Raises:
        InputError: when the file cannot be read or made, is no journal, or is damaged.
    """
    try:
        file = Path(path)
        if file.exists() and not file.is_file():
            raise refuse("storage", path, "not a file; expected a journal file")
        if not create and not file.exists():
            raise refuse("storage", path, "there is no such journal file")
        journal = _Journal(path)
        _check_lines(file)
        return JournalStorage(journal)
    except OSError as error:
        raise refuse("storage", path, f"cannot be used: {error.strerror}") from None
    except InputError:
        raise
    except NONSENSE:
        # Whatever a record that only looks like one makes Optuna stumble over.
        raise _no_journal(path) from None


class _Journal(JournalFileBackend):
    """A journal file whose damage is told as such."""

    def __init__(self, path: str) -> None:
        super().__init__(path, lock_obj=_Lock(path))

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        try:
            yield from super().read_logs(log_number_from)
        except (ValueError, RecursionError):
            raise _no_journal(self._file_path) from None


class _Lock(JournalFileOpenLock):
    """An advisory lock on the journal itself, which the system releases when its holder dies.

    Optuna's own locks are further files, which outlive a killed process: the next one then waits
    half a minute before it takes the lock by force.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path
        self._descriptor = -1

    def acquire(self) -> bool:
        with ExitStack() as opened:
            descriptor = os.open(self._path, os.O_RDWR)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _mend(descriptor, self._path)
            self._descriptor = descriptor
            opened.pop_all()
        return True

    def release(self) -> None:
        os.close(self._descriptor)


def _check_lines(file: Path) -> None:
    """Refuse a file of other lines than records; only the last may be cut short.

    Optuna would take a last line that it cannot read for one that is still being written, and
    then write behind it.
    """
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line[: len(RECORD)] != RECORD[: len(line)]:
                raise _damaged(str(file), number)
            if line.endswith(b"\n"):
                try:
                    json.loads(line)
                except NONSENSE:
                    raise _damaged(str(file), number) from None


def _mend(descriptor: int, path: str) -> None:
    """Cut off the last record where its writer died, or the disk was full, in its middle.

    Only the holder of the lock may do so: no one else is writing then.
    """
    end = os.fstat(descriptor).st_size
    tail, start = b"", end
    while start and b"\n" not in tail:
        length = min(start, CHUNK)
        start -= length
        tail = os.pread(descriptor, length, start) + tail
    tail = tail.rpartition(b"\n")[2]
    if not tail:
        return
    if tail[: len(RECORD)] != RECORD[: len(tail)]:
        raise _no_journal(path)
    os.ftruncate(descriptor, end - len(tail))


def _no_journal(path: str) -> InputError:
    return refuse("storage", path, "not a journal of studies, or damaged; expected another file")


def _damaged(path: str, line: int) -> InputError:
    """Say where the damage is: what stands before it can be taken along."""
    if line == 1:
        return _no_journal(path)
    return refuse(
        "storage",
        path,
        f"not a journal of studies, or damaged from line {line} on; expected another file, such "
        f"as a copy of the {line - 1:,} lines before it",
    )
