"""Colours: one for each resource, and others for what is compared, which no resource has.

Every colour stands out from a light and from a dark page (WCAG 1.4.11), and those that meet on a
chart keep apart for the common kinds of colour blindness; they were searched for under these
conditions in Lab. Beside a colour there is always a word, a dash, a symbol or a pattern.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

COMPUTE, ISSUE = "#5C86FF", "#4B52E3"
WEIGHTS, KV_CACHE, ACTIVATIONS = "#A8481E", "#F0167C", "#B28B10"
COMMUNICATION, HOST, CAPACITY, NEUTRAL = "#5B944D", "#9B5CB0", "#00A697", "#656663"
RESOURCES = {
    "compute": COMPUTE,
    "compute: issue and rounds": ISSUE,
    "memory: weights": WEIGHTS,
    "memory: KV cache and state": KV_CACHE,
    "memory: activations": ACTIVATIONS,
    "communication": COMMUNICATION,
    "host": HOST,
    "capacity": CAPACITY,
    "neutral": NEUTRAL,
}
PLUM, STEEL, MOSS, TAN, SLATE = "#775A8A", "#478EBB", "#546F45", "#AB8D58", "#8593A5"
LINEAR_BELOW = 0.04045
"""Value of a channel from which sRGB is a power."""
LIGHT_INK, DARK_INK = "#FFFFFF", "#000000"

Dash = Literal["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"]


class Look(NamedTuple):
    """How one of several things that are compared is drawn."""

    colour: str
    dash: Dash
    symbol: str

    @property
    def line(self) -> dict[str, object]:
        """The line of a trace."""
        return {"color": self.colour, "dash": self.dash, "width": 2}


COMPARED = (
    Look(PLUM, "solid", "circle"),
    Look(STEEL, "dash", "square"),
    Look(MOSS, "dot", "triangle-up"),
    Look(TAN, "dashdot", "diamond"),
    Look(SLATE, "longdash", "cross"),
)
MORE_DASHES: tuple[Dash, ...] = ("longdashdot", "solid", "dash", "dot", "dashdot")


def look(index: int) -> Look:
    """Return the look of the thing at a place; from the sixth on with a colour had before."""
    first = COMPARED[index % len(COMPARED)]
    if index < len(COMPARED):
        return first
    return first._replace(dash=MORE_DASHES[index % len(COMPARED)], symbol=f"{first.symbol}-open")


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#RRGGBB``, from 0 to 1 (WCAG 2.2)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= LINEAR_BELOW else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_on(colour: str) -> str:
    """Return the ink, white or black, that reads better on a colour: at least 4.5 to 1."""
    return max((LIGHT_INK, DARK_INK), key=lambda ink: contrast(ink, colour))
