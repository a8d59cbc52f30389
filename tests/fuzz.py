"""Random scenarios, links and files, valid and broken; and a longer run of all that use them.

    python -m tests.fuzz --minutes 10

repeats the tests in ``tests/test_fuzz_*.py`` with new random numbers until the time is over, and
prints the seed of each round; ``pytest --hypothesis-seed=SEED tests/test_fuzz_*.py`` repeats one.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.config.scenario import WORD_FIELDS, Scenario, knob_at, legal_values, paths_of
from tests.configs import CONFIGS, config
from tests.scenarios import PRESETS

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
FACTOR = float(os.environ.get("FUZZ_FACTOR", "1"))
SHARES_VARIED = (0.05, 0.3, 1.0)
FROZEN = ("name", "chip", "model")
LEAST = 1e-12


def examples(count: int) -> settings:
    """Return settings for a number of examples, multiplied by FUZZ_FACTOR of the environment."""
    return settings(
        max_examples=max(int(count * FACTOR), 1),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


# Scenarios --------------------------------------------------------------------------------------


@st.composite
def worded(draw: st.DrawFn, presets: Sequence[str] = PRESETS) -> Scenario:
    """Draw a preset with any words: placement, formats, mechanisms, arrivals."""
    base = preset_scenario(draw(st.sampled_from(presets)))
    changes: dict[str, Any] = {}
    for path, words in WORD_FIELDS.items():
        if path not in paths_of(base):
            continue
        offered = base.chip_document().compute_precisions if path == "precision.compute" else words
        if draw(st.booleans()):
            changes[path] = draw(st.sampled_from(offered))
    return base.replacing(changes)


def numbers_of(scenario: Scenario) -> dict[str, tuple[float, float, bool]]:
    """Return lowest and highest value, and whether it is whole, of every number by path."""
    found = {}
    for path in paths_of(scenario):
        knob = knob_at(scenario, path)
        if path not in FROZEN and path not in WORD_FIELDS and knob is not None:
            found[path] = (float(knob.minimum), float(knob.maximum), knob.whole)
    return found


def random_values(
    scenario: Scenario, path: str, random: np.random.Generator, count: int
) -> np.ndarray:
    """Return accepted values of a number: its ends, its present value, near it, and anywhere."""
    legal = legal_values(scenario, path)
    if legal:
        return random.choice(np.asarray(legal), count)
    low, high, whole = numbers_of(scenario)[path]
    now = scenario.value(path)
    present = float(now) if isinstance(now, int | float) else low
    floor = low if low > 0 else min(high, max(LEAST, high * LEAST))
    anywhere = np.exp(random.uniform(math.log(floor), math.log(high), count))
    near = np.clip(max(present, floor) * np.exp(random.normal(0, 1, count)), low, high)
    choice = random.integers(0, 8, count)
    values = np.select(
        [choice == 0, choice == 1, choice == 2, choice < 6],
        [np.full(count, low), np.full(count, high), np.full(count, present), near],
        anywhere,
    )
    return np.clip(np.round(values), low, high).astype(np.int64) if whole else values


@st.composite
def many_scenarios(draw: st.DrawFn, count: int = 256) -> Scenario:
    """Draw one scenario whose arrays hold ``count``: words alike, numbers anywhere in range."""
    base = draw(worded())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from(SHARES_VARIED))
    paths = [
        path
        for path in numbers_of(base)
        if not path.startswith("simulation.") and random.random() < share
    ]
    values = {path: random_values(base, path, random, count) for path in paths}
    return base.replacing({p: v for p, v in values.items() if base.value(p) is not None})


@st.composite
def one_scenario(draw: st.DrawFn, presets: Sequence[str] = PRESETS) -> Scenario:
    """Draw a scenario of single values, anywhere in their ranges."""
    base = draw(worded(presets))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from(SHARES_VARIED))
    changes = {
        path: random_values(base, path, random, 1)[0].item()
        for path in numbers_of(base)
        if random.random() < share
    }
    return base.replacing(changes)


def single(scenario: Scenario, index: int) -> Scenario:
    """Return one of the scenarios that the arrays of another hold."""
    arrays = {
        path: value[index].item()
        for path in paths_of(scenario)
        if path not in FROZEN and isinstance(value := scenario.value(path), np.ndarray)
    }
    return scenario.replacing(arrays)


# Documents --------------------------------------------------------------------------------------

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e308, 5e-324, 1e-300,
    math.inf, -math.inf, math.nan, "", " ", "auto", "rule", "none", "1", "1e5", "NaN", "\x00",
    "<script>alert(1)</script>", "=1+1", "../../etc/passwd", "é\u202e\ud800", "x" * 5000,
    [], {}, [1, 2], {"value": 1}, [[]], {"": None},
)  # fmt: skip
Tree = Any


@st.composite
def broken_documents(draw: st.DrawFn, documents: Sequence[Tree]) -> bytes:
    """Draw the bytes of a document with some parts changed, or its bytes damaged."""
    tree = json.loads(json.dumps(draw(st.sampled_from(documents))))
    for _ in range(draw(st.integers(0, 4))):
        tree = _changed(draw, tree)
    text = json.dumps(tree, ensure_ascii=draw(st.booleans()))
    content = text.encode("utf-8", "surrogatepass")
    return draw(damaged(content)) if draw(st.integers(0, 4)) == 0 else content


def _changed(draw: st.DrawFn, tree: Tree) -> Tree:
    places = list(_places(tree))
    if not places:
        return copy.deepcopy(draw(st.sampled_from(STRANGE)))
    holder, key = draw(st.sampled_from(places))
    ways: list[Callable[[], None]] = [
        lambda: holder.__setitem__(key, copy.deepcopy(draw(st.sampled_from(STRANGE)))),
        lambda: holder.__setitem__(key, _scaled(holder[key], draw)),
        lambda: holder.__delitem__(key),
    ]
    if isinstance(holder, dict):
        other, from_key = draw(st.sampled_from(places))
        ways += [
            lambda: holder.__setitem__(f"{key}x", holder.pop(key)),
            lambda: holder.__setitem__(key, json.loads(json.dumps(other[from_key]))),
        ]
    draw(st.sampled_from(ways))()
    return tree


def _scaled(value: Tree, draw: st.DrawFn) -> Tree:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    by = draw(st.sampled_from([-1, 0, 0.5, 2, 1e-6, 1e6, 1e30]))
    scaled = value * by
    return int(scaled) if isinstance(value, int) and math.isfinite(scaled) else scaled


def _places(tree: Tree) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        keys = (
            node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        )
        for key in keys:
            found.append((node, key))
            stack.append(node[key])
    return found


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw bytes cut, repeated, with some replaced, or with a mark of another encoding."""
    at = draw(st.integers(0, len(content)))
    to = draw(st.integers(at, min(len(content), at + 40)))
    middle = draw(
        st.sampled_from(
            [b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b'"', b",", b"{" * 3000]
        )
        | st.binary(max_size=8)
    )
    way = draw(st.integers(0, 3))
    if way == 0:
        return content[:at]
    if way == 1:
        return content[:at] + middle + content[at:]
    if way == 2:
        return content[:at] + middle + content[to:]
    return content.decode("utf-8", "ignore").encode(
        draw(st.sampled_from(["utf-16", "latin-1"])), "replace"
    )


def golden(*names: str) -> list[Tree]:
    """Return documents of the versions that are kept."""
    return [
        json.loads(path.read_text(encoding="utf-8"))
        for name in names
        for path in sorted(GOLDEN.glob(name))
    ]


def hugging_face_configs() -> list[Mapping[str, Any]]:
    """Return the published configs that the tests hold."""
    return [config(name) for name in CONFIGS]


# Text files ---------------------------------------------------------------------------------------

CELLS = (
    "", " ", "nan", "inf", "-1", "0", "1e400", "1e-400", "1,5", '"', "=1+1", "x" * 300, "\x00",
    "m=4096", "m=4096;k=", ";;", "dtype=fp64", "−1", "\uff11\uff12", "0x10", "1_000", "true",
)  # fmt: skip


@st.composite
def broken_tables(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a table or listing with cells, lines or bytes changed."""
    lines = content.decode("utf-8").splitlines()
    keep = draw(st.integers(1, min(len(lines), 12)))
    first = draw(st.integers(1, max(len(lines) - keep, 1)))
    lines = [lines[0], *lines[first : first + keep]]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        separator = "," if "," in lines[at] else " "
        cells = lines[at].split(separator)
        which = draw(st.integers(0, len(cells) - 1))
        way = draw(st.integers(0, 4))
        if way == 0:
            cells[which] = draw(st.sampled_from(CELLS))
        elif way == 1:
            del cells[which]
        elif way == 2:
            cells.insert(which, draw(st.sampled_from(CELLS)))
        elif way == 3:
            cells = cells[::-1]
        lines[at] = separator.join(cells)
        if way == 4:
            lines.insert(at, lines[draw(st.integers(0, len(lines) - 1))])
    text = draw(st.sampled_from(["\n", "\r\n", "\r"])).join(lines).encode()
    return draw(damaged(text)) if draw(st.integers(0, 5)) == 0 else text


def or_refused(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or None where it refuses its input and says why in words."""
    try:
        return call()
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            sentence = problem.sentence()
            assert sentence.isprintable()
            assert sentence
        return None


def main() -> int:
    """Repeat the fuzzing tests until the time is over; exit 1 at the first failure."""
    parser = argparse.ArgumentParser(description="Repeat the fuzzing tests with new numbers.")
    parser.add_argument("--minutes", type=float, default=10, help="how long (default 10)")
    parser.add_argument("--factor", type=float, default=5, help="examples, times the suite's")
    options = parser.parse_args()
    files = sorted(str(path) for path in (ROOT / "tests").glob("test_fuzz_*.py"))
    end = time.monotonic() + 60 * options.minutes
    random = np.random.default_rng()
    while time.monotonic() < end:
        seed = int(random.integers(2**31))
        print(f"seed {seed}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", f"--hypothesis-seed={seed}", *files],
            cwd=ROOT,
            env=os.environ | {"FUZZ_FACTOR": str(options.factor)},
            check=False,
        )
        if done.returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
