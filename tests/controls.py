"""Every control of a page, found and driven as by hand; and a longer random walk over all of them.

    python -m tests.controls --minutes 10

walks with new seeds until the time is over and prints each; ``--seed SEED`` repeats one walk.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import Message
from streamlit.runtime.state.common import TESTING_KEY
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import (
    Block,
    Button,
    ButtonGroup,
    Checkbox,
    Dataframe,
    DownloadButton,
    Element,
    FileUploader,
    Multiselect,
    NumberInput,
    Radio,
    Selectbox,
    SelectSlider,
    Slider,
    Table,
    TextArea,
    TextInput,
    Toggle,
    UnknownElement,
    Widget,
)

from tests.configs import CONFIGS, config
from tests.scenarios import ASCEND, GENERIC, MT3000
from tests.test_app_pages import opened, to_page

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = (MT3000, ASCEND, GENERIC)
HOSTILE = (
    "<script>alert(1)</script> **b** _i_ [l](javascript:x) $x^2$ :red[r] `c` <img src=x> # \\ "
)
LONG_TEXT = HOSTILE + "ß∑漢🙂" * 500
LARGEST_WHOLE = 2**53 - 1
"""What the browser can send exactly, either way."""
FEW_TRIALS = 12
PATIENCE_SECONDS = 20
"""Work in the background that takes longer is stopped with the page's own button."""
MOST_OPTIONS = 8
"""Of a choice with more options its first and last are taken, else each one."""
WORKERS = ("task", "search")
NOT_WORDS = re.compile(
    r"(?<![\w./-])(nan|NaN|None(?! of\b)|-?inf|Infinity|undefined|NaT)(?![\w./-])"
)
FILES = (
    ("empty", b""),
    (HOSTILE.replace("/", ""), LONG_TEXT.encode() + b"\x00\xff\n,,,\n"),
)
GOLDEN = ROOT / "tests" / "golden"
ACCEPTED_FILES = {
    "add_file": (GOLDEN / "export-1-first-mt3000.json").read_bytes(),
    "measurements": (GOLDEN / "measurements-1.csv").read_bytes(),
    "own:data": (GOLDEN / "measurements-1.csv").read_bytes(),
    "own:model_file": json.dumps(config(CONFIGS[0])).encode(),
    "own_chip_upload": (GOLDEN / "chip-1-differences.json").read_bytes(),
    "trace_upload": b"arrival_seconds,prompt_tokens,output_tokens\n0,100,10\n0.5,64,1\n",
    "upload": (GOLDEN / "export-1-first-mt3000.json").read_bytes(),
}
"""A file that each uploader takes, by its key."""
ACCEPTED_TEXTS = {
    "add_link": f"?preset={ASCEND}@1&plan.slices=2",
    "exact": "workload.prompt_tokens=77&workload.output_tokens=1",
    "pasted": f"?preset={GENERIC}@1&workload.prompt_tokens=99",
    "own:profile text": "qwen_phase tag=prefill rank=0\n  STACK.r seconds=1.2229\n"
    "  gated_delta seconds=0.5493\nprefill_seconds=1.2501 prefill_tokens_per_s=883.9",
}
CHOICES = ButtonGroup | Radio | Selectbox
LINES, SHOWN = 12, 60
"""Last things done that a failure lists, and letters of each value."""
TRIALS = "number_input trials"
COSTLY = ("select_slider knob:simulation.requests",)
"""Counts that a person waits minutes for: only small ones are taken."""
DIGITS_OF_FEW = 4
BACK_AND_FORTH = ("button undo", "button redo", "button reset")
STEPS = {"page": 0.12, "back": 0.1, "sidebar": 0.43, "main": 0.35}
LONG_WORK = ("button search", "button start:largest_rate", "button start:least_clusters")
GENERATION, DIGIT = re.compile(r"#\d+$"), re.compile(r"\d")


# What a page says ---------------------------------------------------------------------------------


def _strings(message: Message) -> Iterator[str]:
    """Return every text of a message of the wire, those of messages in it included."""
    for kind, value in message.ListFields():
        if kind.name in ("id", "key", "user_key", "element_hash", "form_id", "spec", "config"):
            continue
        several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        for one in value if several else [value]:
            if isinstance(one, str):
                yield one
            elif isinstance(one, Message):
                yield from _strings(one)


def _json_strings(node: object) -> Iterator[str]:
    """Return every text in a figure; packed numbers are none."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            if name not in ("bdata", "template"):
                yield from _json_strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _json_strings(value)
    elif isinstance(node, str):
        yield node


def _texts(element: Element) -> Iterator[str]:
    if isinstance(element, Dataframe | Table):
        frame, empty = element.value, getattr(element.proto, "placeholder", "") or "None"
        yield from map(str, frame.columns)
        for name in frame.columns:
            yield from frame[name].astype(object).where(frame[name].notna(), empty).map(str)
        return
    if isinstance(element, UnknownElement) and element.type == "plotly_chart":
        yield from _json_strings(json.loads(element.proto.spec))
    if isinstance(element, Widget):
        # What a person typed is theirs, whatever it says.
        yield from (getattr(element.proto, "label", ""), getattr(element.proto, "help", ""))
        yield from getattr(element, "options", ())
        return
    yield from _strings(element.proto)


def faults(app: AppTest) -> list[str]:
    """Return what a page must never show: exceptions, and values that are no value, as words."""
    found = [f"{error.value} {error.message}" for error in app.exception]
    for element in app._tree:
        if isinstance(element, Element) and element.type != "html":
            for text in _texts(element):
                wrong = NOT_WORDS.search(text)
                if wrong is not None:
                    start = max(wrong.start() - 60, 0)
                    found.append(f"{element.type} {element.key}: …{text[start : wrong.end() + 60]}")
    return found


# What can be done on it ---------------------------------------------------------------------------


def name_of(widget: Widget) -> str:
    """Return what stays the same about a widget when the page is drawn again."""
    return f"{widget.type} {GENERATION.sub('', widget.key or '') or widget.proto.label}"


def widgets(block: Block) -> dict[str, Widget]:
    """Return the widgets of a part that can be used now, by name."""
    every = (node for node in block if isinstance(node, Widget))
    return {name_of(w): w for w in every if not getattr(w.proto, "disabled", False)}


def unfold_all(app: AppTest) -> None:
    """Open every part that is folded away, and those inside them."""
    for _ in range(4):
        closed = [part.key for part in app.expander if part.key and not app.session_state[part.key]]
        if not closed:
            return
        for key in closed:
            app.session_state[key] = True
        app.run()


def values_of(widget: Widget) -> list[Any]:
    """Return the ends of what a widget takes, each as the browser would send it."""
    if isinstance(widget, SelectSlider | ButtonGroup | Radio | Selectbox):
        options = _options(widget)
        few = len(options) <= MOST_OPTIONS and not isinstance(widget, SelectSlider)
        return options if few else [options[0], options[-1]]
    if isinstance(widget, Multiselect):
        return [[], widget.options[: widget.proto.max_selections or None]]
    if isinstance(widget, Slider | NumberInput):
        return _ends(widget)
    if isinstance(widget, Checkbox | Toggle):
        return [not widget.value, widget.value]
    if isinstance(widget, TextInput | TextArea):
        accepted = ACCEPTED_TEXTS.get(widget.key or "")
        texts = [LONG_TEXT[: widget.proto.max_chars or None], *([accepted] if accepted else []), ""]
        return texts
    if isinstance(widget, FileUploader):
        kind = (widget.allowed_type or [".json"])[0]
        files = [*FILES, ("accepted", ACCEPTED_FILES[widget.key or ""])]
        return [*((f"{name}{kind}", content, "text/plain") for name, content in files), None]
    assert isinstance(widget, Button | DownloadButton), f"no ends are known of a {widget.type}"
    return [True]


def _ends(widget: Slider[Any] | NumberInput) -> list[Any]:
    low, high = widget.min, widget.max
    if name_of(widget) == TRIALS:
        return [low, FEW_TRIALS]
    if isinstance(widget.value, tuple | list):
        return [(low, low), (high, high), (low, high)]
    return [-LARGEST_WHOLE if low is None else low, LARGEST_WHOLE if high is None else high]


def _options(widget: Any) -> list[str]:
    """Return the options of a choice without those that take minutes."""
    if name_of(widget) not in COSTLY:
        return list(widget.options)
    return [option for option in widget.options if len(DIGIT.findall(option)) <= DIGITS_OF_FEW]


def any_value(widget: Widget, random: np.random.Generator) -> Any:
    """Return something that a widget takes: any option, an end, or a number between."""
    if isinstance(widget, SelectSlider | ButtonGroup | Radio | Selectbox):
        return str(random.choice(_options(widget)))
    if isinstance(widget, NumberInput) and None not in (widget.min, widget.max):
        between = random.uniform(widget.min, widget.max)
        return int(between) if isinstance(widget.value, int) else between
    values = values_of(widget)
    return values[int(random.integers(len(values)))]


def put(widget: Widget, value: Any) -> None:
    """Set a widget; the page has to run after it."""
    if isinstance(widget, SelectSlider | ButtonGroup | Radio | Selectbox | Multiselect):
        _speak_in_options(widget)
    if isinstance(widget, FileUploader) and value is not None:
        widget.upload(*value)
    else:
        widget.set_value(value)


def _speak_in_options(widget: Any) -> None:
    """Let a widget take its options as they are shown, which is all that a browser knows."""
    functions, options = widget.root.session_state[TESTING_KEY], set(widget.options)
    shown = functions[widget.id]
    functions[widget.id] = lambda value: (
        value if isinstance(value, str) and value in options else shown(value)
    )


# Doing it -----------------------------------------------------------------------------------------


@dataclass
class Driver:
    """One session that is driven, and what was done in it.

    Attributes:
        app: the session.
        done: what was done, one line each.
        driven: every widget that was used, by name.
    """

    app: AppTest
    done: list[str] = field(default_factory=list)
    driven: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Fail with the last things that were done where the page shows what it must not."""
        wrong = faults(self.app)
        assert not wrong, "\n".join([*self.done[-LINES:], *wrong])

    def go(self, route: str) -> None:
        """Open a page with all its parts."""
        self.done.append(f"page {route}")
        to_page(self.app, route)
        unfold_all(self.app)
        self.check()

    def move(self, widget: Widget, value: Any) -> None:
        """Use one widget and run the page, again when work in the background has ended."""
        name = name_of(widget)
        self.driven.add(name)
        self.done.append(f"{name} = {str(value)[:SHOWN]!r}")
        put(widget, value)
        self.app.run()
        if isinstance(widget, Button):
            self._wait()
        self.check()

    def _wait(self) -> None:
        working = [thread for thread in threading.enumerate() if thread.name in WORKERS]
        for thread in working:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                self.done.append("stop")
                for name, button in widgets(self.app.main).items():
                    if name.startswith("button stop"):
                        put(button, True)
                self.app.run()
                thread.join()
        if working:
            self.check()
            self.app.run()

    def drive(self, part: str) -> None:
        """Take every widget of ``main`` or ``sidebar`` to its ends, and those that appear by it."""
        self._drive(part, set())

    def _drive(self, part: str, known: set[str]) -> None:
        start = self.app.session_state["scenario"]
        while True:
            here = widgets(getattr(self.app, part))
            name = next((n for n in here if n not in known), None)
            if name is None:
                return
            known.add(name)
            before = here[name].value
            for value in values_of(here[name]):
                widget = widgets(getattr(self.app, part)).get(name)
                if widget is None:
                    break
                self.move(widget, value)
                unfold_all(self.app)
                self._drive(part, known)
            else:
                widget = widgets(getattr(self.app, part)).get(name)
                if isinstance(widget, CHOICES | NumberInput | Slider):
                    put(widget, before)
            self.app.session_state["scenario"] = start

    def walk(self, seed: int, steps: int, left_out: Container[str] = ()) -> None:
        """Do any things in any order: pages, presets, undo and redo, controls of both parts."""
        random = np.random.default_rng(seed)
        routes = [page["url_pathname"] for page in self.app._registered_pages.values()]
        for _ in range(steps):
            kind = random.choice(list(STEPS), p=list(STEPS.values()))
            if kind == "page":
                self.go(str(random.choice(routes)))
                continue
            offered = {
                name: widget
                for name, widget in widgets(
                    self.app.main if kind == "main" else self.app.sidebar
                ).items()
                if (name in BACK_AND_FORTH) == (kind == "back") and name not in left_out
            }
            if offered:
                widget = offered[str(random.choice(list(offered)))]
                self.move(widget, any_value(widget, random))
                unfold_all(self.app)


def every_end(preset: str) -> None:
    """Take every control of every page to both ends, from one preset."""
    driver = Driver(opened(preset=preset))
    driver.go("")
    driver.drive("sidebar")
    for page in list(driver.app._registered_pages.values()):
        driver = Driver(opened(preset=preset))
        driver.go(page["url_pathname"])
        driver.drive("main")


def main() -> int:
    """Drive all controls and walk until the time is over; a fault ends it with what was done."""
    parser = argparse.ArgumentParser(description="Drive every control, then walk at random.")
    parser.add_argument("--minutes", type=float, default=10, help="how long to walk (default 10)")
    parser.add_argument("--steps", type=int, default=150, help="of each walk (default 150)")
    parser.add_argument("--seed", type=int, help="repeat this walk, and nothing else")
    options = parser.parse_args()
    if options.seed is not None:
        one_walk(options.seed, options.steps)
        return 0
    for preset in FAMILIES:
        print(f"every control from {preset}", flush=True)
        every_end(preset)
    end = time.monotonic() + 60 * options.minutes
    random = np.random.default_rng()
    while time.monotonic() < end:
        seed = int(random.integers(2**31))
        print(f"seed {seed}", flush=True)
        one_walk(seed, options.steps)
    return 0


def one_walk(seed: int, steps: int, left_out: Container[str] = ()) -> Driver:
    """Walk from the preset that a seed stands for."""
    driver = Driver(opened(preset=FAMILIES[seed % len(FAMILIES)]))
    unfold_all(driver.app)
    driver.walk(seed, steps, left_out)
    return driver


if __name__ == "__main__":
    sys.exit(main())
