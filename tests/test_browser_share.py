"""What only a browser shows: sliders, links between windows, downloads, uploads, the console."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from explorer.cli import main
from explorer.config.files import scenario_from_json
from tests.browser import charts_drawn, go_to, new_context, open_page, set_slider, settle, watch

pytestmark = pytest.mark.browser


def metric(page: Page, label: str) -> str:
    tile = page.get_by_test_id("stMetric").filter(has_text=label)
    return tile.get_by_test_id("stMetricValue").inner_text()


def choose_preset(page: Page, title: str) -> None:
    page.get_by_role("combobox", name="Preset").click()
    page.get_by_role("option", name=title).click()
    settle(page)
    charts_drawn(page)


def share_page(page: Page) -> None:
    go_to(page, "Share", "Bring and take")


def shown_link(page: Page) -> str:
    return page.get_by_test_id("stCode").locator("code").first.inner_text().strip()


def test_each_preset_draws_its_charts_with_another_headline(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    seen = {metric(page, "Throughput")}
    for title in (
        "8 x A100 80GB · Llama-2 70B",
        "MT-3000 · Llama-2 7B",
        "MT-3000 · LLaMA 30B",
        "MT-3000 · Llama-2 70B",
        "4 x Ascend 910A · Qwen3.8-27B",
    ):
        choose_preset(page, title)
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        seen.add(metric(page, "Throughput"))
    assert len(seen) == 6
    assert page.get_by_test_id("stPlotlyChart").count() == 5


def test_moving_a_slider_updates_headline_and_charts(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    before = metric(page, "Throughput")
    set_slider(page, "Memory bandwidth a cluster", 0)
    charts_drawn(page)
    assert metric(page, "Throughput") != before
    assert "vs preset" in page.get_by_test_id("stMetric").first.inner_text()


def test_a_copied_link_opens_in_a_second_window(
    page: Page, context: BrowserContext, app_url: str
) -> None:
    open_page(page, app_url)
    set_slider(page, "Decode pipeline stages (PP_D)", 6)
    charts_drawn(page)
    throughput = metric(page, "Throughput")
    share_page(page)
    link = shown_link(page)
    assert link == f"{app_url}/?preset=mt3000-llama2-13b@1&plan.pp_decode=7"
    browser = context.browser
    assert browser is not None
    other_context = new_context(browser)
    problems = watch(other_context)
    other = other_context.new_page()
    open_page(other, link)
    assert metric(other, "Throughput") == throughput
    assert problems == []
    other_context.close()


def test_many_presets_in_a_row_leave_no_trace_of_the_former(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    for title in (
        "4 x Ascend 910A · Qwen3.8-27B",
        "MT-3000 · Llama-2 13B",
        "4 x Ascend 910A · Qwen3.8-27B",
        "MT-3000 · Llama-2 7B",
        "MT-3000 · Llama-2 70B",
    ):
        choose_preset(page, title)
    share_page(page)
    assert shown_link(page) == f"{app_url}/?preset=mt3000-llama2-70b@1"


@pytest.mark.parametrize(
    "difference",
    [
        "hardware.ddr_bandwidth_bytes_per_second=29990000000.0",
        "hardware.overhead_bytes=1199000000.0",
        "limits.memory_headroom_fraction=0.0951",
        "plan.micro_batch_decode=24",
    ],
)
def test_a_link_keeps_every_digit_untouched_and_over_a_reload(
    page: Page, app_url: str, difference: str
) -> None:
    link = f"{app_url}/?preset=mt3000-llama2-13b@1&{difference}"
    open_page(page, link)
    share_page(page)
    assert shown_link(page) == link
    go_to(page, "Overview")
    charts_drawn(page)
    page.reload()
    settle(page)
    charts_drawn(page)
    assert page.url == link
    share_page(page)
    assert shown_link(page) == link


def test_a_moved_slider_survives_a_reload(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    set_slider(page, "Decode pipeline stages (PP_D)", 6)
    throughput = metric(page, "Throughput")
    page.reload()
    settle(page)
    charts_drawn(page)
    assert metric(page, "Throughput") == throughput
    assert page.url.endswith("&plan.pp_decode=7")


def test_changing_the_page_keeps_every_slider(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/?preset=mt3000-llama2-7b&plan.micro_batch_decode=24")
    throughput = metric(page, "Throughput")
    share_page(page)
    go_to(page, "Overview")
    charts_drawn(page)
    assert metric(page, "Throughput") == throughput


def test_the_downloaded_file_evaluates_alike_and_opens_again(
    page: Page, app_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_page(page, f"{app_url}/?preset=mt3000-llama2-7b&plan.pp_decode=3&plan.tp_decode=8")
    throughput = metric(page, "Throughput")
    share_page(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download JSON").click()
    file = tmp_path / "export.json"
    download.value.save_as(file)
    document = json.loads(file.read_bytes())
    assert main(["evaluate", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluation"] == document["evaluation"]
    assert scenario_from_json(file.read_bytes()).plan.pp_decode == 3

    open_page(page, f"{app_url}/share")
    page.locator("input[type=file]").set_input_files(file)
    settle(page)
    expect(page.get_by_text("Opened: export.json")).to_be_visible()
    go_to(page, "Overview")
    charts_drawn(page)
    assert metric(page, "Throughput") == throughput


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schema": "explorer.scenario/2"}', "a newer explorer wrote this document"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"schema": "explorer.scenario/1", "name": "x"', "not valid JSON"),
        (b"\x80\x04\x95", "not UTF-8 text"),
    ],
)
def test_a_bad_file_is_explained_and_changes_nothing(
    page: Page, app_url: str, tmp_path: Path, content: bytes, message: str
) -> None:
    open_page(page, f"{app_url}/share")
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    page.locator("input[type=file]").set_input_files(file)
    settle(page)
    expect(page.get_by_text(message)).to_be_visible()
    assert shown_link(page).endswith("?preset=mt3000-llama2-13b@1")


def test_hostile_text_in_a_link_is_shown_as_text(page: Page, app_url: str) -> None:
    hostile = "name=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&plan.tp_decode=%3Cscript%3E"
    open_page(page, f"{app_url}/?preset=mt3000-llama2-13b&{hostile}")
    expect(page.get_by_role("heading", name="<img src=x onerror=alert(1)>")).to_be_visible()
    expect(page.get_by_text("plan.tp_decode = <script>")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0


def test_the_back_button_leaves_every_slider_where_it_is(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    set_slider(page, "Decode pipeline stages (PP_D)", 6)
    throughput = metric(page, "Throughput")
    share_page(page)
    link = shown_link(page)
    page.go_back()
    settle(page)
    charts_drawn(page)
    assert metric(page, "Throughput") == throughput
    assert page.url == link
    page.go_forward()
    settle(page)
    assert shown_link(page) == link


def test_a_change_is_taken_back_and_done_again(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    before = metric(page, "Throughput")
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()
    set_slider(page, "Decode pipeline stages (PP_D)", 6)
    after = metric(page, "Throughput")
    assert after != before
    page.get_by_role("button", name="Undo").click()
    settle(page)
    assert metric(page, "Throughput") == before
    assert page.url.endswith("?preset=mt3000-llama2-13b@1")
    page.get_by_role("button", name="Redo").click()
    settle(page)
    assert metric(page, "Throughput") == after


def test_the_last_line_of_a_page_leads_to_the_next_question(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    page.get_by_role("link", name="What should I choose?").click()
    settle(page)
    expect(page.get_by_role("heading", name="What should I choose?")).to_be_visible()
