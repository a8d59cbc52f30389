"""Searches that a storage keeps: the same answer, nothing lost or counted twice, none mixed up."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.search import journal, studies, trials
from explorer.search.account import RETRIED
from explorer.search.definition import SettingsDocument, study_document
from explorer.search.objectives import EQ22, THROUGHPUT
from explorer.search.shared import ATTRIBUTE
from explorer.search.space import Space, default_space, varied_space
from explorer.search.storage import Storage, open_storage
from explorer.search.studies import begin_or_resume, join, stored_studies
from explorer.search.study import (
    SearchResult,
    SearchSettings,
    indices_in,
    parameters_of,
    search,
    suggested_index,
)
from explorer.serving.evaluate import evaluate

SPACE = default_space(preset_scenario("mt3000-llama2-7b"))
SMALL = varied_space(
    SPACE.base, {"plan.tp_decode": (1, 2, 4, 8), "plan.pp_decode": tuple(range(1, 33))}
)
FEW = SearchSettings(trials=6, seed=3, sampler="random", plain=True)


def answer(result: SearchResult) -> tuple[str, ...]:
    """Return all of a result but the time it took."""
    fields = (field.name for field in dataclasses.fields(result) if field.name != "seconds")
    return tuple(str(getattr(result, name)) for name in fields)


def impatient(path: Path) -> Storage:
    """Open a journal whose running trials are taken for dead at once by whoever else looks."""
    return dataclasses.replace(open_storage(str(path)), heartbeat_seconds=0)


def all_trials(storage: Storage) -> list[optuna.trial.FrozenTrial]:
    """Return all trials of the first study in a storage."""
    return storage.backend.get_all_trials(storage.backend.get_all_studies()[0]._study_id)


def account_is_exact(storage: Storage, trials_wanted: int) -> None:
    """Hold that each slot is complete once, with the parameters of its first attempt."""
    known = all_trials(storage)
    done = [trial for trial in known if trial.state == TrialState.COMPLETE]
    assert len(done) == trials_wanted
    slots = [trial.system_attrs.get(RETRIED, trial.number) for trial in done]
    assert len(set(slots)) == trials_wanted
    for trial, slot in zip(done, slots, strict=True):
        first = known[slot]
        assert first.params.items() <= trial.params.items()
        plan = first.system_attrs.get("fixed_params")
        assert plan is None or plan == trial.params


@pytest.fixture(autouse=True)
def no_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here outlives a power failure."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(params=["memory", "journal"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(None if request.param == "memory" else str(tmp_path / "searches.journal"))


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2", "nsga3", "cmaes"])
@pytest.mark.parametrize("plain", [False, True])
def test_one_worker_finds_what_a_search_in_memory_finds(
    storage: Storage, sampler: str, plain: bool
) -> None:
    settings = SearchSettings(THROUGHPUT, trials=16, seed=5, sampler=sampler, plain=plain)
    reports: list[Any] = []
    expected: list[Any] = []
    found = begin_or_resume(storage, "a", SPACE, settings).run(reports.append)
    assert answer(found) == answer(search(SPACE, settings, expected.append))
    assert list(map(str, reports)) == list(map(str, expected))
    again = join(storage, "a")
    assert answer(again.run()) == answer(found)
    assert again.workers[again.worker] == 0


@pytest.mark.parametrize("sampler", ["auto", "brute", "grid"])
def test_every_combination_is_tried_once(storage: Storage, sampler: str) -> None:
    small = SPACE.fixing({axis.paths[0]: axis.values[0] for axis in SPACE.axes[2:]})
    combinations = small.size
    settings = SearchSettings(trials=combinations + 5, seed=5, sampler=sampler)
    found = begin_or_resume(storage, "a", small, settings).run()
    assert found.trials == found.distinct_plans == combinations
    assert not found.stopped
    assert found.sampler == search(small, settings).sampler
    for again in (join(storage, "a"), begin_or_resume(storage, "a", small, settings)):
        assert again.run().history == found.history


def test_a_fixed_batch_is_fixed_for_all_workers(storage: Storage) -> None:
    settings = SearchSettings(EQ22, trials=8)
    found = begin_or_resume(storage, "a", SPACE, settings).run()
    assert answer(found) == answer(search(SPACE, settings))


def test_a_stopped_search_is_gone_on_with(storage: Storage) -> None:
    settings = SearchSettings(trials=20, seed=1)
    count = itertools.count()
    first = begin_or_resume(storage, "a", SPACE, settings)
    half = first.run(stopped=lambda: next(count) == 12)
    assert half.stopped
    assert half.trials == 12
    assert all(trial.state.is_finished() for trial in all_trials(storage))
    second = begin_or_resume(storage, "a", SPACE, settings)
    reports: list[Any] = []
    whole = second.run(reports.append)
    assert not whole.stopped
    assert len(reports) == whole.trials == 20
    assert whole.history[:12] == half.history
    assert second.workers == {first.worker: 12, second.worker: 8}
    account_is_exact(storage, 20)


def test_more_first_plans_than_trials(storage: Storage) -> None:
    found = begin_or_resume(storage, "a", SPACE, SearchSettings(trials=1)).run()
    assert answer(found) == answer(search(SPACE, SearchSettings(trials=1)))
    account_is_exact(storage, 1)


def test_threads_share_the_work_and_agree(storage: Storage) -> None:
    settings = SearchSettings(trials=40, seed=2)
    begun = begin_or_resume(storage, "a", SPACE, settings)
    workers = [begun, *(join(storage, "a") for _ in range(3))]
    found: list[SearchResult] = []
    threads = [threading.Thread(target=lambda w=w: found.append(w.run())) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 4
    assert len({answer(result) for result in found}) == 1
    assert not found[0].stopped
    account_is_exact(storage, 40)
    assert sum(begun.workers.values()) == 40


class Killed(BaseException):
    """Stands for SIGKILL: from then on the process can write nothing more."""


def killed_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let the journal take so many records and no more; return what counts them."""
    count = 0
    append = journal.JournalFileBackend.append_logs

    def counting(self: Any, logs: Any) -> None:
        nonlocal count
        if count >= writes:
            raise Killed
        count += 1
        append(self, logs)

    monkeypatch.setattr(journal._Journal, "append_logs", counting, raising=False)
    return lambda: count


def test_killed_after_any_write_the_search_completes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SearchSettings(trials=4, seed=1, sampler="random")
    monkeypatch.setattr(studies, "HALF_MADE_SECONDS", 0.0)
    half_made = 0
    for writes in itertools.count(1):
        path = tmp_path / f"{writes}.journal"
        with monkeypatch.context() as patch:
            killed_after(writes, patch)
            try:
                begin_or_resume(impatient(path), "a", SMALL, settings).run()
            except Killed:
                pass
            else:
                break
        storage = impatient(path)
        try:
            resumed = begin_or_resume(storage, "a", SMALL, settings)
        except InputError as error:
            # Killed between making the study and defining it.
            half_made += 1
            assert "another program" in str(error)
            continue
        assert not resumed.run().stopped
        account_is_exact(storage, 4)
    assert writes > 20
    assert half_made <= 3


def test_a_worker_taken_for_dead_is_not_counted_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one repeats its trial and completes the study while it sleeps in its evaluation."""
    path = tmp_path / "searches.journal"
    sleeper = begin_or_resume(impatient(path), "a", SMALL, FEW)
    awake = evaluate
    others: list[SearchResult] = []

    def sleeping(scenario: Any) -> Any:
        if not others:
            monkeypatch.setattr(trials, "evaluate", awake)
            others.append(join(impatient(path), "a").run())
        return awake(scenario)

    monkeypatch.setattr(trials, "evaluate", sleeping)
    found = sleeper.run()
    assert answer(found) == answer(others[0])
    assert sleeper.workers[sleeper.worker] == 0
    storage = impatient(path)
    account_is_exact(storage, 6)
    retried = [t for t in all_trials(storage) if RETRIED in t.system_attrs]
    assert len(retried) == 1
    failed = all_trials(storage)[retried[0].system_attrs[RETRIED]]
    assert failed.state == TrialState.FAIL
    assert failed.params == retried[0].params


def test_a_lost_trial_queued_twice_is_completed_once(tmp_path: Path) -> None:
    path = tmp_path / "searches.journal"
    worker = begin_or_resume(impatient(path), "a", SMALL, FEW)
    lost = worker._study.ask()
    worker._study.tell(lost, state=TrialState.FAIL)
    for _ in range(2):
        worker.storage.retry(worker._study, worker._study.trials[lost.number])
    assert not worker.run().stopped
    storage = impatient(path)
    account_is_exact(storage, 6)
    states = Counter(trial.state for trial in all_trials(storage))
    assert states == {TrialState.COMPLETE: 6, TrialState.FAIL: 2}


def test_a_failed_trial_that_no_one_queued_again_is_not_lost(tmp_path: Path) -> None:
    """Whoever took its worker for dead died between the two."""
    worker = begin_or_resume(impatient(tmp_path / "searches.journal"), "a", SMALL, FEW)
    lost = worker._study.ask()
    plan = [suggested_index(lost, axis) for axis in SMALL.axes]
    worker._study.tell(lost, state=TrialState.FAIL)
    worker.run()
    account_is_exact(worker.storage, 6)
    assert all_trials(worker.storage)[lost.number].params == dict(
        parameters_of(SMALL.axes, tuple(plan))
    )


def test_the_history_of_retries_stays_with_each(storage: Storage) -> None:
    worker = begin_or_resume(storage, "a", SMALL, FEW)
    for number in range(3):
        worker._study.ask()
        worker._fail_and_retry(worker._study.get_trials(deepcopy=False)[number])
    histories = [trial.system_attrs.get("retry_history") for trial in all_trials(storage)]
    assert histories == [None, [0], [0, 1], [0, 1, 2]]


def test_who_goes_on_does_not_propose_the_first_plans_again(storage: Storage) -> None:
    settings = dataclasses.replace(FEW, trials=10)
    count = itertools.count()
    begin_or_resume(storage, "a", SPACE, settings).run(stopped=lambda: next(count) == 5)
    begin_or_resume(storage, "a", SPACE, settings).run()
    plans = [tuple(trial.params.values()) for trial in all_trials(storage)]
    assert plans[:5] != plans[5:]


def test_a_retry_is_not_told_its_constraints_twice(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = SMALL.base.replacing({"limits.tpot_seconds": 1e-4})
    worker = begin_or_resume(storage, "a", Space(base, SMALL.axes), FEW)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Trial, "set_user_attr", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.run()
    assert all_trials(storage)[1].constraints
    found = join(storage, "a").run()
    assert found.best is None
    assert found.excluded["tpot"] == 6
    account_is_exact(storage, 6)


def test_an_interrupted_trial_is_queued_again_at_once(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = begin_or_resume(storage, "a", SMALL, FEW)

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trials, "evaluate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.run()
    cut, queued = all_trials(storage)
    assert (cut.state, queued.state) == (TrialState.FAIL, TrialState.WAITING)
    assert cut.params == queued.params != {}
    assert not join(storage, "a").run().stopped
    account_is_exact(storage, 6)


def test_plans_that_others_evaluate_are_not_proposed_again(storage: Storage) -> None:
    settings = SearchSettings(trials=30, seed=1)
    worker = begin_or_resume(storage, "a", SPACE, settings)
    count = itertools.count()
    worker.run(stopped=lambda: next(count) == 15)
    first = worker._planned()
    assert first is not None
    worker._study.enqueue_trial(parameters_of(worker.judge.axes, first))
    other = join(storage, "a")
    other.refresh()
    second = other._planned()
    assert second is not None
    assert second != first


def test_parameters_and_indices_are_two_sides_of_one_thing() -> None:
    for indices in ((0, 0, 0), (3, 31, 8), (5, 0, 3)):
        assert indices_in(SPACE.axes[:3], parameters_of(SPACE.axes[:3], indices)) == indices
    whole = parameters_of(SPACE.axes, (0,) * len(SPACE.axes))
    for name in whole:
        for wrong in (-1, 10**6, "1", None, 0.5):
            assert indices_in(SPACE.axes, whole | {name: wrong}) is None
        assert indices_in(SPACE.axes, {k: v for k, v in whole.items() if k != name}) is None


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        act()
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 7}, "trials = 6, not 7"),
        ({"seed": 4}, "seed = 3, not 4"),
        ({"sampler": "tpe"}, "sampler = random, not tpe"),
        ({"plain": False}, "plain = True, not False"),
        ({"objective": THROUGHPUT}, "objective = cluster_seconds_per_token, not throughput"),
    ],
)
def test_other_settings_are_refused_by_name(
    storage: Storage, change: dict[str, Any], words: str
) -> None:
    begin_or_resume(storage, "a", SMALL, FEW)
    other = dataclasses.replace(FEW, **change)
    assert words in refusal(lambda: begin_or_resume(storage, "a", SMALL, other))


def test_another_scenario_or_space_is_refused_by_name(storage: Storage) -> None:
    begin_or_resume(storage, "a", SMALL, FEW)
    prompt = Space(SMALL.base.replacing({"workload.prompt_tokens": 100}), SMALL.axes)
    message = refusal(lambda: begin_or_resume(storage, "a", prompt, FEW))
    assert "workload.prompt_tokens = 512, not 100" in message
    fewer = varied_space(SMALL.base, {"plan.tp_decode": (1, 2, 4, 8)})
    message = refusal(lambda: begin_or_resume(storage, "a", fewer, FEW))
    assert "pp_decode = 1 to 32 (32 values), not none" in message
    holes = varied_space(
        SMALL.base, {"plan.tp_decode": (1, 2, 8), "plan.pp_decode": tuple(range(1, 33))}
    )
    message = refusal(lambda: begin_or_resume(storage, "a", holes, FEW))
    assert "tp_decode = 1 to 8 (4 values), not 1 to 8 (3 values)" in message


def test_every_setting_is_part_of_the_definition() -> None:
    assert set(SettingsDocument.model_fields) == {
        field.name for field in dataclasses.fields(SearchSettings)
    }


def test_the_definition_is_enough_to_take_part(storage: Storage) -> None:
    own_chip = SPACE.base.model_copy(update={"chip": SPACE.base.chip_document()})
    space = varied_space(
        own_chip, {"plan.tp_decode": (1, 4), "limits.memory_headroom_fraction": (0.0, 0.1, 0.25)}
    )
    begin_or_resume(storage, "a", space, FEW)
    joined = join(storage, "a")
    assert joined.space.axes == space.axes
    assert joined.space.base.to_json() == own_chip.pinned().to_json()
    assert joined.settings == FEW


def foreign(storage: Storage, name: str, attribute: object = None) -> None:
    study = optuna.create_study(storage=storage.backend, study_name=name)
    uniform = optuna.distributions.FloatDistribution(0, 1)
    study.add_trial(
        optuna.trial.create_trial(value=1.0, params={"x": 0.5}, distributions={"x": uniform})
    )
    if attribute is not None:
        study.set_user_attr(ATTRIBUTE, attribute)


GOOD = study_document(SMALL, FEW)


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        (None, "another program"),
        ("text", "another program"),
        ([1], "another program"),
        ({}, 'expected "explorer.study/1"'),
        ({**GOOD, "schema": "explorer.study/2"}, "a newer explorer wrote this"),
        ({**GOOD, "schema": "explorer.scenario/1"}, 'expected "explorer.study/1"'),
        ({**GOOD, "further": 1}, "further: unknown field"),
        ({**GOOD, "axes": [{**GOOD["axes"][0], "values": [2, 1]}]}, "ascending"),
        ({**GOOD, "axes": [{**GOOD["axes"][0], "values": []}]}, "ascending"),
        ({**GOOD, "axes": [{**GOOD["axes"][0], "paths": ["plan.x"]}]}, "plan.x"),
        ({**GOOD, "axes": [{**GOOD["axes"][0], "values": [3]}]}, "plan.tp_decode = 3"),
        ({**GOOD, "scenario": {}}, "required"),
        ({**GOOD, "settings": {**GOOD["settings"], "trials": 0}}, "trials = 0"),
        ({**GOOD, "settings": {**GOOD["settings"], "sampler": "magic"}}, "sampler = magic"),
        ({**GOOD, "settings": {**GOOD["settings"], "objective": "x"}}, "objective = x"),
        ({**GOOD, "stage_seconds": [1.0, 2.0]}, "models give other times"),
        ({**GOOD, "stage_seconds": [None, None]}, "models give other times"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_study_of_another_kind_is_refused(
    storage: Storage, attribute: object, words: str
) -> None:
    foreign(storage, "theirs", attribute)
    before = all_trials(storage)
    for act in (
        lambda: join(storage, "theirs"),
        lambda: begin_or_resume(storage, "theirs", SMALL, FEW),
    ):
        message = refusal(act)
        assert message.startswith("study = theirs: ")
        assert words in message
    assert list(map(str, all_trials(storage))) == list(map(str, before))


def test_a_study_half_made_is_waited_for(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(storage=storage.backend, study_name="a")
    study.enqueue_trial({"tp_decode[]": 1, "pp_decode": 4})
    define = threading.Timer(0.3, lambda: study.set_user_attr(ATTRIBUTE, GOOD))
    define.start()
    assert join(storage, "a").settings == FEW
    define.join()
    monkeypatch.setattr(studies, "HALF_MADE_SECONDS", 0.0)
    optuna.create_study(storage=storage.backend, study_name="b")
    assert "another program" in refusal(lambda: join(storage, "b"))


@pytest.mark.parametrize(
    "plan", [None, "x", [], [1], [1, 4, 4], [3, 4], [1, 33], [1, "4"], [1, None]], ids=str
)
def test_a_trial_that_holds_no_plan_is_refused(storage: Storage, plan: object) -> None:
    worker = begin_or_resume(storage, "a", SMALL, FEW)
    trial = worker._study.ask()
    for axis in SMALL.axes:
        suggested_index(trial, axis)
    trial.set_user_attr(ATTRIBUTE, {"plan": plan})
    worker._study.tell(trial, 1.0)
    assert "trial 0 holds no plan" in refusal(worker.run)
    assert "trial 0 holds no plan" in refusal(join(storage, "a").refresh)


def test_a_trial_without_parameters_is_refused(storage: Storage) -> None:
    worker = begin_or_resume(storage, "a", SMALL, FEW)
    trial = worker._study.ask()
    trial.set_user_attr(ATTRIBUTE, {"plan": [1, 4]})
    worker._study.tell(trial, 1.0)
    assert "trial 0 holds no plan" in refusal(worker.run)


def test_an_unknown_name_lists_those_there_are(storage: Storage) -> None:
    assert "nor any other" in refusal(lambda: join(storage, "a"))
    for number in range(10):
        begin_or_resume(storage, f"s{number}", SMALL, FEW)
    assert "expected one of s0, s1, s2, s3, s4, s5, s6, s7, ..." in refusal(
        lambda: join(storage, "a")
    )


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\0b", "\x1b[2J"])
def test_a_name_that_is_none_is_refused(storage: Storage, name: str) -> None:
    assert "printable characters" in refusal(lambda: begin_or_resume(storage, name, SMALL, FEW))
    assert storage.backend.get_all_studies() == []


def test_searches_are_listed_newest_first_and_others_apart(storage: Storage) -> None:
    begin_or_resume(storage, "old", SMALL, FEW)
    foreign(storage, "theirs")
    foreign(storage, "future", {**GOOD, "schema": "explorer.study/2"})
    begin_or_resume(storage, "new", SPACE, dataclasses.replace(FEW, objective=THROUGHPUT))
    ours, others = stored_studies(storage)
    assert [(study.name, study.trials) for study in ours] == [("new", 6), ("old", 6)]
    assert ours[0].title == SPACE.base.name
    assert ours[0].objective == THROUGHPUT.label
    assert others == ["future", "theirs"]


def test_a_study_is_plain_data(tmp_path: Path) -> None:
    """What another tool reads: the definition and each trial's plan, as JSON."""
    path = tmp_path / "searches.journal"
    begin_or_resume(open_storage(str(path)), "a", SMALL, FEW).run()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    attributes = [line["user_attr"][ATTRIBUTE] for line in lines if "user_attr" in line]
    assert attributes[0] == GOOD == json.loads(json.dumps(GOOD))
    plans = [attribute["plan"] for attribute in attributes[1:]]
    assert len(plans) == 6
    assert all(
        plan in itertools.product(*(axis.values for axis in SMALL.axes))
        for plan in map(tuple, plans)
    )


def test_optuna_stays_quiet(storage: Storage, capfd: pytest.CaptureFixture[str]) -> None:
    begin_or_resume(storage, "a", SMALL, FEW).run()
    begin_or_resume(storage, "a", SMALL, FEW).run()
    assert capfd.readouterr() == ("", "")
