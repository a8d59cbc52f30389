"""Fixtures for the tests in a browser, and for those against a real PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import hypothesis
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from explorer.ui import charts
from tests.browser import (
    TIMEOUT_MS,
    App,
    chromium_path,
    launch_chromium,
    new_context,
    running_app,
    watch,
)
from tests.postgres import Postgres, programs, running_postgres

expect.set_options(timeout=TIMEOUT_MS)

# A machine that others use too makes any time limit on one example fail now and then.
hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")


@pytest.fixture(scope="session", autouse=True)
def no_head_start() -> Iterator[None]:
    """Let pages without a browser, which nothing draws, do without the charts' head start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "HEAD_START_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app, running for the whole session, with the file that its output goes to."""
    with running_app(tmp_path_factory.mktemp("app") / "server.log") as running:
        yield running


@pytest.fixture(scope="session")
def app_url(app: App) -> str:
    """Where the app answers, without a slash at the end."""
    return app.url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium for the whole session."""
    executable = chromium_path()
    if executable is None:
        _missing("Chromium")
    with sync_playwright() as playwright:
        chromium = launch_chromium(playwright, executable)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh browser context, 1440 by 900."""
    opened = new_context(browser)
    yield opened
    opened.close()


@pytest.fixture
def problems(context: BrowserContext) -> list[str]:
    """All that went wrong in the browser so far; a test that expects some clears the list."""
    return watch(context)


@pytest.fixture
def page(context: BrowserContext, problems: list[str]) -> Iterator[Page]:
    """A page in a fresh context, which must come to its end with no problem in the browser."""
    opened = context.new_page()
    yield opened
    assert problems == []


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for the whole session."""
    if programs() is None:
        _missing("PostgreSQL")
    with running_postgres() as server:
        yield server


def _missing(program: str) -> NoReturn:
    """Skip a test that needs a program, or fail it where all tests must run."""
    reason = f"no {program} is installed: 'bash tests/run' installs it, as root or with sudo"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
