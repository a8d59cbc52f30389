"""One visual language: what a colour, a mark and a pattern mean on every chart."""

from __future__ import annotations

import html
from collections.abc import Sequence

from explorer.costs.terms import Bound
from explorer.plots.drawing import Drawing
from explorer.plots.palette import (
    ACTIVATIONS,
    COMMUNICATION,
    COMPARED,
    COMPUTE,
    DARK_INK,
    HOST,
    ISSUE,
    KV_CACHE,
    LIGHT_INK,
    NEUTRAL,
    RESOURCES,
    WEIGHTS,
    text_on,
)

COLOUR_OF_BOUND = {
    Bound.COMPUTE: COMPUTE,
    Bound.INSTRUCTION_ISSUE: ISSUE,
    Bound.WEIGHTS: WEIGHTS,
    Bound.KV_CACHE: KV_CACHE,
    Bound.ACTIVATIONS: ACTIVATIONS,
    Bound.COLLECTIVE: COMMUNICATION,
    Bound.LINK: COMMUNICATION,
    Bound.LAUNCH: HOST,
    Bound.HOST: HOST,
    Bound.MEASURED: NEUTRAL,
    Bound.PIPELINE_FILL: NEUTRAL,
    Bound.ROUNDS: ISSUE,
}
SYMBOL_OF_COLOUR = {
    COMPUTE: "circle",
    ISSUE: "hexagon",
    WEIGHTS: "square",
    KV_CACHE: "diamond",
    ACTIVATIONS: "triangle-up",
    COMMUNICATION: "cross",
    HOST: "triangle-down",
    NEUTRAL: "pentagon",
}
RESOURCE_OF_COLOUR = {colour: name for name, colour in RESOURCES.items()} | {NEUTRAL: "waiting"}
NAME_OF_BOUND = {
    Bound.COMPUTE: "arithmetic",
    Bound.INSTRUCTION_ISSUE: "instruction issue",
    Bound.WEIGHTS: "weights",
    Bound.KV_CACHE: "KV cache and state",
    Bound.ACTIVATIONS: "activations",
    Bound.COLLECTIVE: "all-reduce",
    Bound.LINK: "network",
    Bound.LAUNCH: "launch",
    Bound.HOST: "host issue",
    Bound.MEASURED: "as measured",
    Bound.PIPELINE_FILL: "pipeline fill",
    Bound.ROUNDS: "fixed time of rounds",
}
WORDS = {
    "qkv_linear": "Q/K/V linear",
    "kv_linear": "KV linear",
    "gate_up_linear": "gate and up linear",
    "kv_cache": "KV cache",
    "kv_transfer_stall": "waiting for the KV transfer",
    "ffn_norm": "FFN norm",
    "all_reduce": "all-reduce",
    "all_reduce_bytes": "all-reduce bytes",
    "collectives_fixed": "fixed cost of all-reduces",
    "collectives_bytes": "bytes of all-reduces",
    "outside_layers": "outside the layers",
    "output_head": "output head",
    "device_fixed": "fixed time on the device",
    "decode_issue": "issuing the step",
    "gated_delta": "gated-delta recurrence",
    "host_issue_wait": "waiting for host issue",
    "stage_hand_over": "hand-over to the next stage",
}
PREFILL, DECODE, BUFFER, PAUSED = COMPARED[:4]
"""Looks of what is no resource on the charts of pools."""
ASSUMED_KINDS = frozenset({"assumed", "fitted"})
ASSUMED_NAME = "hatched: assumed or fitted"
ASSUMED_SHAPE, PLAN_SHAPE, PAUSED_SHAPE, IDLE_SHAPE = "/", "-", "x", "."
HATCH_OPACITY = 0.35
PRESENT_MARK = {
    "symbol": "star",
    "size": 15,
    "color": DARK_INK,
    "line": {"width": 1.5, "color": LIGHT_INK},
}
"""Where the sliders stand."""
EDGE = {"width": 1, "color": LIGHT_INK}
SMALLEST_TEXT = 11
AXIS = {"automargin": True, "separatethousands": True, "minexponent": 5}
"""What every axis has: ticks up to 999,999 as texts have them, where Plotly has 1000 and 10k."""


def resource(bound: Bound) -> str:
    """Return the resource that a bound is of, such as ``memory: weights``."""
    return RESOURCE_OF_COLOUR[COLOUR_OF_BOUND[bound]]


def hatched(colour: str, shape: str) -> dict[str, object]:
    """Return a bar's pattern over its colour; it leaves text in the bar as readable as without."""
    ink = DARK_INK if text_on(colour) == LIGHT_INK else LIGHT_INK
    return {
        "shape": shape,
        "fillmode": "overlay",
        "fgcolor": ink,
        "fgopacity": HATCH_OPACITY,
        "size": 6,
        "solidity": 0.25,
    }


def add_assumed_key(figure: Drawing) -> None:
    """Add to the legend what the hatching of assumed and fitted parts means."""
    figure.add_bar(
        x=[None],
        y=[None],
        orientation="h",
        name=ASSUMED_NAME,
        marker={"color": NEUTRAL, "pattern": hatched(NEUTRAL, ASSUMED_SHAPE)},
        hoverinfo="skip",
    )


def words(name: str) -> str:
    """Return an operator's name as words: ``qkv_linear`` becomes ``Q/K/V linear``."""
    text = WORDS.get(name, name.replace("_", " "))
    return text[0].upper() + text[1:]


def legend_entry(name: str, named: set[str]) -> dict[str, object]:
    """Return what traces of one name say to share a legend entry, and add it to ``named``."""
    first = name not in named
    named.add(name)
    return {"name": name, "legendgroup": name, "showlegend": first}


def lowered(text: str) -> str:
    """Return a name as it stands within a sentence; ``KV`` and ``Q/K/V`` keep their capitals."""
    return text if text[1:2].isupper() or text[1:2] == "/" else f"{text[0].lower()}{text[1:]}"


def capital(text: str) -> str:
    """Return a text as it begins a sentence or a line."""
    return f"{text[:1].upper()}{text[1:]}"


def joined(texts: Sequence[str], last: str = "and") -> str:
    """Return texts as a sentence has them: ``a, b and c``."""
    return f" {last} ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def untagged(text: str) -> str:
    """Return a person's text so that Plotly, which reads a subset of HTML, shows it as it is.

    Text is cut before it comes here: the half of an entity is none.
    """
    return html.escape(text, quote=False)


def tick_text(value: float) -> str:
    """Return a tick's whole value without zeros at its end, such as ``0.05`` or ``2,000``."""
    text = f"{value:,.9f}".rstrip("0").rstrip(".")
    return text or "0"


def base_figure(height: int, view: str) -> Drawing:
    """Return an empty figure with the margins, legend place and zoom memory of the project.

    Args:
        height: pixels.
        view: name under which the browser keeps zoom and hidden traces between updates.
    """
    return Drawing(
        layout={
            "height": height,
            "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
            "legend": {
                "orientation": "h",
                "yanchor": "bottom",
                "y": 1.02,
                "xanchor": "left",
                "x": 0,
                "traceorder": "normal",
            },
            "uirevision": view,
            "hoverlabel": {"align": "left"},
            "font": {"size": 13},
            "bargap": 0.35,
            "xaxis": dict(AXIS),
            "yaxis": dict(AXIS),
        }
    )
