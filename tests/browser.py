"""Starting the app and driving it in a headless Chromium, for the tests and the screenshots."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Playwright,
    Request,
    Route,
    WebSocket,
)

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 60
TIMEOUT_MS = TIMEOUT_S * 1000
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
IDLE = (
    '[data-testid="stApp"][data-test-script-state="notRunning"]'
    '[data-test-connection-state="CONNECTED"]'
)
# On a page's own path Streamlit's front end first asks for its endpoints under that path, gets
# a 404, and then finds them at the root. The browser logs those 404s; they are no fault here.
PROBES = ("/_stcore/health", "/_stcore/host-config")

ColorScheme = Literal["light", "dark"]


@dataclass(frozen=True)
class App:
    """A running app: where it answers, the file its output goes to, and its process."""

    url: str
    log: Path
    process_id: int = 0

    def output(self) -> str:
        """Return all that the server has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def chromium_path() -> str | None:
    """Return the path of an installed Chromium, if there is one."""
    return next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


def required_chromium() -> str:
    """Return the path of an installed Chromium, or end the program with what to do."""
    executable = chromium_path()
    if executable is None:
        raise SystemExit("no Chromium is installed: 'bash tests/run' installs it")
    return executable


def free_port() -> int:
    """Return a port of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def running_app(
    log: Path,
    script: Path = ROOT / "app.py",
    settings: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[App]:
    """Run the app on a free port while the block lasts, and end it by its own process."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    for name, value in settings.items():
        command += [f"--{name}", value]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
        )
    app = App(f"http://localhost:{port}", log, process.pid)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not _healthy(app.url):
            if process.poll() is not None:
                raise RuntimeError(f"the app ended with {process.returncode}:\n{app.output()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the app gave no answer in {TIMEOUT_S} s:\n{app.output()}")
            time.sleep(0.1)
        yield app
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def launch_chromium(playwright: Playwright, executable: str) -> Browser:
    """Start a headless Chromium."""
    return playwright.chromium.launch(
        executable_path=executable, args=list(CHROMIUM_ARGS), timeout=TIMEOUT_MS
    )


def is_local(url: str) -> bool:
    """Tell whether a request for this URL stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in {"data", "blob", "about"} or parts.hostname in LOCAL_HOSTS


def _is_probe(url: str) -> bool:
    path = urlsplit(url).path
    return any(path.endswith(probe) and path != probe for probe in PROBES)


def watch(context: BrowserContext) -> list[str]:
    """Block all requests that leave this machine, and list all that goes wrong in the context.

    The list that is returned grows while the context is used. It holds errors on the console,
    uncaught exceptions, failed requests, and each request that was blocked.
    """
    problems: list[str] = []

    def on_route(route: Route) -> None:
        if is_local(route.request.url):
            route.continue_()
        else:
            problems.append(f"request left the machine: {route.request.url}")
            route.abort("blockedbyclient")

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error" and not _is_probe(message.location.get("url", "")):
            problems.append(f"console error: {message.text} ({message.location.get('url', '')})")

    def on_failed(request: Request) -> None:
        # A request that the page itself gave up, by leaving or by a download, is no failure.
        if is_local(request.url) and request.failure != "net::ERR_ABORTED":
            problems.append(f"failed request: {request.url} ({request.failure})")

    def on_websocket(socket_: WebSocket) -> None:
        if not is_local(socket_.url):
            problems.append(f"web socket left the machine: {socket_.url}")

    def on_page(page: Page) -> None:
        page.on("websocket", on_websocket)

    context.route("**/*", on_route)
    context.on("console", on_console)
    context.on("weberror", lambda error: problems.append(f"page error: {error.error}"))
    context.on("requestfailed", on_failed)
    context.on("page", on_page)
    return problems


def new_context(
    browser: Browser,
    *,
    width: int = 1440,
    height: int = 900,
    color_scheme: ColorScheme = "light",
) -> BrowserContext:
    """Open a fresh browser context; Streamlit's theme follows its colour scheme."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=color_scheme,
        locale="en-US",
        reduced_motion="reduce",
        service_workers="block",
    )
    context.set_default_timeout(TIMEOUT_MS)
    context.set_default_navigation_timeout(TIMEOUT_MS)
    return context


def settle(page: Page, quiet_ms: int = 300) -> None:
    """Wait until the script has stopped running, and has stayed so for a while.

    The pause is needed because a click reaches the server only a moment after it was made. An
    app that reruns a fragment by itself more often than the pause never settles.
    """
    page.wait_for_selector(IDLE)
    page.wait_for_function(
        """([selector, quiet]) => {
            const now = performance.now();
            if (!document.querySelector(selector)) window.__busyAt = now;
            window.__busyAt ??= now;
            return now - window.__busyAt >= quiet;
        }""",
        arg=[IDLE, quiet_ms],
    )
    page.evaluate("() => { delete window.__busyAt; }")


def charts_drawn(page: Page) -> None:
    """Wait until every Plotly chart on the page is drawn and no placeholder is left."""
    page.wait_for_function(
        """() => {
            if (document.querySelector('[data-testid="stSkeleton"]')) return false;
            return [...document.querySelectorAll('[data-testid="stPlotlyChart"]')].every(chart => {
                const plot = chart.querySelector('.js-plotly-plot');
                return plot?.calcdata && plot.querySelector('.main-svg')?.childElementCount;
            });
        }"""
    )
    # What Plotly draws in one go is on the screen only after the next frame.
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def open_page(page: Page, url: str) -> None:
    """Go to a page of the app, and wait until it is there with its charts."""
    page.goto(url)
    settle(page)
    charts_drawn(page)


def go_to(page: Page, name: str, section: str = "") -> None:
    """Open a page through the navigation at the top, and wait until it stands.

    Args:
        page: the browser's page.
        name: of the page to open.
        section: in whose menu it is; empty for a page that stands there itself.
    """
    navigation = page.get_by_role("navigation", name="App pages")
    if section:
        navigation.get_by_role("button", name=section, exact=True).click()
        page.get_by_role("menuitem", name=name, exact=True).click()
    else:
        navigation.get_by_role("link", name=name, exact=True).click()
    settle(page)


def slider(page: Page, label: str, thumb: int = 0) -> Locator:
    """Find the thumb of a slider or select slider; a range has the thumbs 0 and 1.

    The thumb is looked up by way of its group, for its own name is the label said twice.
    """
    return page.get_by_role("group", name=label, exact=True).get_by_role("slider").nth(thumb)


def set_slider(page: Page, label: str, value: float | str, thumb_index: int = 0) -> None:
    """Move a slider to a value, or a select slider to the option at an index, and settle.

    A value that is filled in is shown but not sent; only a key sends it. So the thumb is put
    one step beside the value, and an arrow key moves it there: one rerun, as by hand.
    """
    thumb = slider(page, label, thumb_index)
    low, high, step = (Decimal(thumb.get_attribute(name) or "") for name in ("min", "max", "step"))
    target = Decimal(str(value))
    if not low <= target <= high:
        raise ValueError(f"{label!r} goes from {low} to {high}, not to {target}")
    if target > low:
        thumb.fill(str(max(low, target - step)))
        thumb.press("ArrowRight")
    else:
        thumb.fill(str(min(high, target + step)))
        thumb.press("ArrowLeft")
    settle(page)
