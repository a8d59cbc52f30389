"""Options of the commands that work on a stored search, and how they take part in it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType
from typing import Any

from explorer.config.errors import refuse
from explorer.config.units import significant
from explorer.search.shared import Progress, SharedSearch
from explorer.search.storage import (
    HEARTBEAT_SECONDS,
    STORAGE_VARIABLE,
    Storage,
    open_storage,
    storage_address,
)
from explorer.search.study import SearchResult

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTED = b"ends after this trial; asked once more, at once\n"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a stored search."""
    parser.add_argument(
        "--storage",
        metavar="ADDRESS",
        help="a journal file, or postgresql://user@host/database; by default what the variable "
        f"{STORAGE_VARIABLE} holds",
    )
    parser.add_argument("--study", metavar="NAME", help="name of the search in the storage")
    parser.add_argument(
        "--heartbeat",
        type=int,
        default=HEARTBEAT_SECONDS,
        metavar="SECONDS",
        help="how often a running trial gives a sign of life, the same for all workers; one that "
        f"gives none for three times as long is tried again (default {HEARTBEAT_SECONDS})",
    )


def opened(options: argparse.Namespace, create: bool = True) -> Storage | None:
    """Return the storage that the options name, None where the search stays in memory.

    Raises:
        InputError: when a study has no storage or a storage no study, or it cannot be opened.
    """
    if options.study is None:
        if options.storage is not None:
            raise refuse("--storage", "", "needs --study, the name of the search in it")
        return None
    address = storage_address() if options.storage is None else options.storage
    if address is None:
        raise refuse("--study", options.study, f"needs --storage or {STORAGE_VARIABLE}")
    return open_storage(address, options.heartbeat, create)


def take_part(
    storage: Storage, found: Callable[[], SharedSearch], progress: Callable[[int], Progress]
) -> tuple[SearchResult, dict[str, Any]]:
    """Work on a stored search until it is complete; return its result and what to print of it.

    The first Ctrl-C or SIGTERM ends this process's part after its trial, a second one at once.

    Args:
        storage: where the search is; closed at the end.
        found: begins or joins the search.
        progress: gives what to call after each trial, from the number of trials.

    Raises:
        InputError: when the search cannot be joined or the storage is lost.
        KeyboardInterrupt: when it was asked to end.
    """
    with closing(storage), _asked_to_end() as asked:
        search = found()
        trials = search.settings.trials
        result = search.run(progress(trials), lambda: bool(asked), _say_that_it_waits())
        if result.stopped:
            best = "none yet" if result.best is None else significant(result.best_value)
            print(
                f"stopped after {result.trials} of {trials} trials, best {best}; "
                f"any worker goes on with study {search.name}",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
        here = search.workers[search.worker]
        return result, {"name": search.name, "storage": storage.label, "trials_here": here}


@contextmanager
def _asked_to_end() -> Iterator[list[int]]:
    """Collect the signals that ask for the end; each works as usual from the second time on.

    One that is ignored stays so: a shell's background job is not meant by the Ctrl-C of another.
    """
    asked: list[int] = []
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    usual = {number: old for number, old in handlers.items() if old is not signal.SIG_IGN}

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        # Before the note: whoever reads it may send the second signal at once.
        signal.signal(number, usual[signal.Signals(number)])
        # Unlike print, it may interrupt a print.
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), NOTED)

    for number in usual:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _say_that_it_waits() -> Callable[[int], None]:
    said = 0

    def waiting(trials: int) -> None:
        nonlocal said
        if trials != said:
            said = trials
            words = f"{trials} trial{'s' * (trials > 1)} of other workers"
            print(f"waiting for {words}", file=sys.stderr)

    return waiting
