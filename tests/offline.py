"""The app driven with the network cut, every attempt to reach out noted.

Usage: python -m tests.offline LOG FOLDER   (where only the loopback is up)
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.browser import running_app
from tests.sessions import Session

PAGES = (
    "", "search", "tradeoffs", "sensitivity", "pipeline", "inside", "slices", "attribution",
    "fidelity", "own", "compare", "share",
)  # fmt: skip

GUARD = """
import sys

LOCAL = ("127.", "localhost", "::1", "0.0.0.0")

def note(event, arguments):
    if event == "socket.connect":
        target = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        target = arguments[:2]
    else:
        return
    host = target[0] if isinstance(target, tuple) else ""
    if isinstance(host, bytes):
        host = host.decode()
    if host and not str(host).startswith(LOCAL):
        with open({log!r}, "a") as log:
            log.write(f"{{event}} {{target}}\\n")

sys.addaudithook(note)
"""
"""Site customisation of every Python process: names each host that is not this one."""


async def drive(url: str) -> list[str]:
    """Open every page, move a slider and begin a search; return what was seen."""
    seen = []
    async with Session(url) as session:
        await session.move(session.sliders()[0], 3)
        for page in PAGES:
            await session.go_to(page)
            seen.append(f"{page or 'explore'}: {len(session.elements)} elements")
        await session.go_to("search")
        await session.press("Start the search")
        await session.press("Stop the search")
        seen.append("searched")
    return seen


def main() -> None:
    """Start the app with the guard, drive it, and print what was seen."""
    log, folder = Path(sys.argv[1]), Path(sys.argv[2])
    (folder / "sitecustomize.py").write_text(GUARD.format(log=str(log)), encoding="utf-8")
    with running_app(folder / "server.log", environment={"PYTHONPATH": str(folder)}) as app:
        print("\n".join(asyncio.run(drive(app.url))))
        assert "Traceback" not in app.output(), app.output()


if __name__ == "__main__":
    main()
