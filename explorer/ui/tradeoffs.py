"""Page "What do I trade for what?": the plans that no other plan beats in every measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.plots.pareto import MOST_DRAWN, front_view, pareto_figure
from explorer.search.certificate import Progress, Stopped
from explorer.search.fitting import never_kept
from explorer.search.front_text import MOST_FIGURES, row_text, row_texts
from explorer.search.genetic import approximate_front
from explorer.search.measures import FEWEST, MEASURES, MOST, Measure, measures_named, valueless
from explorer.search.pareto import LARGEST_ENUMERATED, ParetoFront, pareto_front
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate
from explorer.serving.notes import plan_notes
from explorer.ui import background, state, unit_choice
from explorer.ui.charts import chart
from explorer.ui.plan_words import plan_words
from explorer.ui.tables import show_table
from explorer.ui.text import plain
from explorer.ui.tradeoff_words import answer, no_value, promise, standing

CHOSEN, SECTION, CHART, APPLIED = "tradeoff:measures", "pareto", "pareto_chart", "pareto:applied"
DEFAULT = ("throughput", "tpot")
TRIALS, SEED = 3000, 1
MOST_ROWS = 40


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("What do I trade for what?", anchor=False)
    # The answer stands above the measures that it depends on.
    first = st.container()
    names = _choose_measures(scenario)
    if len(names) < FEWEST:
        first.markdown(standing(evaluate(scenario)))
        st.info(f"Choose at least {FEWEST} measures.")
        return
    absent = valueless(names, scenario)
    if absent:
        first.markdown(standing(evaluate(scenario)))
        st.info(no_value(absent))
        return
    try:
        measures = _in_words_of(scenario, measures_named(names, scenario))
        space = default_space(scenario)
    except InputError as error:
        first.markdown(standing(evaluate(scenario)))
        st.info(plain(str(error)))
        return
    exact = space.size <= LARGEST_ENUMERATED
    front = background.offered(
        SECTION,
        background.space_fingerprint(space, *names),
        "Find the trade-offs",
        _prepare,
        "plans" if exact else "trials",
    )
    if front is None:
        first.markdown(standing(evaluate(scenario)))
        first.markdown(promise(measures, space.size, exact))
        return
    front = replace(front, measures=_in_words_of(scenario, front.measures))
    own = _own_figures(scenario, front)
    with first:
        found = _first_words(front, own)
    if found:
        _result(front, own)


def _choose_measures(scenario: Scenario) -> list[str]:
    """Draw the choice of measures in the words of the chip, and return their names."""
    unit, widget = scenario.chip_document().unit_name, unit_choice.start(CHOSEN, list(DEFAULT))
    st.multiselect(
        "Measures to trade",
        options=list(MEASURES),
        format_func=lambda name: MEASURES[name].on(unit).label.capitalize(),
        max_selections=MOST,
        key=widget,
        help="The first runs up the picture, the second along, the third is its colour.",
        on_change=unit_choice.keep,
        args=(CHOSEN, widget),
    )
    return _chosen_measures()


def _chosen_measures() -> list[str]:
    return list(unit_choice.chosen(CHOSEN, DEFAULT))


def _in_words_of(scenario: Scenario, measures: Sequence[Measure]) -> tuple[Measure, ...]:
    unit = scenario.chip_document().unit_name
    return tuple(measure.on(unit) for measure in measures)


def _prepare() -> background.Prepared:
    scenario = state.scenario()
    names = _chosen_measures()
    measures, space = measures_named(names, scenario), default_space(scenario)

    def work(progress: Progress, stopped: Stopped) -> ParetoFront:
        if space.size <= LARGEST_ENUMERATED:
            return pareto_front(space, measures, progress, stopped)
        return approximate_front(space, measures, TRIALS, SEED, progress=progress, stopped=stopped)

    return background.space_fingerprint(space, *names), work


def _first_words(front: ParetoFront, own: list[float] | None) -> bool:
    """Draw the answer, and return whether there are any plans."""
    if not front.points:
        broken = ", ".join(name.replace("_", " ") for name in never_kept(front.space))
        why = f" No plan keeps: {broken}." if broken else ""
        st.warning(f"No plan is feasible, so that there is nothing to trade.{why}")
        return False
    st.markdown(answer(front, own))
    return True


def _result(front: ParetoFront, own: list[float] | None) -> None:
    if not front.exact:
        st.warning(
            "Approximate: NSGA-II tried some of the plans, and others may beat these.", icon="⚠"
        )
    view = front_view(front, own)
    event = chart(
        pareto_figure(view),
        CHART,
        "Plans that no other plan beats, by the measures chosen, and the sliders' plan",
        on_select="rerun",
        selection_mode="points",
    )
    _apply_picked(front, event)
    hidden = (
        f" {view.hidden} of them are not drawn (at most {MOST_DRAWN} are)." if view.hidden else ""
    )
    st.caption(
        f"Click a point to put its plan on the sliders.{hidden} "
        f"{front.looked_at:,} plans looked at in {human(front.seconds, 's')}."
    )
    for note in plan_notes(evaluate(front.scenario(front.points[0]))):
        st.caption(f"Note on the first plan: {plain(note)}")
    _choose(front)
    _table(front)


def _apply_picked(front: ParetoFront, event: Any) -> None:
    """Put a newly clicked point on the sliders; a selection stays until another one is made."""
    points = event["selection"]["points"] if event else []
    places = [point["customdata"][0] for point in points if point.get("customdata")]
    if not places:
        st.session_state.pop(APPLIED, None)
        return
    place = int(places[0])
    if st.session_state.get(APPLIED) == place or not 0 <= place < len(front.points):
        return
    st.session_state[APPLIED] = place
    _apply(front, place)
    st.rerun()


def _apply(front: ParetoFront, place: int) -> None:
    plan = front.scenario(front.points[place]).plan
    state.apply({f"plan.{name}": getattr(plan, name) for name in type(plan).model_fields})


def _choose(front: ParetoFront) -> None:
    """Offer the same without a mouse."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = st.selectbox(
            "Or choose one here",
            options=range(len(front.points)),
            format_func=lambda place: f"{place + 1}: {row_text(front, place)}",
            key="pareto_choice",
        )
        clicked = st.button("Put this plan on the sliders", key="pareto_apply")
    if clicked and place is not None:
        _apply(front, int(place))
        st.rerun()


def _own_figures(scenario: Scenario, front: ParetoFront) -> list[float] | None:
    evaluation = evaluate(scenario)
    figures = [float(measure.of(evaluation)) for measure in front.measures]
    return figures if bool(evaluation.feasible) else None


def _table(front: ParetoFront) -> None:
    rows = [
        {
            "": str(place + 1),
            **dict(
                zip(
                    [measure.label for measure in front.measures],
                    row_texts(front, place),
                    strict=True,
                )
            ),
            "plan": plan_words(front.space, point.values),
        }
        for place, point in enumerate(front.points[:MOST_ROWS])
    ]
    show_table(rows)
    first = f"The first {MOST_ROWS} of {len(front.points):,}. "
    st.caption(
        f"{first if len(front.points) > MOST_ROWS else ''}Three significant figures; up to "
        f"{MOST_FIGURES} where neighbours would read alike. What still reads so differs by less."
    )
