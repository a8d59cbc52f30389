"""The app as a server: where it listens, whom it answers, and what one session sees of others."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from explorer.config.links import preset_scenario
from tests.benchmarks.load import crowd
from tests.browser import ROOT, App, running_app
from tests.sessions import XSRF, Session, asked, finished, put_file, xsrf_token

PAGES = (
    "explore", "search", "tradeoffs", "sensitivity", "pipeline", "inside", "slices", "attribution",
    "fidelity", "own", "compare", "share",
)  # fmt: skip
SECRET = "Annas secret"
MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """An app of its own, without a browser, that searches one at a time."""
    log = tmp_path_factory.mktemp("hosting") / "server.log"
    with running_app(log, environment={"EXPLORER_SEARCHES": "1"}) as running:
        yield running


def listening(process: int) -> set[str]:
    """Return the addresses, in hexadecimal, on which a process accepts connections."""
    links = [str(entry.readlink()) for entry in Path(f"/proc/{process}/fd").iterdir()]
    own = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    addresses = set()
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{process}/net/{table}")
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == "0A" and fields[9] in own:
                addresses.add(fields[1].partition(":")[0])
    return addresses


def test_it_listens_on_this_machine_alone(server: App) -> None:
    loopback = {"0100007F", "00000000000000000000000001000000"}
    found = listening(server.process_id)
    assert found
    assert found <= loopback


def test_every_protection_is_on_and_nothing_is_reported_home() -> None:
    settings = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))
    server = settings["server"]
    assert server["address"] == "localhost"
    assert server["allowedHosts"] == ["localhost", "127.0.0.1"]
    assert server["enableXsrfProtection"]
    assert server["enableCORS"]
    assert server["maxUploadSize"] <= 64
    assert server["maxWidgetStateSize"] <= 8
    assert not server.get("enableStaticServing", False)
    assert settings["browser"]["gatherUsageStats"] is False
    assert settings["client"]["showErrorDetails"] == "type"


@pytest.mark.parametrize("token", ["", "wrong", "2|00000000|00|0"])
def test_a_file_without_the_token_of_this_server_is_refused(server: App, token: str) -> None:
    place = "_stcore/upload_file/nobody/file"
    assert put_file(server.url, place, "a.json", b"{}", token) == HTTPStatus.FORBIDDEN


def test_a_file_for_a_session_that_is_not_there_is_refused(server: App) -> None:
    place = "_stcore/upload_file/nobody/file"
    assert put_file(server.url, place, "a.json", b"{}") == HTTPStatus.BAD_REQUEST


def test_a_file_above_the_limit_is_refused_by_the_server(server: App) -> None:
    """By the length that it announces, before anything of it is sent."""

    async def too_large() -> int:
        async with Session(server.url, "share") as session:
            token = await asyncio.to_thread(xsrf_token, server.url)
            headers = {
                "Cookie": f"{XSRF}={token}",
                "X-Xsrftoken": token,
                "Content-Length": str(65 * MEBIBYTE),
            }
            place = f"/_stcore/upload_file/{session.id}/file"
            return (await asyncio.to_thread(asked, server.url, "PUT", place, b"", headers))[0]

    assert finished(too_large()) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_the_page_of_another_site_gets_no_session(server: App) -> None:
    async def from_elsewhere() -> None:
        async with Session(server.url, origin="http://elsewhere.test"):
            pass

    with pytest.raises(InvalidStatus):
        finished(from_elsewhere())


@pytest.mark.parametrize(
    "path",
    [
        "/app/static/../../../app.py", "/app.py", "/static/../app.py", "/..%2f..%2fetc%2fpasswd",
        "/media/../../app.py", "/explorer/cli.py", "/.streamlit/config.toml",
    ],
)  # fmt: skip
def test_no_file_of_the_machine_is_served(server: App, path: str) -> None:
    """An unknown path is the front end's own page, or nothing."""
    status, headers = asked(server.url, "GET", path)
    assert status != HTTPStatus.OK or headers.get_content_type() == "text/html"


def scenario_file(name: str) -> bytes:
    """Return an exported scenario with a chip of its own, each named."""
    document = preset_scenario("mt3000-llama2-7b").to_json()
    chip = json.loads((ROOT / "presets/chips/mt3000@1.json").read_text(encoding="utf-8"))
    chip |= {"id": "annas-own", "name": f"{name} chip"}
    document |= {"name": name, "chip": chip}
    document.get("versions", {}).pop("chip", None)
    return json.dumps(document).encode()


def test_what_one_session_brings_and_searches_no_other_sees(server: App) -> None:
    async def shown(url: str, page: str) -> str:
        async with Session(url, page) as session:
            return session.words()

    async def both() -> dict[str, Any]:
        async with Session(server.url, "share") as anna, Session(server.url, "search") as other:
            await anna.upload("Exported file or scenario", f"{SECRET}.json", scenario_file(SECRET))
            assert f"Opened: {SECRET}.json" in anna.words()
            await anna.go_to("search")
            await anna.press("Start the search")
            assert anna.repeating
            await other.rerun()
            seen = {"beside": other.words()}
            await anna.press("Stop the search")
            for name in PAGES:
                seen[name] = await shown(server.url, name)
            await anna.go_to("explore")
            assert SECRET in anna.words()
            return seen

    seen = finished(both())
    assert "Nothing was searched yet" in seen["beside"]
    assert "Nothing was searched yet" in seen["search"]
    for page, text in seen.items():
        assert text, page
        assert "Anna" not in text, page
        assert "annas-own" not in text, page


def test_searches_wait_for_each_other_and_the_page_says_so(server: App) -> None:
    async def two() -> str:
        async with (
            Session(server.url, "search", "preset=mt3000-llama2-13b") as first,
            Session(server.url, "search", "preset=ascend910a-qwen3.8-27b") as second,
        ):
            await first.press("Start the search")
            await second.press("Start the search")
            told = "".join(bar.text for bar in second.all("progress"))
            await first.press("Stop the search")
            while "trials" not in "".join(bar.text for bar in second.all("progress")):
                await second.rerun(fragment=next(iter(second.repeating)))
            await second.press("Stop the search")
            return told

    told = finished(two())
    assert told.startswith("Waiting for another search to end: this app runs at most 1 at once")


def test_a_crowd_meets_no_error(server: App) -> None:
    """In short what tests/benchmarks/load.py does for minutes."""
    outcome = finished(crowd(server.url, sessions=6, searches=2, seconds=4, think=0.3))
    assert outcome.errors == []
    assert len(outcome.seconds) >= 6
    assert "Traceback" not in server.output()
