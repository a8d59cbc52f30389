"""Which requests arrive, and what happens when the buffer is full: the controls of the page."""

from __future__ import annotations

import hashlib

import streamlit as st

from explorer.config.units import human
from explorer.serving.trace import Trace, parse_trace, require_context
from explorer.ui import state, uploads
from explorer.ui.controls import knob_slider
from explorer.ui.folded import folded
from explorer.ui.sidebar import SIMULATION_LABELS, word_control

LARGEST_TRACE_MB = 64
CONTROL_WIDTH = 460
TRACE, UPLOAD, REFUSED = "trace", "trace_upload", "trace_refused"


def arrivals_controls() -> None:
    """Draw them; a trace takes the place of made-up arrivals."""
    trace = current_trace()
    scenario = state.scenario()
    beside = st.container(horizontal=True)
    with beside.container(width=CONTROL_WIDTH):
        if trace is None:
            _word("arrivals")
            if scenario.simulation.arrivals != "saturated":
                knob_slider("simulation.rate_requests_per_second")
            if scenario.simulation.arrivals == "bursts":
                knob_slider("simulation.burst_requests")
        else:
            _trace_in_use(trace)
    with beside.container(width=CONTROL_WIDTH):
        if scenario.plan.placement != "shared":
            _word("policy")
            if scenario.simulation.policy == "bounded":
                knob_slider("simulation.buffer_micro_batches")
        else:
            st.caption("The same cards prefill and decode: there is no buffer between them.")
    with folded("A trace file instead", "trace") as is_open:
        if is_open:
            _upload()
    with folded("Limits, grouping, and how long to simulate", "simulation") as is_open:
        if is_open:
            _more()


def current_trace() -> Trace | None:
    """Return this session's trace, if one was uploaded."""
    kept: tuple[Trace, str] | None = st.session_state.get(TRACE)
    return kept[0] if kept is not None else None


def trace_digest() -> str:
    """Return what tells this session's trace from any other; empty without one."""
    kept: tuple[Trace, str] | None = st.session_state.get(TRACE)
    return kept[1] if kept is not None else ""


def _trace_in_use(trace: Trace) -> None:
    count = float(trace.arrival_seconds.size)
    seconds = float(trace.arrival_seconds[-1] - trace.arrival_seconds[0])
    st.text(
        f"{trace.name}: {human(count, 'requests')} over {human(seconds, 's')}, on average "
        f"{human(float(trace.prompt_tokens.mean()), 'tokens')} of prompt and "
        f"{human(float(trace.output_tokens.mean()), 'tokens')} of output."
    )
    st.button("Leave the trace out again", key="forget_trace", on_click=_forget)


def _upload() -> None:
    st.caption(
        "A CSV file with the columns arrival_seconds, prompt_tokens, output_tokens, or those of "
        "the public Azure traces: TIMESTAMP, ContextTokens, GeneratedTokens. It stays in this "
        "session and is in no link: a link holds the scenario only."
    )
    st.file_uploader(
        "Trace", type=["csv"], key=UPLOAD, max_upload_size=LARGEST_TRACE_MB, on_change=_uploaded
    )
    uploads.show_refused(REFUSED)


def _uploaded() -> None:
    """Read the file once, when it arrives; a file that is taken back is left out again."""
    _forget()
    read = uploads.read_upload(UPLOAD, REFUSED, _usable_trace)
    if read is not None:
        st.session_state[TRACE] = read


def _usable_trace(content: bytes, name: str) -> tuple[Trace, str]:
    trace = parse_trace(content, name)
    require_context(trace, int(state.scenario().workload.max_context_tokens))
    return trace, hashlib.sha256(content).hexdigest()


def _forget() -> None:
    st.session_state.pop(TRACE, None)


def _word(name: str) -> None:
    path = f"simulation.{name}"
    word_control(path, SIMULATION_LABELS[path], state.scenario())


def _more() -> None:
    columns = st.columns(2)
    with columns[0]:
        knob_slider("limits.ttft_seconds", "pipeline")
        knob_slider("limits.tpot_seconds", "pipeline")
        knob_slider("simulation.attained_fraction")
    with columns[1]:
        if current_trace() is None:
            knob_slider("simulation.requests")
            knob_slider("simulation.seed")
        knob_slider("simulation.waiting_seconds")
    with st.container(horizontal=True, gap="large"):
        _word("grouping")
        _word("unfilled")
