"""One visual language: a colour for each resource, safe for colour-blind eyes."""

from __future__ import annotations

from explorer.costs.terms import Bound
from explorer.plots.drawing import Drawing

# Okabe and Ito's palette, which keeps apart for the common kinds of colour blindness.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED, YELLOW, GREY = "#56B4E9", "#D55E00", "#F0E442", "#8C8C8C"

COLOUR_OF_BOUND = {
    Bound.COMPUTE: BLUE,
    Bound.INSTRUCTION_ISSUE: YELLOW,
    Bound.WEIGHTS: ORANGE,
    Bound.KV_CACHE: PINK,
    Bound.ACTIVATIONS: SKY,
    Bound.COLLECTIVE: GREEN,
    Bound.LINK: GREEN,
    Bound.LAUNCH: RED,
    Bound.HOST: RED,
    Bound.MEASURED: GREY,
    Bound.PIPELINE_FILL: GREY,
    Bound.ROUNDS: YELLOW,
}
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
BATCH_COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, RED)


def words(name: str) -> str:
    """Return an operator's name as words: ``qkv_linear`` becomes ``Q/K/V linear``."""
    text = WORDS.get(name, name.replace("_", " "))
    return text[0].upper() + text[1:]


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
            "xaxis": {"automargin": True},
            "yaxis": {"automargin": True},
        }
    )
