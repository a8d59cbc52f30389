"""A search in the background: consistent pictures, prompt stops, no lost failure."""

from __future__ import annotations

import itertools
import math
import threading
import time
from dataclasses import replace

import pytest

from explorer.config.errors import refuse
from explorer.config.presets import load_scenario_preset
from explorer.config.scenario import parse_scenario
from explorer.search import job as module
from explorer.search.job import SearchJob, plain_settings, thinned
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.proof import ProofSettings
from explorer.search.space import Space, default_space
from explorer.search.study import SearchSettings, search
from explorer.serving.evaluate import evaluate

PATIENCE = 60.0


@pytest.fixture
def space() -> Space:
    return default_space(parse_scenario(load_scenario_preset("mt3000-llama2-7b").scenario))


def test_a_job_ends_with_what_a_search_finds(space: Space) -> None:
    settings = SearchSettings(trials=25, seed=4)
    job = SearchJob(space, settings)
    assert job.status().state == "waiting"
    assert job.start().wait(PATIENCE)
    status = job.status()
    expected = search(space, settings)
    assert status.state == "done"
    assert status.finished
    assert (status.done, status.total) == (25, 25)
    assert (status.best, status.best_value) == (expected.best, expected.best_value)
    assert str(status.history) == str(expected.history)
    assert status.certificate is None
    assert status.error == ""


def test_a_certified_job_ends_with_the_optimum(space: Space) -> None:
    pinned = default_space(space.base, {"plan.pp_prefill", "plan.micro_batch_prefill"})
    job = SearchJob(pinned, SearchSettings(trials=5), certified=True).start()
    assert job.wait(PATIENCE)
    status = job.status()
    assert status.state == "done"
    assert status.certificate.complete
    assert status.done == status.total == pinned.size
    assert status.certificate.gap(status.best_value) >= 0


def test_stop_returns_at_once_and_keeps_the_best_so_far(space: Space) -> None:
    settings = SearchSettings(trials=100_000, sampler="tpe")
    job = SearchJob(space, settings, certified=True).start()
    deadline = time.monotonic() + PATIENCE
    while job.status().done < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    asked = time.monotonic()
    job.stop()
    assert time.monotonic() - asked < 0.1
    assert job.wait(5.0)
    status = job.status()
    assert status.state == "stopped"
    assert status.best is not None
    assert 3 <= status.done < 100_000
    assert status.result.stopped
    assert status.certificate is None


def test_stopping_the_certificate_marks_it_incomplete(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = SearchJob(space, SearchSettings(trials=2), certified=True)
    on_block = job._on_block

    def stopping(done: int, total: int) -> None:
        on_block(done, total)
        job.stop()

    monkeypatch.setattr(job, "_on_block", stopping)
    assert job.start().wait(PATIENCE)
    status = job.status()
    assert status.state == "stopped"
    assert not status.certificate.complete
    assert 0 < status.done < status.total == space.size


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (refuse("chip.quantities", "", "also needs x"), "chip.quantities: also needs x"),
    ],
)
def test_a_crash_is_kept_as_a_message(
    space: Space, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "search", broken)
    job = SearchJob(space, SearchSettings(trials=2)).start()
    assert job.wait(PATIENCE)
    assert (job.status().state, job.status().error) == ("failed", message)
    assert job.status().finished


def test_watching_while_it_runs_never_sees_a_torn_picture(space: Space) -> None:
    job = SearchJob(space, SearchSettings(trials=60)).start()
    while not job.status().finished:
        status = job.status()
        assert len(status.history) == min(status.done, 200)
        if status.history:
            assert str(status.history[-1][2]) == str(status.best_value)
        assert (status.best is None) == math.isnan(status.best_value)
    assert job.wait(PATIENCE)


def test_the_thread_is_a_daemon(space: Space) -> None:
    job = SearchJob(space, SearchSettings(trials=500)).start()
    thread = next(t for t in threading.enumerate() if t.name == "search")
    assert thread.daemon
    job.stop()
    assert job.wait(PATIENCE)


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 5000])
def test_history_is_thinned_evenly_with_both_ends(count: int) -> None:
    history = [(i, float(i), float(i)) for i in range(count)]
    thin = thinned(history)
    assert len(thin) == min(count, 200)
    if count:
        assert (thin[0], thin[-1]) == (history[0], history[-1])
    steps = {b[0] - a[0] for a, b in itertools.pairwise(thin)}
    assert not steps or max(steps) - min(steps) <= 1


def test_a_job_proves_by_bounds_what_is_too_large(space: Space) -> None:
    job = SearchJob(
        space, SearchSettings(trials=3), certified=True, proof=ProofSettings(enumerate_up_to=10)
    )
    assert job.start().wait(PATIENCE)
    status = job.status()
    assert status.state == "done"
    assert status.certificate is None
    assert status.bound.closed
    assert status.report is None
    assert status.best_value == status.bound.bound
    assert float(evaluate(status.best).objective(CLUSTER_SECONDS_PER_TOKEN.name)) == (
        status.best_value
    )
    assert status.result.best_value >= status.best_value


def test_a_job_ends_with_what_the_sampler_alone_reaches(space: Space) -> None:
    settings = SearchSettings(trials=20, seed=4)
    job = SearchJob(space, settings, plain=True).start()
    assert job.wait(PATIENCE)
    alone = job.status().plain
    expected = search(space, SearchSettings(trials=20, seed=4, sampler="tpe", plain=True))
    assert str(alone.history) == str(expected.history)
    assert alone.solved_exactly == ()
    assert plain_settings(SearchSettings(sampler="nsga2")).sampler == "nsga2"
    assert plain_settings(SearchSettings(sampler="grid")).sampler == "tpe"


def test_a_job_that_finds_nothing_says_what_is_nearest(space: Space) -> None:
    tight = space.base.replacing({"workload.clusters_total": 4, "plan.pp_decode": 32})
    narrow = Space(tight, (space.axis("plan.dp_prefill"),))
    job = SearchJob(narrow, SearchSettings(trials=3), certified=True, plain=True).start()
    assert job.wait(PATIENCE)
    status = job.status()
    assert (status.state, status.best, status.plain) == ("done", None, None)
    assert status.nearest.feasible
    assert evaluate(status.nearest.scenario).feasible


@pytest.mark.parametrize("state", ["searching", "certifying", "bounding", "comparing"])
def test_stop_ends_it_whatever_it_is_doing(space: Space, state: str) -> None:
    how = ProofSettings(enumerate_up_to=10) if state == "bounding" else ProofSettings()
    wide = default_space(
        space.base,
        vary={
            "hardware.gsm_bytes": tuple(range(3_000_000, 12_000_000, 50_000)),
            "hardware.memory_bytes": tuple(1e9 * k for k in range(10, 40)),
        }
        if state == "bounding"
        else {},
    )
    trials = 50_000 if state in ("searching", "comparing") else 2
    settings = SearchSettings(trials=trials, sampler="random")
    if state == "comparing":
        settings = replace(settings, trials=2)
    job = SearchJob(wide, settings, certified=state != "searching", proof=how, plain=True)
    if state == "comparing":
        job.settings = replace(settings, trials=50_000)
        job._stored = lambda *arguments: search(wide, settings, *arguments[2:])
    job.start()
    deadline = time.monotonic() + PATIENCE
    while job.status().state != state and not job.status().finished:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    job.stop()
    assert job.wait(20.0)
    assert job.status().state == "stopped"
    assert job.status().best is not None
