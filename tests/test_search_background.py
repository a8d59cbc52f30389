"""Work in the background: its result, its end, no lost failure."""

from __future__ import annotations

import threading

import pytest

from explorer.config.errors import refuse
from explorer.search.background import Task

PATIENCE = 30.0


def test_a_task_ends_with_its_result_and_says_how_far_it_was() -> None:
    def work(progress, stopped):
        progress(3, 7)
        return "found" if not stopped() else "stopped"

    task = Task(work)
    assert task.status().state == "waiting"
    assert task.start().wait(PATIENCE)
    status = task.status()
    assert (status.state, status.result, status.done, status.total) == ("done", "found", 3, 7)
    assert status.finished


def test_a_task_stops_when_asked_and_keeps_what_it_had() -> None:
    began = threading.Event()

    def work(progress, stopped):
        steps = 0
        while not stopped():
            steps += 1
            progress(steps, 0)
            began.set()
        return steps

    task = Task(work).start()
    assert began.wait(PATIENCE)
    assert not task.status().finished
    task.stop()
    assert task.wait(PATIENCE)
    status = task.status()
    assert status.state == "stopped"
    assert status.result == status.done > 0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (refuse("pareto", "x", "expected y"), "pareto = x: expected y"),
    ],
)
def test_a_failure_is_kept_as_a_sentence(error: Exception, message: str) -> None:
    def work(_progress, _stopped):
        raise error

    task = Task(work).start()
    assert task.wait(PATIENCE)
    assert (task.status().state, task.status().error) == ("failed", message)
    assert task.status().result is None


def test_the_thread_is_a_daemon() -> None:
    release = threading.Event()
    task = Task(lambda _progress, _stopped: release.wait(PATIENCE)).start()
    thread = next(t for t in threading.enumerate() if t.name == "task")
    assert thread.daemon
    release.set()
    assert task.wait(PATIENCE)
