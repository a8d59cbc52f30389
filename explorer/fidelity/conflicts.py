"""Places where a report disagrees with itself, computed from the measurement rows.

What the report claims is quoted with its section; what its rows give is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.config.model import Model
from explorer.config.scenario import Scenario
from explorer.fidelity.conditions import NotModelledError
from explorer.fidelity.measurements import Measurement, shipped_measurements
from explorer.fidelity.scenarios import base_scenario

CHIP = "ascend910a"
BYTES = 2
WALL_AS_SHIPPED = 3.929
"""Wall of section 5.4's first run [s], quoted: its row holds the rate, 1128, in fewer digits."""


@dataclass(frozen=True)
class Value:
    """One of the two figures of a conflict: what it is, where it stands, its number and unit."""

    what: str
    where: str
    value: float
    unit: str


@dataclass(frozen=True)
class Conflict:
    """Two figures of one report for one thing.

    Attributes:
        id: short name.
        title: what they are of.
        first: the figure as the report claims or uses it.
        second: the figure that its other rows give.
        consequence: what follows for a reader.
    """

    id: str
    title: str
    first: Value
    second: Value
    consequence: str

    @property
    def difference(self) -> float:
        """(second - first) / first."""
        return self.second.value / self.first.value - 1


@dataclass(frozen=True)
class _Rows:
    by_id: Mapping[str, Measurement]
    model: Model

    def __getitem__(self, name: str) -> float:
        return self.by_id[name].si_value

    def pass_seconds(self, name: str) -> float:
        """Return the seconds of a prefill pass measured as a rate."""
        row = self.by_id[name]
        return float(row.conditions["rows"]) / row.si_value

    def phase(self, phase: str, rows: int) -> float:
        return self[f"asc-phase-{phase}-{rows}"]

    def payload(self, rows: int) -> float:
        return float(rows * self.model.hidden_size * BYTES)


def report_conflicts(
    rows: Sequence[Measurement] | None = None, scenario: Scenario | None = None
) -> tuple[Conflict, ...]:
    """Return the Ascend report's disagreements with itself; none where its rows are missing.

    Args:
        rows: measurements; the published ones by default.
        scenario: gives the model's sizes; the preset of the report by default.
    """
    measured = shipped_measurements() if rows is None else rows
    by_id = {row.id: row for row in measured if row.chip == CHIP}
    try:
        shape = scenario or base_scenario(CHIP, "qwen3.8-27b")
        table = _Rows(by_id, shape.model_shape())
        return (*_collective(table), *_profile(table), *_recurrence(table), *_runs(table))
    except (KeyError, NotModelledError):
        return ()


def _two_point_fit(t: _Rows) -> tuple[float, float]:
    """Return fixed seconds and bytes a second through the ends of section 5.3's table."""
    low, high = t["asc-ar-engine-1105"], t["asc-ar-engine-4433"]
    rate = (t.payload(4433) - t.payload(1105)) / (high - low)
    return low - t.payload(1105) / rate, rate


def _collective(t: _Rows) -> tuple[Conflict, ...]:
    sites = 2 * t.model.layers
    calls = sites + 1
    serial, sliced = t.pass_seconds("asc-prefill-512-s1"), t.pass_seconds("asc-prefill-512-s4")
    before = t.pass_seconds("asc-constant4-512")
    fixed, rate = _two_point_fit(t)
    at_512 = fixed + t.payload(512) / rate
    claimed_fixed, claimed_byte = 1.6e-3, 2.2e-3
    return (
        Conflict(
            "collective-at-512",
            "One all-reduce of 512 rows",
            Value("0.491 s over 128 calls", "section 2", 0.491 / sites, "s"),
            Value("two-point fit", "section 5.3", at_512, "s"),
            "Section 2 takes the collectives from the profile that section 5.1 withdraws; priced "
            "by it they would be most of the pass.",
        ),
        Conflict(
            "byte-term",
            "Byte term of an all-reduce of 512 rows",
            Value("byte term", "section 2", claimed_byte, "s"),
            Value("payload over the fitted byte rate", "section 5.3", t.payload(512) / rate, "s"),
            "At the first price eight times the rows would move bytes for "
            f"{sites * 8 * claimed_byte:.2f} s; all {calls} calls take "
            f"{t.phase('tp_all_reduce', 4433):.3f} s at 4433 rows.",
        ),
        Conflict(
            "fixed-term",
            "Fixed term of an all-reduce: slice sweep against profile",
            Value("extra collective at 512 rows", "section 2", claimed_fixed, "s"),
            Value("two-point fit", "section 5.3", fixed, "s"),
            "Called one number measured twice; the first is host issue of passes bound by the "
            "host, the second issue and device term in line.",
        ),
        Conflict(
            "fixed-term-probe",
            "Fixed term of an all-reduce: profile against standalone probe",
            Value("two-point fit", "section 5.3", fixed, "s"),
            Value("standalone probe", "section 6", t["asc-ar-probe-10240"], "s"),
            f"{fixed / t['asc-ar-probe-10240']:.1f} times apart and left open. Decode cannot hold "
            f"the first: {calls} of it are {calls * fixed:.3f} s, a step takes "
            f"{1 / t['asc-rule-decode-1024']:.3f} s.",
        ),
        Conflict(
            "sliced-pass-512",
            "The 512-row pass in four slices",
            Value("used in the text", "section 2", before, "s"),
            Value("the sweep's own row", "section 3", sliced, "s"),
            "The text takes the run of the build before the rule: an extra collective costs "
            f"{(before - serial) / (3 * sites) * 1e3:.2f} or "
            f"{(sliced - serial) / (3 * sites) * 1e3:.2f} ms.",
        ),
        Conflict(
            "middle-point",
            "All-reduce of 2223 rows",
            Value("measured", "section 5.3", t["asc-ar-engine-2223"], "s"),
            Value("two-point fit", "section 5.3", fixed + t.payload(2223) / rate, "s"),
            "Said to be 5 % off. One fixed term and one byte rate do not hold over the range: "
            f"{_local_rate(t, 1105, 2223) / 1e9:.1f} GB/s below and "
            f"{_local_rate(t, 2223, 4433) / 1e9:.1f} GB/s above the middle.",
        ),
        Conflict(
            "call-count",
            "All-reduces of one pass",
            Value("calls of the serial pass", "section 2", float(sites), "calls"),
            Value("calls of the profile", "section 5.2", float(calls), "calls"),
            "The hidden state's all-reduce is never sliced: slicing adds calls at the other sites.",
        ),
    )


def _local_rate(t: _Rows, low: int, high: int) -> float:
    return (t.payload(high) - t.payload(low)) / (
        t[f"asc-ar-engine-{high}"] - t[f"asc-ar-engine-{low}"]
    )


def _profile(t: _Rows) -> tuple[Conflict, ...]:
    listed = ("gated_delta", "full_attention", "projections", "tp_all_reduce", "norms")
    stack = t.phase("stack", 1105)
    shares = sum(t.phase(phase, 2223) for phase in listed) / t.phase("stack", 2223)
    overlapped = t.by_id["asc-prefill-1024-s1"]
    return (
        Conflict(
            "stack-and-wall",
            "Wall beyond the stack at 1105 rows",
            Value("the most at every length", "section 5.2", 0.02, "fraction"),
            Value("table", "section 5.2", 1 - stack / t.phase("wall", 1105), "fraction"),
            "Time outside the layers is a larger share of short passes than stated.",
        ),
        Conflict(
            "sum-of-shares",
            "Sum of the listed shares at 2223 rows",
            Value("text", "section 5.2", 0.96, "fraction"),
            Value("table", "section 5.2", shares, "fraction"),
            "The small scopes that the table leaves out are less than the text says.",
        ),
        Conflict(
            "projection-share",
            "Projections' share of the stack at 2223 rows",
            Value("at every length", "section 5.2", 0.14, "fraction"),
            Value(
                "table",
                "section 5.2",
                t.phase("projections", 2223) / t.phase("stack", 2223),
                "fraction",
            ),
            "No fixed term and slope fit the projections: the middle length is 10 % off any line "
            "through the ends.",
        ),
        Conflict(
            "synced-and-overlapped",
            "Serial prefill of about 1100 rows",
            Value("device-synced, 1105 rows", "section 5.2", 1105 / t.phase("wall", 1105), "tok/s"),
            Value("not synced, 1024 rows", "section 3", overlapped.si_value, "tok/s"),
            "Synchronising every scope adds 0.27 to 0.29 s a pass: shares and targets of section "
            "5 are of a wall that nobody runs.",
        ),
    )


def _recurrence(t: _Rows) -> tuple[Conflict, ...]:
    linear = t.model.layers_of("linear_attention")
    per_layer = t.phase("gated_delta", 4433) / 4433 / linear
    heads = t.model.linear_value_heads / 4
    wall, recurrence = t.phase("wall", 4433), t.phase("gated_delta", 4433)
    shipped = WALL_AS_SHIPPED
    again = t["asc-ablation-none"]
    broadcast = again - t["asc-ablation-broadcast_rows"]
    rank1 = again - t["asc-ablation-rank1_update"]
    target = 4433 / 2000
    needed = recurrence - (wall - target), again - (shipped - target)
    return (
        Conflict(
            "per-token",
            "Recurrence a token at 1105 rows",
            Value("printed", "section 5.2", 496.9e-6, "s"),
            Value("0.5493 s / 1105", "section 5.2", t.phase("gated_delta", 1105) / 1105, "s"),
            "A slip; the recurrence stays linear within half a percent.",
        ),
        Conflict(
            "per-head",
            "Recurrence a token a head a layer",
            Value("printed", "section 5.2", 10.35e-6, "s"),
            Value("a head's share of a layer", "section 5.2", per_layer / heads, "s"),
            "The printed figure is of a layer, all heads of a card together.",
        ),
        Conflict(
            "broadcast-share",
            "broadcast_rows' share of the prefill wall",
            Value("printed", "section 5.4", 0.36, "fraction"),
            Value("table", "section 5.4", broadcast / shipped, "fraction"),
            "36 % is its share of the recurrence, not of the wall.",
        ),
        Conflict(
            "additivity",
            "What leaving both groups out saves",
            Value("both left out", "section 5.4", again - t["asc-ablation-both"], "s"),
            Value("sum of the two alone", "section 5.4", broadcast + rank1, "s"),
            "Within run-to-run spread: the groups add up.",
        ),
        Conflict(
            "shipped-wall",
            "Wall of the shipped kernel at 4433 rows",
            Value("profile", "section 5.2", wall, "s"),
            Value("ablation run", "section 5.4", shipped, "s"),
            "Two runs of one pass; section 5.5 mixes them.",
        ),
        Conflict(
            "target-recurrence",
            "Recurrence that 2000 tokens/s leaves at 4433 rows",
            Value("by table 5.2 alone", "section 5.2", needed[0], "s"),
            Value("by 5.4's pair", "section 5.4", needed[1], "s"),
            f"Printed as 0.47 s and 4.7 ×: it is {recurrence / needed[0]:.2f} × by 5.2 and "
            f"{again / needed[1]:.2f} × by 5.4.",
        ),
        Conflict(
            "cube-rate",
            "Prefill rate once the recurrence takes 0.9 s",
            Value("about", "section 5.5", 1700.0, "tok/s"),
            Value("table 5.2", "section 5.2", 4433 / (wall - recurrence + 0.9), "tok/s"),
            f"Then {wall - recurrence + 0.9 - target:.3f} s are missing, more than all fixed terms "
            f"of the collectives, {(2 * t.model.layers + 1) * _two_point_fit(t)[0]:.3f} s.",
        ),
    )


def _runs(t: _Rows) -> tuple[Conflict, ...]:
    after, before = t["asc-rule-decode-512"], t["asc-constant4-decode-512"]
    rule, best = t["asc-rule-1024"], t["asc-prefill-1024-s2"]
    command_tokens = 10 * 52
    ceiling = t["asc-rule-512"]
    pinned = t["asc-prefill-512-s4"]
    return (
        Conflict(
            "ceiling-or-pin",
            "Slices of 512 rows with QWEN_COMM_OVERLAP_SLICES=4",
            Value("the variable scales the rule's ceiling", "section 4", 1.0, "slices"),
            Value("it pins the count", "section 8", 4.0, "slices"),
            f"{ceiling:.1f} or {pinned:.1f} tokens/s. As a ceiling no setting repeats the forced "
            "runs of section 3; as a pin the rule runs only where the variable is left unset. "
            "Exports set it and say where the two readings differ.",
        ),
        Conflict(
            "decode-drift",
            "Decode rate at 512 tokens of context",
            Value("constant 4 slices", "section 4", before, "tok/s"),
            Value("slice rule", "section 4", after, "tok/s"),
            "Decode takes the serial path in both builds; 8.72 to 8.99 is said to bound the drift, "
            "and the two builds differ by more.",
        ),
        Conflict(
            "rule-at-1024",
            "Best prefill at 1024 rows",
            Value("2 slices, called the optimum", "section 3", best, "tok/s"),
            Value("what the rule runs, 1 slice", "section 4", rule, "tok/s"),
            "The rule is said to reproduce the optimum; at this length it picks the other count. "
            "Both are within the spread of runs.",
        ),
        Conflict(
            "prompt-length",
            "Tokens of the prompt that reproduces the 4096-row figures",
            Value("asked for", "section 8", 4096.0, "tokens"),
            Value("made by the command", "section 8", float(command_tokens), "tokens"),
            "10 ids times 52: run as printed the command measures a short, host-bound pass.",
        ),
    )
