"""Beginning, joining and listing the searches that a storage keeps."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.trial import TrialState

from explorer.config.errors import InputError, refuse
from explorer.config.scenario import parse_scenario
from explorer.search.definition import (
    check_same,
    parse_definition,
    read_definition,
    study_document,
)
from explorer.search.objectives import objective_named
from explorer.search.shared import ATTRIBUTE, POLL_SECONDS, SharedSearch, judge_of
from explorer.search.space import Space
from explorer.search.storage import Storage
from explorer.search.study import (
    SearchSettings,
    first_plans,
    new_study,
    parameters_of,
    sampler_of,
    settled,
)

LONGEST_NAME = 100
MOST_NAMES = 8
HALF_MADE_SECONDS = 5.0
"""How long to wait for the definition of a study that another process has just made."""


@dataclass(frozen=True)
class StoredStudy:
    """One study in a storage, as its definition says.

    Attributes:
        name: its name.
        title: name of the scenario.
        objective: what it optimises, as a page calls it, in the words of its own chip.
        trials: how many it shall have.
    """

    name: str
    title: str
    objective: str
    trials: int


def stored_studies(storage: Storage) -> tuple[list[StoredStudy], list[str]]:
    """Return the searches in a storage, the newest first, and the names of all other studies.

    Raises:
        InputError: when the storage is lost.
    """
    with storage.errors():
        studies = storage.backend.get_all_studies()
    ours, others = [], []
    for study in reversed(studies):
        try:
            found = parse_definition(study.study_name, study.user_attrs.get(ATTRIBUTE))
            unit = parse_scenario(found.scenario).chip_document().unit_name
            label = objective_named(found.settings.objective).on(unit).label
        except InputError:
            others.append(study.study_name)
            continue
        title = str(found.scenario.get("name", ""))
        ours.append(StoredStudy(study.study_name, title, label, found.settings.trials))
    return ours, others


def begin_or_resume(
    storage: Storage, name: str, space: Space, settings: SearchSettings
) -> SharedSearch:
    """Return a search that the storage keeps under a name, new or as far as it has come.

    Raises:
        InputError: when the name is none, or belongs to another search or another program.
    """
    check_name(name)
    judge = judge_of(space, settings)
    settings, choice = settled(settings, judge.axes)
    wanted = study_document(space, settings)
    plans = first_plans(judge)[: settings.trials] if settings.begins_with_plans else []
    with storage.errors():
        try:
            study = new_study(settings, judge.axes, storage.backend, name)
        except DuplicatedStudyError:
            return join(storage, name, wanted)
        for indices in plans:
            study.enqueue_trial(parameters_of(judge.axes, indices))
        study.set_user_attr(ATTRIBUTE, wanted)
    return SharedSearch(storage, study, space, settings, choice)


def join(storage: Storage, name: str, wanted: dict[str, Any] | None = None) -> SharedSearch:
    """Return the search that the storage keeps under a name.

    Args:
        storage: where it is.
        name: its name.
        wanted: the definition that it must have; any by default.

    Raises:
        InputError: when there is none, or it is another's, of another schema, or not as wanted.
    """
    check_name(name)
    with storage.errors():
        try:
            study = optuna.load_study(study_name=name, storage=storage.backend)
        except KeyError:
            raise refuse("study", name, _which_there_are(storage)) from None
        found = _definition(study)
    space, settings = read_definition(name, found)
    if wanted is not None:
        check_same(name, found, wanted)
    # With the study's own seed each process that joins would propose what the first one did.
    axes = judge_of(space, settings).axes
    settings, _ = settled(settings, axes)
    study.sampler = sampler_of(replace(settings, seed=secrets.randbits(32)), axes)
    return SharedSearch(storage, study, space, settings)


def check_name(name: str) -> None:
    """Refuse a name that no study may have; raises InputError."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise refuse("study", name, f"expected a name of 1 to {LONGEST_NAME} printable characters")


def _definition(study: optuna.Study) -> Any:
    """Return the definition of a study, None where it has none.

    Whoever makes a study queues its first plans and then defines it, within a moment.
    """
    deadline = time.monotonic() + HALF_MADE_SECONDS
    while (found := study.user_attrs.get(ATTRIBUTE)) is None:
        made_elsewhere = any(t.state != TrialState.WAITING for t in study.get_trials(False))
        if made_elsewhere or time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return found


def _which_there_are(storage: Storage) -> str:
    names = [study.study_name for study in storage.backend.get_all_studies()]
    if not names:
        return "there is no such study, nor any other"
    listed = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    return f"there is no such study; expected one of {listed}"
