"""The sidebar: preset, the sliders that matter most, and every other number below."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from explorer.config.entered import in_words_of_controls, read_entered
from explorer.config.errors import InputError
from explorer.config.links import apply_texts
from explorer.config.presets import load_scenario_preset, scenario_presets
from explorer.config.scenario import WORD_FIELDS, Scenario
from explorer.search.sliders import PRECISION_LABELS
from explorer.serving.comparison import INPUT_NAMES
from explorer.ui import state
from explorer.ui.controls import MARKED_KINDS, knob_slider, marked
from explorer.ui.folded import folded
from explorer.ui.text import plain

MAIN_HARDWARE = {
    "mt3000": ("ddr_bandwidth_bytes_per_second", "sm_bytes", "am_bytes", "gsm_bytes"),
    "ascend910a": (
        "hbm_bandwidth_bytes_per_second",
        "weight_stream_bytes_per_second",
        "link_bandwidth_bytes_per_second",
        "collective_fixed_seconds",
    ),
    "generic": (
        "peak_macs_per_second_fp16",
        "peak_macs_per_second_fp32",
        "memory_bandwidth_bytes_per_second",
        "link_bandwidth_bytes_per_second",
    ),
}
WORKLOAD = ("prompt_tokens", "output_tokens", "max_context_tokens", "clusters_total")
PREFILL = ("tp_prefill", "pp_prefill", "dp_prefill", "micro_batch_prefill")
DECODE = ("tp_decode", "pp_decode", "micro_batch_decode")
SHARED = ("tp_decode", "pp_decode", "micro_batch_prefill", "micro_batch_decode")
SLICES = ("slices", "max_slices", "min_rows_per_slice")
LIMITS = (
    "limits.ttft_seconds",
    "limits.tpot_seconds",
    "limits.memory_headroom_fraction",
    "measured.prefill_seconds",
    "measured.decode_seconds",
)
PLACEMENT_LABEL = "Prefill and decode run on"
SIMULATION_LABELS = {
    "simulation.arrivals": "Requests arrive",
    "simulation.policy": "When the buffer is full",
    "simulation.grouping": "Micro-batches are cut",
    "simulation.unfilled": "An unfilled micro-batch takes the time of",
}
WORD_LABELS = {"plan.placement": PLACEMENT_LABEL, **PRECISION_LABELS, **SIMULATION_LABELS}
"""Labels of the choices that every chip has, by path."""
MECHANISMS = {
    "mt3000": ("kernel.attention", "kernel.fusion", "kernel.launch"),
    "ascend910a": ("kernel.recurrence",),
}
MECHANISM_LABELS = {
    family: {path: INPUT_NAMES[path] for path in paths} for family, paths in MECHANISMS.items()
}
WORD_NAMES = {
    "whole": "All",
    "without_broadcast_rows": "No broadcast rows",
    "without_rank1_update": "No rank-1 update",
    "without_both": "Neither",
    "mt": "MT",
    "flash": "Flash",
    "unfused": "Unfused",
    "fused": "Fused",
    "separate": "Separate",
    "unified": "One a pass",
    "per_operator": "Each operator",
    "per_head": "Each head",
    "disaggregated": "Pools apart",
    "shared": "The same ones",
    "saturated": "All at the start",
    "poisson": "At random",
    "constant": "Evenly",
    "bursts": "In bursts",
    "bounded": "Prefill pauses",
    "unbounded": "It grows without bound",
    "no_buffer": "There is none",
    "arrival_order": "As they arrive",
    "by_length": "Sorted by length",
    "as_full": "A full one",
    "by_size": "Its own size",
}
SHARED_PLACEMENT = "shared"
WORD_HELP = {
    "plan": "Apart: pools with a buffer between (Eqs 12-22). Shared: the same clusters or cards "
    "prefill a batch and then decode it.",
    "precision": "Storage formats are converted on load; only the arithmetic changes the peak.",
    "simulation": "Which requests arrive, and who waits when; it changes nothing on other pages.",
    "kernel": "What the paper's mechanisms are worth: switch one off and see the headline change.",
}


def sidebar() -> None:
    """Draw all controls of the scenario."""
    with st.sidebar:
        _preset()
        scenario = state.scenario()
        family = scenario.chip_document().family
        with st.expander("Machine", expanded=True):
            _sliders("hardware", MAIN_HARDWARE[family])
        with st.expander("Workload", expanded=True):
            _sliders("workload", WORKLOAD)
        with folded("Placement", "placement") as is_open:
            if is_open:
                word_control("plan.placement", PLACEMENT_LABEL, scenario)
        if scenario.plan.placement == SHARED_PLACEMENT:
            with st.expander("Plan: the same cards prefill and decode", expanded=True):
                _sliders("plan", SHARED)
        else:
            with st.expander("Prefill pool", expanded=True):
                _sliders("plan", PREFILL)
            with st.expander("Decode pool", expanded=True):
                _sliders("plan", DECODE)
            with st.expander("Buffer between them", expanded=True):
                _sliders("plan", ("buffer_clusters",))
        if family == "ascend910a":
            with st.expander("All-reduce slices", expanded=True):
                _sliders("plan", SLICES)
        with folded("Precision", "precision") as is_open:
            if is_open:
                for path, label in PRECISION_LABELS.items():
                    word_control(path, label, scenario)
        if family in MECHANISM_LABELS:
            with folded("Mechanisms", "mechanisms") as is_open:
                if is_open:
                    for path, label in MECHANISM_LABELS[family].items():
                        word_control(path, label, scenario)
        with folded("Limits and measured times", "limits") as is_open:
            if is_open:
                for path in LIMITS:
                    knob_slider(path)
        with folded("Every other number of the machine", "hardware") as is_open:
            if is_open:
                names = scenario.chip_document().quantities
                _sliders("hardware", tuple(n for n in names if n not in MAIN_HARDWARE[family]))
        _exact_value()


def _preset() -> None:
    presets = {f"{item.id}@{item.version}": item for item in scenario_presets()}
    key = state.widget_key("preset_choice")
    if state.preset() not in presets:
        older = load_scenario_preset(state.preset())
        presets[state.preset()] = older
    if st.session_state.get(key) != state.preset():
        st.session_state[key] = state.preset()
    st.selectbox(
        "Preset",
        options=list(presets),
        key=key,
        format_func=lambda reference: presets[reference].title,
        help="A machine, a model and a plan to start from. Choosing one resets every slider.",
        on_change=_preset_chosen,
        args=(key,),
    )
    st.caption(presets[state.preset()].why)
    # Always there: an element that comes and goes would close the expanders below it.
    scenario = state.scenario()
    model = plain(scenario.model_document().name)
    origin = "Model" if isinstance(scenario.model, str) else "Model from a file"
    st.caption(f"{origin}: **{model}**")
    _back_and_forth(scenario)


def _back_and_forth(scenario: Scenario) -> None:
    """Draw what takes changes back; always there, and greyed out where nothing is to be done."""
    steps = state.history()
    last = f"Takes back: {plain(steps.past[-1].words)}." if steps.past else "Nothing was changed."
    again = f"Does again: {plain(steps.future[-1].words)}." if steps.future else "Nothing to redo."
    with st.container(horizontal=True, gap="small", key="back_and_forth"):
        st.button("Undo", on_click=state.undo, key="undo", disabled=not steps.past, help=last)
        st.button("Redo", on_click=state.redo, key="redo", disabled=not steps.future, help=again)
        st.button(
            "Reset",
            on_click=_reset,
            key="reset",
            disabled=scenario == state.baseline(),
            help="Every value back to the preset's. Undo takes this back too.",
        )


def _reset() -> None:
    state.load_preset(state.preset())


def _preset_chosen(key: str) -> None:
    state.load_preset(state.widget_value(key))


def _sliders(section: str, names: tuple[str, ...]) -> None:
    for name in names:
        knob_slider(f"{section}.{name}")


def word_control(path: str, label: str, scenario: Scenario) -> None:
    """Show the choice of a word of this session's scenario, on the sidebar or a page."""
    options = WORD_FIELDS[path]
    if path == "precision.compute":
        options = scenario.chip_document().compute_precisions
    key = state.widget_key(f"word:{path}")
    if st.session_state.get(key) != scenario.value(path):
        st.session_state[key] = scenario.value(path)
    st.segmented_control(
        label,
        options=options,
        key=key,
        format_func=_word_name,
        on_change=_word_chosen,
        args=(path, key),
        required=True,
        help=f"{WORD_HELP[path.partition('.')[0]]} In links: {path}.",
    )


def _word_name(word: str) -> str:
    return WORD_NAMES.get(word, word.upper())


def _word_chosen(path: str, key: str) -> None:
    changes = {path: state.widget_value(key)}
    plan = state.scenario().plan
    if changes[path] == SHARED_PLACEMENT:
        changes |= {
            "plan.tp_prefill": plan.tp_decode,
            "plan.pp_prefill": plan.pp_decode,
            "plan.dp_prefill": 1,
        }
    state.apply(changes)


def _exact_value() -> None:
    st.text_input(
        "Set any value exactly",
        key="exact",
        placeholder="Prompt length = 3000",
        on_change=_exact_entered,
        help="A control's name and a value as the control shows it, such as Prompt length = 3,000 "
        "or Memory kept free = 5 %; in place of the name its path in links, which is at the end of "
        "its help. Several are separated by &. A number without a unit is in the unit of links: "
        "s, B, B/s, MAC/s, or a fraction (0.05 is 5 %).",
    )


def _exact_entered() -> None:
    text = str(state.widget_value("exact")).strip()
    if not text:
        return
    scenario = state.scenario()
    labels = {**WORD_LABELS, **MECHANISM_LABELS.get(scenario.chip_document().family, {})}
    words = {path: {word: _word_name(word) for word in WORD_FIELDS[path]} for path in labels}
    typed: Mapping[str, str] = {}
    try:
        entered = read_entered(scenario, text, labels, words, map(marked, MARKED_KINDS))
        typed = entered.typed
        changed, refused = apply_texts(scenario, entered.texts)
        if changed != scenario or not (entered.problems or refused):
            # What changes nothing for being refused must not close older messages.
            state.replace(changed)
    except InputError as error:
        said = (in_words_of_controls(scenario, item, labels, typed) for item in error.problems)
        state.notice(said, "Nothing was changed", place="exact")
        return
    spoken = (in_words_of_controls(scenario, problem, labels, typed) for problem in refused)
    problems = (*entered.problems, *spoken)
    state.notice(problems, "Not set", place="exact")
    if not problems:
        st.session_state["exact"] = ""
