"""What the Search page asks for: objective, effort, which settings, in which ranges and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import streamlit as st

from explorer.chips.inputs import Inputs
from explorer.config.budget import BUDGET
from explorer.config.errors import InputError
from explorer.config.knobs import scenario_knobs
from explorer.config.quantity import Knob
from explorer.config.scenario import Scenario, knob_at
from explorer.config.units import human
from explorer.search.certificate import estimated_seconds
from explorer.search.objectives import OBJECTIVES, SYMBOLS, Objective
from explorer.search.proof import MOST_ENUMERATED, ProofSettings, enumerates
from explorer.search.samplers import AUTO, SAMPLERS, installed_samplers
from explorer.search.space import Space, Values, default_space
from explorer.search.staged import fixed_batch_space
from explorer.search.study import SearchSettings
from explorer.search.vary import default_range, parse_vary
from explorer.search.verdict import plans
from explorer.serving.constraints import budget_constraint
from explorer.serving.levers import NOTE_OF_MEASUREMENT
from explorer.ui import state
from explorer.ui.asked import choose, chosen_objective
from explorer.ui.controls import knob_slider
from explorer.ui.folded import folded
from explorer.ui.text import plain

DEFAULT_TRIALS, MOST_TRIALS = 300, 5000
DEFAULT_SEED, LARGEST_SEED = 1, 2**31
LONGEST_BOUND_SECONDS = 3600
OBJECTIVE = "objective"
BUDGET_LABEL = "Budget across the machine"
PINNED, FURTHER, RANGE = "pinned", "further", "range:"
LIMITS = (
    "limits.ttft_seconds",
    "limits.tpot_seconds",
    "limits.memory_headroom_fraction",
    "workload.clusters_total",
)
FORM = "lowest:highest or lowest:highest:step"
COLUMNS = 3
FEW_VALUES = 5
MOST_SPACES_KEPT = 4


def controls(scenario: Scenario) -> bool:
    """Draw the settings of a search, folded away; return whether they can be used."""
    with folded("What is searched, within which limits, and how hard", "searched") as is_open:
        if is_open:
            _effort()
            _what(scenario)
            _limits(scenario)
            _proof()
    try:
        settings, space, how = chosen()
    except InputError as error:
        st.error(plain(str(error)))
        return False
    _size(space, settings, how)
    return True


def objective_choice() -> Objective:
    """Draw the choice of the objective and return it, in the words of the scenario's chip."""
    equation = chosen_objective(list(OBJECTIVES), OBJECTIVE).equation
    objective = choose(
        "Objective",
        list(OBJECTIVES),
        OBJECTIVE,
        f"Formula: {plain(equation)}. {plain(SYMBOLS)}",
    )
    st.caption(plain(objective.meaning))
    return objective


def chosen(scenario: Scenario | None = None) -> tuple[SearchSettings, Space, ProofSettings]:
    """Return what the controls hold now, for the sliders or for a scenario; raises InputError.

    A button's callback reads it here: what was handed to the button when it was drawn is older
    than a value that was typed just before the click. Controls that are folded away and were
    never opened hold nothing.
    """
    held = st.session_state
    scenario = state.scenario() if scenario is None else scenario
    settings = SearchSettings(
        OBJECTIVES[chosen_objective(list(OBJECTIVES), OBJECTIVE).name],
        int(held.get("trials", DEFAULT_TRIALS)),
        int(held.get("seed", DEFAULT_SEED)),
        held.get("sampler", AUTO),
    )
    defaults = ProofSettings()
    how = ProofSettings(
        int(held.get("enumerate_up_to", defaults.enumerate_up_to)),
        float(held.get("bound_seconds", defaults.bound_seconds)),
    )
    pinned = _held(scenario, PINNED)
    vary: dict[str, Values] = {}
    further = _held(scenario, FURTHER)
    for path in (*_plan_paths(scenario), *further):
        text = str(held.get(f"{RANGE}{path}") or "").strip()
        if path in pinned or not (text or path in further):
            continue
        typed = text or default_range(scenario, path)
        vary |= dict([parse_vary(scenario, f"{path}={typed}")])
    return settings, _space(scenario, frozenset(pinned), vary), how


def _effort() -> None:
    columns = st.columns(COLUMNS)
    columns[0].number_input(
        "Trials", 1, MOST_TRIALS, DEFAULT_TRIALS, key="trials", persist_state="session"
    )
    columns[1].number_input(
        "Seed",
        0,
        LARGEST_SEED,
        DEFAULT_SEED,
        key="seed",
        help="The same seed gives the same answer.",
        persist_state="session",
    )
    columns[2].selectbox(
        "Sampler",
        (AUTO, *installed_samplers()),
        format_func=sampler_name,
        key="sampler",
        help="Automatic tries every combination where the trials suffice, and else takes TPE.",
        persist_state="session",
    )


def sampler_name(name: str) -> str:
    """Return what a sampler is called on the page."""
    return SAMPLERS[name].label if name in SAMPLERS else "automatic"


def _what(scenario: Scenario) -> None:
    """Ask which settings are searched, and between which values."""
    _keep_known(scenario)
    plan = _plan_paths(scenario)
    columns = st.columns(2)
    columns[0].multiselect(
        "Keep as on the sliders",
        options=plan,
        format_func=lambda path: f"{_name(scenario, path)}, now {scenario.value(path)}",
        key=PINNED,
        help="Settings of the plan that the search may not change.",
        persist_state="session",
    )
    columns[1].multiselect(
        "Search these too",
        options=_further_paths(scenario),
        format_func=lambda path: _name(scenario, path),
        key=FURTHER,
        help="Any other slider, the machine's numbers included.",
        persist_state="session",
    )
    st.caption(
        f"Ranges as {FORM}; whole numbers without a step are all of them. An empty range means "
        "the values shown in grey."
    )
    searched = [*(p for p in plan if p not in _held(scenario, PINNED)), *_held(scenario, FURTHER)]
    for start in range(0, len(searched), COLUMNS):
        row = searched[start : start + COLUMNS]
        for column, path in zip(st.columns(COLUMNS), row, strict=False):
            column.text_input(
                _name(scenario, path),
                key=f"{RANGE}{path}",
                placeholder=_default(scenario, path),
                persist_state="session",
            )


def _proof() -> None:
    defaults = ProofSettings()
    columns = st.columns(2)
    columns[0].number_input(
        "Plans up to which every one is evaluated for the proof",
        0,
        MOST_ENUMERATED,
        defaults.enumerate_up_to,
        key="enumerate_up_to",
        help="The optimum of a larger space is bounded instead.",
        persist_state="session",
    )
    columns[1].number_input(
        "Seconds to tighten a bound",
        0.0,
        float(LONGEST_BOUND_SECONDS),
        defaults.bound_seconds,
        format="%g",
        key="bound_seconds",
        persist_state="session",
    )


def _limits(scenario: Scenario) -> None:
    """Ask for the limits of the scenario that a plan must keep, the budget among them."""
    columns = st.columns(2)
    for position, path in enumerate(LIMITS):
        with columns[position % 2]:
            knob_slider(path, "limit")
    key = state.widget_key("limit:budget")
    now = scenario.limits.budget or ""
    if st.session_state.get(key) != now:
        st.session_state[key] = now
    names = list(scenario.chip_document().quantities)
    st.text_input(
        BUDGET_LABEL,
        key=key,
        placeholder=f"2 * hardware.{names[0]} + hardware.memory_bytes <= 4",
        help="Weights times numbers of the machine, each in units of the chip's own value, at most "
        f"a limit. Empty for none. In links: {BUDGET}.",
        on_change=_budget_entered,
        args=(key,),
    )
    if now:
        constraint = budget_constraint(Inputs(scenario))
        cost, limit = float(constraint.value), float(constraint.limit)
        st.caption(f"The machine on the sliders costs {human(cost)} of {human(limit)}.")


def _budget_entered(key: str) -> None:
    state.apply({BUDGET: str(state.widget_value(key)).strip() or None})


def _size(space: Space, settings: SearchSettings, how: ProofSettings) -> None:
    """Say how many plans there are, and how the best of them is proved."""
    objective = settings.objective
    searched = fixed_batch_space(space) if objective.fixes_batch else space
    among = f"{settings.trials:,} trials among {plans(searched.size)}"
    if enumerates(space, objective, how):
        seconds = human(_seconds(searched), "s")
        st.caption(f"{among}. The proof then evaluates every one of them: about {seconds}.")
    else:
        most, seconds = plans(how.enumerate_up_to), human(how.bound_seconds, "s")
        st.caption(
            f"{among}, more than the {most} that are evaluated one by one: the proof bounds the "
            f"optimum, for at most {seconds}."
        )


def _seconds(space: Space) -> float:
    """Return the estimate for spaces of this shape, made once."""
    base = space.base
    shape = (base.chip, base.model, base.plan.placement, *((a.name, len(a)) for a in space.axes))
    known = st.session_state.get("estimate")
    if known is None or known[0] != shape:
        known = (shape, estimated_seconds(space))
        st.session_state["estimate"] = known
    return float(known[1])


def _space(
    scenario: Scenario,
    pinned: frozenset[str] = frozenset(),
    vary: Mapping[str, Values] = MappingProxyType({}),
) -> Space:
    """Return the space of a scenario and some choices: a run asks for the same few often."""
    known: list[tuple[Scenario, object, Space]] = st.session_state.setdefault("spaces", [])
    choices = (pinned, tuple(vary.items()))
    for of, chosen_then, space in known:
        # Scenarios don't change: to compare them by their values would take longer.
        if of is scenario and chosen_then == choices:
            return space
    space = default_space(scenario, pinned, vary)
    known[:] = [(scenario, choices, space), *known[: MOST_SPACES_KEPT - 1]]
    return space


def _plan_paths(scenario: Scenario) -> list[str]:
    return [axis.paths[0] for axis in _space(scenario).axes]


def _further_paths(scenario: Scenario) -> list[str]:
    """Return every slider that holds a number beside those of the plan's own axes."""
    own = {path for axis in _space(scenario).axes for path in axis.paths}
    hardware = [
        f"hardware.{name}"
        for name in scenario.chip_document().quantities
        if NOTE_OF_MEASUREMENT not in name
    ]
    others = [
        path
        for path in scenario_knobs()
        if path not in own and path.partition(".")[0] in ("workload", "plan")
    ]
    return [*hardware, *others]


def _held(scenario: Scenario, key: str) -> list[str]:
    """Return the paths that a choice holds, those of another chip left out."""
    known = _plan_paths(scenario) if key == PINNED else _further_paths(scenario)
    return [path for path in st.session_state.get(key) or () if path in known]


def _keep_known(scenario: Scenario) -> None:
    for key in (PINNED, FURTHER):
        if key in st.session_state:
            st.session_state[key] = _held(scenario, key)


def _default(scenario: Scenario, path: str) -> str:
    """Return what an empty range means."""
    axis = _space(scenario).axis(path)
    if axis is not None:
        return listed([str(value) for value in axis.values])
    try:
        return default_range(scenario, path)
    except InputError:
        return FORM


def listed(values: Sequence[str]) -> str:
    """Return a few values, or the first of many and the last."""
    if len(values) <= FEW_VALUES:
        return ", ".join(values)
    return f"{', '.join(values[:3])} … {values[-1]}"


def _name(scenario: Scenario, path: str) -> str:
    knob: Knob | None = knob_at(scenario, path)
    if knob is None:
        return path
    return plain(f"{knob.label}, {knob.unit}" if knob.unit else knob.label)
