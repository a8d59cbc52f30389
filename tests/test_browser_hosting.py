"""A shared app in a browser: searches of closed windows end, and text stays text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from explorer.config.links import preset_scenario
from explorer.fidelity.measurements import COLUMNS
from tests.browser import ROOT, charts_drawn, go_to, new_context, open_page, running_app, settle
from tests.configs import config

pytestmark = pytest.mark.browser

PATIENCE_S = 60
SHORT_GRACE = """
import runpy
from explorer.search import turns
from explorer.ui import presence

presence.GRACE_SECONDS = 1.0
runpy.run_path({app!r})
turns_taken = len(turns.TURNS._queue)
print("searches:", turns_taken, flush=True)
"""
"""The app, saying at the end of each run how many searches there are, with less patience."""

SEARCH = "?preset=mt3000-llama2-13b@1"
PAYLOAD = (
    "x<img src=x onerror=alert(1)><b class=pwned>p<a href=pwned.test>p [p](pwned.test) "
    "![p](pwned.test) **p** :red[p] www.pwned.test"
)
WRITTEN = f"{PAYLOAD} http://pwned.test HTTPS://pwned.test me@pwned.test"
"""What would become an image, a bold word, links and a coloured word."""

CAUGHT = "img[src='x'], img[src*='pwned'], .pwned, a[href*='pwned'], [onerror], iframe, object"


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.2)


def test_a_search_ends_when_its_window_is_closed_and_not_when_it_turns_to_another_page(
    browser: Browser, tmp_path: Path
) -> None:
    script = tmp_path / "short.py"
    script.write_text(SHORT_GRACE.format(app=str(ROOT / "app.py")), encoding="utf-8")
    at_once = {"EXPLORER_SEARCHES": "1", "PYTHONPATH": str(ROOT)}
    with running_app(tmp_path / "server.log", script, environment=at_once) as app:

        def searches(window: Page) -> int:
            window.reload()
            settle(window)
            return int(app.output().rpartition("searches: ")[2].split()[0])

        mine, other = new_context(browser), new_context(browser)
        page, looking = mine.new_page(), other.new_page()
        open_page(page, f"{app.url}/search{SEARCH}")
        page.get_by_text("What is searched, within which limits").click()
        page.get_by_label("Trials").fill("5000")
        page.get_by_label("Trials").press("Enter")
        settle(page)
        page.get_by_role("button", name="Start the search").click()
        expect(page.get_by_text("of 5,000 trials").first).to_be_visible()
        go_to(page, "Overview")
        expect(page.get_by_text("Throughput").first).to_be_visible()
        open_page(looking, f"{app.url}/share")
        looking.wait_for_timeout(3000)
        assert searches(looking) == 1
        mine.close()
        wait_for(lambda: searches(looking) == 0)
        other.close()


def chip_file(name: str) -> bytes:
    chip = json.loads((ROOT / "presets/chips/mt3000@1.json").read_text(encoding="utf-8"))
    for quantity in chip["quantities"].values():
        quantity |= {"source": WRITTEN, "note": WRITTEN, "raising": WRITTEN}
        quantity["label"] = f"{PAYLOAD} {quantity['label']}"[:200]
    return json.dumps({**chip, "id": f"own {WRITTEN}", "name": name, "source": WRITTEN}).encode()


def scenario_file() -> bytes:
    scenario = preset_scenario("mt3000-llama2-7b").to_json()
    scenario["versions"].pop("chip", None)
    model = json.loads((ROOT / "presets/models/llama2-7b@1.json").read_text(encoding="utf-8"))
    scenario["versions"].pop("model", None)
    scenario |= {"name": WRITTEN, "chip": json.loads(chip_file(WRITTEN))}
    scenario["model"] = {**model, "id": "own-model", "name": WRITTEN, "source": WRITTEN}
    return json.dumps(scenario).encode()


def rows_file() -> bytes:
    rows = [
        f'"r{n} {WRITTEN}",mt3000,,gemm_latency,dtype=fp32;m={m};k=4096;n=1024,{m / 400},ms,'
        f'"{WRITTEN}"'
        for n, m in enumerate((1024, 2048, 3072, 4096))
    ]
    return "\n".join([",".join(COLUMNS), *rows, ""]).encode()


def give(page: Page, key: str, name: str, content: bytes) -> None:
    uploader = page.locator(f"{key} input[type=file]")
    uploader.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
    settle(page)


def nothing_took_effect(page: Page) -> None:
    charts_drawn(page)
    caught = "nodes => nodes.map(node => node.parentElement.outerHTML.slice(0, 400))"
    assert page.locator(CAUGHT).evaluate_all(caught) == []


SECTIONS = {
    "": ("Overview",),
    "Choose": ("Search", "Trade-offs", "Sensitivity", "Pipeline"),
    "Look inside": ("Mechanisms", "Slices", "Attribution"),
    "Believe": ("Fidelity",),
    "Bring and take": ("Compare", "Share"),
}


def test_whatever_a_person_writes_is_shown_as_text(
    page: Page, context: BrowserContext, app_url: str
) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    open_page(page, f"{app_url}/share")
    give(page, ".st-key-upload", f"{PAYLOAD}.json", scenario_file())
    expect(page.get_by_text("It is on the sliders now.")).to_be_visible()
    nothing_took_effect(page)
    page.get_by_label("Link", exact=True).fill(f"?preset=mt3000-llama2-7b&{WRITTEN}={WRITTEN}")
    give(page, ".st-key-upload", "bad <img src=x>.json", WRITTEN.encode())
    nothing_took_effect(page)

    go_to(page, "Compare", "Bring and take")
    page.get_by_label("Keep the present scenario as").fill(WRITTEN)
    page.get_by_label("Keep the present scenario as").press("Enter")
    page.get_by_role("button", name="Keep", exact=True).click()
    settle(page)
    expect(page.get_by_role("button", name="Put on the sliders")).to_be_visible()
    nothing_took_effect(page)

    go_to(page, "Bring your own", "Bring and take")
    for section, key, content in (
        ("Model", ".st-key-own-model_file", json.dumps(config("llama-2-7b", **{
            "_name_or_path": PAYLOAD, WRITTEN: WRITTEN, "model_type": WRITTEN})).encode()),
        ("Chip", ".st-key-own_chip_upload", chip_file(WRITTEN)),
        ("Measurements", ".st-key-own-data", rows_file()),
    ):  # fmt: skip
        page.get_by_role("radio", name=section).click()
        settle(page)
        give(page, key, PAYLOAD, content)
        nothing_took_effect(page)
    page.get_by_label("Profile", exact=True).fill(f"{WRITTEN}\n{WRITTEN} seconds={WRITTEN}")
    page.get_by_label("Profile", exact=True).press("Control+Enter")
    settle(page)
    nothing_took_effect(page)

    for section, names in SECTIONS.items():
        for name in names:
            go_to(page, name, section)
            nothing_took_effect(page)
    assert dialogs == []
