"""Searches in a real PostgreSQL: exact when a worker is killed, and polite about what is wrong."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from psycopg import sql

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.search.space import default_space
from explorer.search.storage import GRACE_HEARTBEATS, Storage, open_storage
from explorer.search.studies import begin_or_resume, join, stored_studies
from explorer.search.study import SearchSettings, search
from tests.postgres import PASSWORD, Postgres, postgres_data, quoted
from tests.test_search_shared import account_is_exact, all_trials, answer, foreign

ROOT = Path(__file__).resolve().parents[1]
SPACE = default_space(preset_scenario("mt3000-llama2-7b"))
PATIENCE_S = 120
NUMBERS = itertools.count()

WORKER_THAT_HANGS = """
import pathlib, signal, sys, time
from explorer.search import trials
# As from a terminal: a shell's background job starts with it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
evaluate, calls = trials.evaluate, 0

def hanging(scenario):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        pathlib.Path(sys.argv[1]).touch()
        time.sleep(600)
    return evaluate(scenario)

trials.evaluate = hanging
from explorer.cli import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture
def database(postgres: Postgres) -> str:
    """The name of a new database, with letters that a C locale does not have."""
    name = f"Größe {next(NUMBERS)}"
    postgres.create(name)
    return name


@pytest.fixture
def address(postgres: Postgres, database: str) -> str:
    return postgres.address(database)


@pytest.fixture
def storage(address: str) -> Iterator[Storage]:
    with opened(address) as storage:
        yield storage


@contextmanager
def opened(address: str, heartbeat_seconds: int = 10) -> Iterator[Storage]:
    storage = open_storage(address, heartbeat_seconds)
    try:
        yield storage
    finally:
        storage.close()


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.05)
    return found


@contextmanager
def process(*command: str, address: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python process with the storage in its environment; it is gone afterwards."""
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"EXPLORER_STORAGE": address},
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


WORK = ("worker", "--study", "a", "--heartbeat", "1", "--json")


def test_a_killed_workers_trial_is_repeated_and_no_trial_is_lost_or_counted_twice(
    address: str, tmp_path: Path
) -> None:
    settings = SearchSettings(trials=14, seed=1)
    marker = tmp_path / "in mid-trial"
    with opened(address) as storage:
        begun = begin_or_resume(storage, "a", SPACE, settings)
        with ExitStack() as workers:
            hanging = ("-c", WORKER_THAT_HANGS, str(marker), "3", *WORK)
            victim = workers.enter_context(process(*hanging, address=address))
            # Alone until it hangs: another one might have done all trials before.
            wait_for(marker.exists)
            begun.refresh()
            before = begun.done
            survivor = workers.enter_context(process("-m", "explorer", *WORK, address=address))
            wait_for(lambda: begun.refresh() and begun.done > before)
            victim.send_signal(signal.SIGKILL)
            assert victim.wait(PATIENCE_S) == -signal.SIGKILL
            out, err = survivor.communicate(timeout=PATIENCE_S)
        assert survivor.returncode == 0, err
        document = json.loads(out)
        found = begun.run()
        account_is_exact(storage, 14)

        trials = all_trials(storage)
        cut = [trial for trial in trials if trial.state == TrialState.FAIL and trial.params]
        assert cut
        for trial in cut:
            repeats = [t for t in trials if trial.number in t.system_attrs.get("retry_history", [])]
            assert repeats[-1].state == TrialState.COMPLETE
            assert repeats[-1].params == trial.params
        assert all(trial.state.is_finished() for trial in trials)
        assert sum(begun.workers.values()) == 14
        assert document["study"]["trials_here"] in begun.workers.values()
        assert (document["trials"], document["value"]) == (14, found.best_value)
        assert PASSWORD not in out + err
        assert quoted(PASSWORD) not in out + err


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2"])
def test_one_worker_finds_what_a_search_in_memory_finds(storage: Storage, sampler: str) -> None:
    settings = SearchSettings(trials=8, seed=5, sampler=sampler)
    expected = answer(search(SPACE, settings))
    assert answer(begin_or_resume(storage, "a", SPACE, settings).run()) == expected
    assert answer(join(storage, "a").run()) == expected
    account_is_exact(storage, 8)


def test_threads_share_the_work(storage: Storage) -> None:
    begun = begin_or_resume(storage, "a", SPACE, SearchSettings(trials=16, sampler="random"))
    workers = [begun, join(storage, "a"), join(storage, "a")]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    account_is_exact(storage, 16)


def test_a_trial_that_never_gave_a_sign_of_life_is_repeated(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker died between taking it and the first sign: Optuna's heartbeat overlooks it."""
    settings = SearchSettings(trials=3, seed=1, sampler="random", plain=True)
    with opened(address, 1) as storage:
        begun = begin_or_resume(storage, "a", SPACE, settings)
        lost = storage.ask(begun._study)
        monkeypatch.setattr(Storage, "patience_seconds", 0.5)
        assert not begun.run().stopped
        account_is_exact(storage, 3)
        assert all_trials(storage)[lost.number].state == TrialState.FAIL


def test_signs_of_life_keep_a_long_trial(
    postgres: Postgres, address: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker looks for dead ones when the trial has run for longer than the grace."""
    settings = SearchSettings(trials=1, plain=True)
    with opened(address, 1) as storage, opened(address, 1) as other:
        begun = begin_or_resume(storage, "a", SPACE, settings)
        watching = join(other, "a")
        outcome = begun.judge.outcome
        running: list[int] = []

        def long(indices: tuple[int, ...]) -> Any:
            given: set[Any] = set()

            def signs() -> bool:
                given.update(postgres.execute(database, sql.SQL("TABLE trial_heartbeats")))
                return len(given) > GRACE_HEARTBEATS

            assert postgres.execute(database, sql.SQL("TABLE trial_heartbeats"))
            wait_for(signs)
            watching.refresh()
            watching._recover()
            watching.refresh()
            running.append(watching.running)
            return outcome(indices)

        monkeypatch.setattr(begun.judge, "outcome", long)
        begun.run()
        assert running == [1]
        assert [t.state for t in all_trials(storage)] == [TrialState.COMPLETE]


def test_many_may_open_a_new_database_at_once(address: str) -> None:
    found: list[object] = []

    def open_it() -> None:
        try:
            with opened(address) as storage:
                found.append(stored_studies(storage))
        except InputError as error:
            found.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [([], [])] * 5


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        act()
    message = str(caught.value)
    assert message.isprintable()
    for secret in (PASSWORD, quoted(PASSWORD), "wrong-secret"):
        assert secret not in message
    return message


def test_who_may_not_in_is_told_why_without_the_password(
    postgres: Postgres, address: str, database: str
) -> None:
    wrong = postgres.address(database, password="wrong-secret")
    assert "password authentication failed" in refusal(lambda: open_storage(wrong))
    nobody = postgres.address(database, user="nobody", password="wrong-secret")
    assert "authentication failed" in refusal(lambda: open_storage(nobody))
    missing = postgres.address("missing")
    assert 'database "missing" does not exist' in refusal(lambda: open_storage(missing))


def test_a_role_that_may_make_no_tables_is_refused(
    postgres: Postgres, address: str, database: str
) -> None:
    name = f"reader{next(NUMBERS)}"
    postgres.execute(
        "postgres",
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'wrong-secret'").format(sql.Identifier(name)),
    )
    reader = postgres.address(database, user=name, password="wrong-secret")
    assert "permission denied for schema public" in refusal(lambda: open_storage(reader))
    with opened(address) as storage:
        begin_or_resume(storage, "a", SPACE, SearchSettings(trials=1))
    assert "permission denied for table" in refusal(lambda: open_storage(reader))


def test_a_database_without_studies_is_not_changed_by_a_worker(
    postgres: Postgres, address: str, database: str
) -> None:
    assert "holds no studies" in refusal(lambda: open_storage(address, create=False))
    tables = sql.SQL("SELECT * FROM pg_tables WHERE schemaname = 'public'")
    assert postgres.execute(database, tables) == []


def test_tables_of_another_optuna_are_refused(
    postgres: Postgres, address: str, database: str
) -> None:
    with opened(address):
        pass
    postgres.execute(database, sql.SQL("UPDATE alembic_version SET version_num = 'v9.9.9'"))
    assert "another version of Optuna" in refusal(lambda: open_storage(address))


def test_foreign_studies_and_other_schemas_are_refused(storage: Storage) -> None:
    foreign(storage, "theirs")
    foreign(storage, "future", {"schema": "explorer.study/2"})
    assert "another program" in refusal(lambda: join(storage, "theirs"))
    assert "a newer explorer" in refusal(lambda: join(storage, "future"))
    assert stored_studies(storage) == ([], ["future", "theirs"])


def test_a_server_lost_in_mid_search_is_one_sentence(
    postgres: Postgres, address: str, database: str
) -> None:
    name = sql.Literal(database)

    def lose_it(report: Any) -> None:
        if report.number == 2:
            postgres.execute(
                "postgres",
                sql.SQL("UPDATE pg_database SET datallowconn = false WHERE datname = {}").format(
                    name
                ),
            )
            postgres.execute(
                "postgres",
                sql.SQL(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}"
                ).format(name),
            )

    settings = SearchSettings(trials=10, sampler="random")
    with opened(address) as storage:
        worker = begin_or_resume(storage, "a", SPACE, settings)
        assert "was lost" in refusal(lambda: worker.run(lose_it))
    postgres.execute(
        "postgres",
        sql.SQL("UPDATE pg_database SET datallowconn = true WHERE datname = {}").format(name),
    )
    with opened(address) as storage:
        assert not join(storage, "a").run().stopped
        account_is_exact(storage, 10)


def test_a_server_that_is_stopped_and_started_in_mid_search_has_lost_nothing(
    postgres: Postgres, tmp_path: Path
) -> None:
    """The worker ends with one line that says what to do, and doing it completes the search."""
    marker = tmp_path / "in mid-trial"
    with postgres_data() as serving:
        with serving() as server:
            address = server.create("searches")
            with opened(address) as storage:
                begin_or_resume(storage, "a", SPACE, SearchSettings(trials=14, seed=1))
            code = WORKER_THAT_HANGS.replace(
                "time.sleep(600)",
                "while pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)",
            )
            command = ("-c", code, str(marker), "6", *WORK)
            with ExitStack() as workers:
                worker = workers.enter_context(process(*command, address=address))
                wait_for(marker.exists)
                with opened(address) as storage:
                    before = [str(trial) for trial in all_trials(storage) if trial.value]
                kept = workers.pop_all()
        with kept:
            marker.unlink()
            out, err = worker.communicate(timeout=PATIENCE_S)
        assert (worker.returncode, out) == (2, "")
        assert "Traceback" not in err
        last = err.splitlines()[-1]
        assert last.startswith("explorer: storage = postgresql://")
        assert "the same search goes on once it can be used again" in last
        assert PASSWORD not in err
        assert before
        with serving():
            with process("-m", "explorer", *WORK, address=address) as again:
                out, err = again.communicate(timeout=PATIENCE_S)
            assert again.returncode == 0, err
            assert json.loads(out)["trials"] == 14
            with opened(address) as storage:
                account_is_exact(storage, 14)
                after = [str(trial) for trial in all_trials(storage)]
            assert set(before) <= set(after)
