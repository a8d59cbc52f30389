"""Searches take turns: so many at once, first come first served, none for who has left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.search import background, job, stopping, turns
from explorer.search.background import Task
from explorer.search.job import SearchJob
from explorer.search.space import default_space
from explorer.search.stopping import Stopping
from explorer.search.study import SearchSettings
from explorer.search.turns import FOREGROUND, Foreground, Turns, searches_at_once

PATIENCE = 30.0


@pytest.fixture
def one_turn(monkeypatch: pytest.MonkeyPatch) -> Turns:
    queue = Turns(lambda: 1)
    monkeypatch.setattr(background, "TURNS", queue)
    monkeypatch.setattr(job, "TURNS", queue)
    return queue


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.005)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_never_more_at_once_and_all_in_order(most: int) -> None:
    queue, began = Turns(lambda: most), list[int]()
    releases = [threading.Event() for _ in range(8)]

    def work(number: int) -> None:
        with queue.turn(lambda: False, lambda _ahead: None):
            began.append(number)
            releases[number].wait(PATIENCE)

    threads = []
    for number in range(len(releases)):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        wait_for(lambda: len(queue._queue) > number)  # noqa: B023 - called within the pass
    wait_for(lambda: len(began) == most)
    assert set(began) == set(range(most))
    for number, release in enumerate(releases):
        release.set()
        threads[number].join(PATIENCE)
        wait_for(lambda: len(began) == min(number + most + 1, 8))  # noqa: B023 - as above
        assert began[most:] == list(range(most, len(began)))
    assert queue._queue == []


def test_a_failure_gives_the_turn_on() -> None:
    queue = Turns(lambda: 1)
    with (
        pytest.raises(ZeroDivisionError),
        queue.turn(lambda: False, lambda _ahead: None),
    ):
        raise ZeroDivisionError
    with queue.turn(lambda: False, lambda ahead: pytest.fail(f"waits for {ahead}")):
        pass


def test_the_next_is_told_how_many_are_before_it_and_begins_when_they_end(
    one_turn: Turns,
) -> None:
    release = threading.Event()
    first = Task(lambda _told, _stopped: release.wait(PATIENCE)).start()
    wait_for(lambda: first.status().state == "working")
    second = Task(lambda _told, _stopped: "second").start()
    wait_for(lambda: second.status().ahead == 1)
    third = Task(lambda _told, _stopped: "third").start()
    wait_for(lambda: third.status().ahead == 2)
    assert (second.status().state, third.status().state) == ("waiting", "waiting")
    second.stop()
    assert second.wait(PATIENCE)
    assert (second.status().state, second.status().result) == ("stopped", None)
    wait_for(lambda: third.status().ahead == 1)
    release.set()
    assert third.wait(PATIENCE)
    assert (third.status().state, third.status().result) == ("done", "third")
    assert third.status().ahead == 0


def test_a_search_waits_for_its_turn_and_one_stopped_there_tries_nothing(
    one_turn: Turns,
) -> None:
    release = threading.Event()
    first = Task(lambda _told, _stopped: release.wait(PATIENCE)).start()
    wait_for(lambda: first.status().state == "working")
    space = default_space(preset_scenario("ascend910a-qwen3.8-27b"))
    waiting, stopped = (SearchJob(space, SearchSettings(trials=3)).start() for _ in range(2))
    wait_for(lambda: stopped.status().ahead == 2)
    stopped.stop()
    assert stopped.wait(PATIENCE)
    assert (stopped.status().state, stopped.status().done) == ("stopped", 0)
    assert stopped.status().result is None
    assert waiting.status().state == "waiting"
    release.set()
    assert waiting.wait(PATIENCE)
    assert (waiting.status().state, waiting.status().done) == ("done", 3)


def test_what_nobody_waits_for_any_more_ends_waiting_or_working(one_turn: Turns) -> None:
    gone = threading.Event()

    def work(_told: object, stopped: Callable[[], bool]) -> str:
        wait_for(stopped)
        return "partly"

    space = default_space(preset_scenario("mt3000-llama2-13b"))
    working = Task(work, gone.is_set).start()
    wait_for(lambda: working.status().state == "working")
    waiting = SearchJob(space, SearchSettings(trials=100), abandoned=gone.is_set).start()
    wait_for(lambda: waiting.status().ahead == 1)
    gone.set()
    assert working.wait(PATIENCE)
    assert waiting.wait(PATIENCE)
    assert (working.status().state, working.status().result) == ("stopped", "partly")
    assert (waiting.status().state, waiting.status().done) == ("stopped", 0)
    assert one_turn._queue == []


def test_a_search_at_work_ends_when_nobody_waits_for_it_any_more() -> None:
    space = default_space(preset_scenario("mt3000-llama2-13b"))
    gone = threading.Event()
    running = SearchJob(space, SearchSettings(trials=100_000), True, abandoned=gone.is_set).start()
    wait_for(lambda: running.status().done > 2)
    gone.set()
    assert running.wait(PATIENCE)
    assert running.status().state == "stopped"


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPLORER_SEARCHES", raising=False)
    monkeypatch.setattr(turns.os, "cpu_count", lambda: 1)
    assert searches_at_once() == 2
    monkeypatch.setattr(turns.os, "cpu_count", lambda: 12)
    assert searches_at_once() == 12
    monkeypatch.setenv("EXPLORER_SEARCHES", "1")
    assert searches_at_once() == 1


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "65", "²", " 2"])
def test_another_number_is_refused_where_a_search_begins(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("EXPLORER_SEARCHES", text)
    with pytest.raises(InputError, match="whole number from 1 to 64"):
        searches_at_once()
    task = Task(lambda _told, _stopped: "never").start()
    assert task.wait(PATIENCE)
    assert task.status().state == "failed"
    assert task.status().error.startswith("EXPLORER_SEARCHES = ")


def test_long_work_lets_pages_go_first_but_never_waits_for_long() -> None:
    foreground, went_on = Foreground(), threading.Event()

    def work() -> None:
        foreground.wait(PATIENCE)
        went_on.set()

    with foreground.running(), foreground.running():
        foreground.wait(0.001)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert not went_on.wait(0.05)
    assert went_on.wait(PATIENCE)
    with pytest.raises(ZeroDivisionError), foreground.running():
        raise ZeroDivisionError
    foreground.wait(PATIENCE)


def test_long_work_goes_on_while_a_page_stands_still() -> None:
    foreground, went_on = Foreground(), threading.Event()

    def work() -> None:
        foreground.wait(PATIENCE)
        went_on.set()

    with foreground.running():
        with foreground.pausing():
            started = time.monotonic()
            work()
            assert time.monotonic() - started < PATIENCE
        went_on.clear()
        threading.Thread(target=work, daemon=True).start()
        assert not went_on.wait(0.05)
    assert went_on.wait(PATIENCE)


def test_work_that_is_asked_while_a_page_runs_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(FOREGROUND, "wait", waits.append)
    monkeypatch.setattr(stopping, "WORK_SECONDS", 0.0)
    asked = Stopping()
    assert not asked()
    asked.tell()
    assert asked()
    assert waits == [stopping.WAIT_SECONDS] * 2
    monkeypatch.setattr(stopping, "WORK_SECONDS", PATIENCE)
    assert asked()
    assert len(waits) == 2
