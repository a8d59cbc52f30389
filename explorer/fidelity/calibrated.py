"""What a calibration leaves behind: a chip document of its own, and sentences about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from explorer.chips.ascend910a_synced import STACK, WALL
from explorer.config.chip import Chip
from explorer.config.errors import refuse
from explorer.config.units import human, percent, significant
from explorer.fidelity.calibration import Calibration, FittedConstant
from explorer.fidelity.intervals import CONFIDENCE

LONGEST_ID = 80
LONGEST_FILE = 40
MOST_FILES = 3
WIDER = 2.0
"""Jackknife over Jacobian interval from which on the two are said to disagree."""
ADDED_NAME = re.compile(", calibrated$")
ADDED = re.compile(r"; [0-9]+ constants? fitted to .*$", re.DOTALL)
SUFFIX = re.compile(r"-calibrated(-[a-z0-9.\-]*)?$")
ASSUMES = (
    f"{100 * CONFIDENCE:.0f} % intervals come from the Jacobian of the log errors: they assume "
    "that rows scatter independently around the model, rows that share constants all by the same "
    "relative amount, and that the model is right otherwise. The jackknife beside them assumes "
    "less: it takes how far the constants move when rows are left out."
)


def calibrated_chip(calibration: Calibration) -> Chip:
    """Return the chip with its fitted constants: a document of its own, with their sources.

    Raises:
        InputError: when nothing was fitted.
    """
    base, count = calibration.chip, len(calibration.constants)
    if not calibration.constants:
        raise refuse("rows", len(calibration.used), "determine no constant: there is no new chip")
    quantities = dict(base.quantities)
    for constant in calibration.constants:
        old = quantities[constant.name]
        quantities[constant.name] = old.model_copy(
            update={
                "value": constant.value,
                "kind": "fitted",
                "source": _source(calibration, constant),
                "note": f"{human(constant.before, old.unit)} before, {old.kind}: {old.source}",
            }
        )
    fitted = f"{_counted(count, 'constant')} fitted to {_counted(len(calibration.used), 'row')}"
    return base.model_copy(
        update={
            "id": calibrated_id(calibration),
            "version": 1,
            "name": f"{ADDED_NAME.sub('', base.name)}, calibrated",
            "source": f"{ADDED.sub('', base.source)}; {fitted} of {_files(calibration)}",
            "quantities": quantities,
        }
    )


def calibrated_id(calibration: Calibration) -> str:
    """Return the id of the calibrated chip: the old one's, and the first file's name."""
    base = SUFFIX.sub("", calibration.chip.id)
    stem = PurePath(calibration.files[0]).stem.lower() if calibration.files else ""
    plain = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")
    return f"{base}-calibrated-{plain}"[:LONGEST_ID].rstrip("-.")


def headline(calibration: Calibration) -> str:
    """Return the outcome in one sentence."""
    used, chip = _counted(len(calibration.used), "row"), calibration.chip.name
    count = len(calibration.constants)
    if not count:
        verb = "determines" if len(calibration.used) == 1 else "determine"
        return f"{used} {verb} no constant of {chip} that may be fitted: it stays as it is"
    moved = sum(constant.moved for constant in calibration.constants)
    before, after, left_out = (
        percent(calibration.mean_error(which)) for which in ("before", "after", "left_out")
    )
    errors = f"mean error from {before} to {after} (left out {left_out})"
    if not moved:
        what = "the constant fitted" if count == 1 else f"none of {count} fitted constants"
        moves = "does not move" if count == 1 else "moves"
        return f"{used} agree with {chip}: {what} {moves} beyond its interval; {errors}"
    verb = "changes" if len(calibration.used) == 1 else "change"
    return f"{used} {verb} {_counted(moved, 'constant')} of {chip}; {errors}"


def warnings(calibration: Calibration) -> Iterator[str]:
    """Yield what should be known before the fitted constants are used."""
    if not calibration.constants:
        return
    moved = any(constant.moved for constant in calibration.constants)
    if moved and calibration.mean_error("left_out") >= calibration.mean_error("before"):
        yield (
            "rows that were left out are predicted no better than by the chip as it was: "
            "its constants should be kept"
        )
    for constant in calibration.constants:
        label = calibration.chip.quantities[constant.name].label
        if constant.interval.at:
            yield (
                f"{label} ended at its {constant.interval.at}: the rows want it beyond, so that "
                "something else is likely to be missing from the model"
            )
        elif constant.interval.low is None:
            yield f"{label} has no interval: there are as many constants as rows"
    wide = [
        calibration.chip.quantities[constant.name].label
        for constant in calibration.constants
        if _disagrees(constant)
    ]
    if wide:
        yield (
            f"few of the rows rule the fitted value of {'; '.join(wide)}: where the jackknife "
            "interval is much wider, believe that one"
        )
    for first, second, correlation in calibration.traded:
        labels = [calibration.chip.quantities[name].label for name in (first, second)]
        yield (
            f"{labels[0]} and {labels[1]} are determined together better than each "
            f"(correlation {correlation:.2f})"
        )
    if _nested(calibration):
        yield (
            "wall and stack of a profile are sums of its phases: the rows are not independent, "
            "and the intervals too narrow"
        )
    if calibration.odd:
        yield f"far off what the other rows say: {', '.join(calibration.odd)}"


def interval_text(calibration: Calibration, constant: FittedConstant) -> str:
    """Return a fitted constant's interval, or why it has none."""
    interval = constant.interval
    if interval.at:
        return f"at its {interval.at}"
    return _range(interval.low, interval.high, calibration.chip.quantities[constant.name].unit)


def jackknife_text(calibration: Calibration, constant: FittedConstant) -> str:
    """Return a fitted constant's jackknife interval, or a dash."""
    interval, unit = constant.interval, calibration.chip.quantities[constant.name].unit
    return _range(interval.jackknife_low, interval.jackknife_high, unit)


def _range(low: float | None, high: float | None, unit: str) -> str:
    if low is None or high is None:
        return "–"
    ends = (human(low, unit), human(high, unit))
    if ends[0] != ends[1] or low == high:
        return " to ".join(dict.fromkeys(ends))
    return f"{ends[0]} ± {significant(50 * (high - low) / low, 2)} %"


def _nested(calibration: Calibration) -> bool:
    """Return whether sums stand beside their parts among the rows that constants were fitted to."""
    passes: dict[str, set[bool]] = {}
    for row in calibration.used:
        conditions = row.measurement.conditions
        if row.effects and "phase" in conditions:
            is_sum = conditions["phase"] in (WALL, STACK)
            passes.setdefault(conditions.get("rows", ""), set()).add(is_sum)
    return any(len(kinds) > 1 for kinds in passes.values())


def _disagrees(constant: FittedConstant) -> bool:
    i = constant.interval
    if i.low is None or i.high is None or i.jackknife_low is None or i.jackknife_high is None:
        return False
    return i.jackknife_high - i.jackknife_low > WIDER * (i.high - i.low)


def _source(calibration: Calibration, constant: FittedConstant) -> str:
    interval = interval_text(calibration, constant)
    if constant.interval.low is not None:
        interval = f"{100 * CONFIDENCE:.0f} % interval {interval}"
    return (
        f"fitted to {_counted(len(constant.rows), 'row')} of {_files(calibration)} by least "
        f"squares on log ratios; {interval}"
    )


def _files(calibration: Calibration) -> str:
    names = [re.sub(r"[^A-Za-z0-9._ -]", "_", name)[:LONGEST_FILE] for name in calibration.files]
    more = [f"{len(names) - MOST_FILES} more files"] if len(names) > MOST_FILES else []
    return " and ".join([*names[:MOST_FILES], *more])


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
