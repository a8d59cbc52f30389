"""One step of a slider on each page, run without a browser: its figures, and its server CPU."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, local_script_runner
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

import explorer.ui
from tests.browser import ROOT

MT3000, ASCEND = "mt3000-llama2-13b@1", "ascend910a-qwen3.8-27b@1"
MT3000_SLIDER = ("hardware.ddr_bandwidth_bytes_per_second", "Memory bandwidth a cluster")
ASCEND_SLIDER = ("workload.prompt_tokens", "Prompt length")
WORK = ("search_job", "task:pareto")
PLAN_SLIDER = ("plan.micro_batch_decode", "Decode micro-batch")
TIMEOUT_S = 120
COMPILED = ScriptCache()
"""The app's code, compiled once as a server does; ``AppTest`` would compile it for each run."""
NEW_STEPS = 3
"""As many as every slider that is moved has options ahead."""


@dataclass(frozen=True)
class Route:
    """A page in its usual state: a preset to open it on, what to press there, a slider to move.

    What is pressed is a role in the browser, ``button`` or ``radio``, and a name.
    """

    name: str
    path: str
    preset: str
    knob: str
    label: str
    presses: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """Path and query."""
        return f"{self.path}?preset={self.preset}"


def mt3000_route(name: str, path: str, *presses: tuple[str, str]) -> Route:
    """Return a page on the MT-3000 whose bandwidth is moved."""
    return Route(name, path, MT3000, *MT3000_SLIDER, presses)


def _view(page: str, name: str, view: str) -> Route:
    return mt3000_route(name, f"/{page}", ("radio", view))


ROUTES = (
    mt3000_route("overview", "/"),
    Route("overview-910a", "/", ASCEND, *ASCEND_SLIDER),
    mt3000_route("search", "/search", ("button", "Start the search")),
    # Another plan leaves the front as it is; another machine would ask for a new one.
    Route("tradeoffs", "/tradeoffs", MT3000, *PLAN_SLIDER, (("button", "Find the trade-offs"),)),
    mt3000_route("sensitivity", "/sensitivity"),
    _view("sensitivity", "map", "Map"),
    _view("sensitivity", "constants", "Assumed constants"),
    mt3000_route("pipeline", "/pipeline"),
    mt3000_route("inside", "/inside"),
    _view("inside", "attention", "Attention"),
    _view("inside", "fusion", "Fusion"),
    _view("inside", "batching", "Batching"),
    Route("slices", "/slices", ASCEND, *ASCEND_SLIDER),
    Route("attribution", "/attribution", ASCEND, *ASCEND_SLIDER),
    mt3000_route("fidelity", "/fidelity"),
    mt3000_route("own", "/own"),
    mt3000_route("compare", "/compare", ("button", "Keep"), ("button", "Keep")),
    mt3000_route("share", "/share"),
)


@dataclass
class ServerStep:
    """CPU of one rerun of the script [s], and of what it is made of."""

    total: float = 0.0
    model: float = 0.0
    figures: float = 0.0
    inside: bool = False

    @property
    def streamlit(self) -> float:
        """Widgets, messages and the pages' own code."""
        return self.total - self.model - self.figures


def opened(route: Route) -> AppTest:
    """Open a page as a browser would."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=TIMEOUT_S)
    for name, value in parse_qsl(f"preset={route.preset}"):
        app.query_params[name] = value
    app.run()
    pathname = route.path.strip("/")
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == pathname
    )
    app.run()
    for role, name in route.presses:
        press(app, role, name)
    return app


def press(app: AppTest, role: str, name: str) -> None:
    """Press a button, or choose an option of a choice, and wait for the work that it starts."""
    if role == "button":
        next(button for button in app.button if button.label == name).click().run()
    else:
        choice = next(choice for choice in app.segmented_control if name in choice.options)
        choice.set_value(name).run()
    started = [app.session_state[key] for key in WORK if key in app.session_state]
    for work in started:
        (work[1] if isinstance(work, tuple) else work).wait(TIMEOUT_S)
    if started:
        app.run()


def move(app: AppTest, route: Route, forward: bool) -> None:
    """Move the slider one option."""
    control = app.select_slider(key=f"knob:{route.knob}")
    options = list(control.options)
    shown = control.format_func(control.value)
    control.set_value(options[options.index(shown) + (1 if forward else -1)]).run()


@dataclass(frozen=True)
class Recorded:
    """What a page sends the browser at one position of its slider.

    Attributes:
        figures: its charts, as plotly's JSON.
        elements: everything it draws, as Streamlit's own messages in base 64.
    """

    figures: list[dict[str, Any]]
    elements: list[str]


def recorded(route: Route) -> list[Recorded]:
    """Return what a page sends before and after a step."""
    with _messages() as runs:
        app = opened(route)
        positions = []
        for forward in (True, False):
            figures = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
            drawn = (message for message in runs[-1] if message.HasField("delta"))
            elements = [b64encode(message.SerializeToString()).decode() for message in drawn]
            positions.append(Recorded(figures, elements))
            move(app, route, forward)
    return positions


@contextmanager
def _messages() -> Iterator[list[list[ForwardMsg]]]:
    """Collect the messages of every run inside the block."""
    runs: list[list[ForwardMsg]] = []
    sent = LocalScriptRunner.forward_msgs

    def kept(runner: LocalScriptRunner) -> list[ForwardMsg]:
        messages = sent(runner)
        runs.append(list(messages))
        return messages

    with mock.patch.object(LocalScriptRunner, "forward_msgs", kept):
        yield runs


def server_steps(route: Route, steps: int) -> list[ServerStep]:
    """Return the CPU of steps there and back, the first one left out."""
    return _taken(route, [number % 2 == 0 for number in range(steps + 1)])[1:]


def new_steps(route: Route) -> list[ServerStep]:
    """Return the CPU of steps onto values that nobody has asked for before."""
    return _taken(route, [True] * NEW_STEPS)


def _taken(route: Route, forward: Iterable[bool]) -> list[ServerStep]:
    app = opened(route)
    taken = []
    for ahead in forward:
        with measured() as current:
            move(app, route, ahead)
        taken.append(current)
    return taken


@contextmanager
def measured() -> Iterator[ServerStep]:
    """Time the script that runs inside the block, by the CPU of its thread.

    What a page calls of ``explorer.plots`` counts as figures, of the rooms below as the model.
    """
    current = ServerStep()
    run = LocalScriptRunner._run_script_thread

    def timed_run(runner: LocalScriptRunner) -> None:
        started = time.thread_time()
        run(runner)
        current.total += time.thread_time() - started

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(LocalScriptRunner, "_run_script_thread", timed_run))
        stack.enter_context(mock.patch.object(local_script_runner, "ScriptCache", lambda: COMPILED))
        for module in _modules_of(explorer.ui):
            for name, value in list(vars(module).items()):
                part = _part_of(value)
                if part:
                    replacement = _timed(value, current, part)
                    stack.enter_context(mock.patch.object(module, name, replacement))
        yield current


def _part_of(value: Any) -> str:
    if not inspect.isfunction(value):
        return ""
    room = value.__module__.removeprefix("explorer.").partition(".")[0]
    if room == "plots":
        return "figures"
    return "model" if room in ("serving", "search", "fidelity", "chips", "costs") else ""


def _timed(function: Callable[..., Any], current: ServerStep, part: str) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **named: Any) -> Any:
        if current.inside:
            return function(*arguments, **named)
        current.inside = True
        started = time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            setattr(current, part, getattr(current, part) + time.thread_time() - started)
            current.inside = False

    return wrapper


def _modules_of(package: ModuleType) -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
