"""A team at once: many sessions moving sliders while searches run, and one for a very long time.

    python -m tests.benchmarks.load --sessions 50 --seconds 300 --searches 5 --reruns 2000

Sessions are real web sockets speaking Streamlit's own messages (tests/sessions.py), one process
beside the app's. Reported: errors, which should be none; how long a slider takes; and the memory
of the app before, at its peak, and after all have left. Every session moves a slider, looks at
the answer for a while (``--think``) and moves another. A searching session starts a new search
when the last one is done. The app is started as the README says, with as many searches at once as
are asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from explorer.ui.presence import GRACE_SECONDS
from tests.browser import App, running_app
from tests.sessions import Session, placed

MIB = 2**20
WARM_SECONDS = 60.0
SESSION_TTL_SECONDS = 5
SETTLING_SECONDS = 5.0
SAMPLE_SECONDS = 0.5
PRESETS = (
    "mt3000-llama2-7b", "mt3000-llama2-13b", "mt3000-llama2-70b", "ascend910a-qwen3.8-27b",
)  # fmt: skip


@dataclass
class Outcome:
    """What sessions saw: seconds a slider took, searches that ended, and every error."""

    seconds: list[float] = field(default_factory=list)
    searches: int = 0
    errors: list[str] = field(default_factory=list)


async def slider_person(url: str, ends: float, think: float, seed: int, outcome: Outcome) -> None:
    """Move sliders until ``ends``."""
    chance = random.Random(seed)
    try:
        query = f"preset={PRESETS[seed % len(PRESETS)]}"
        async with Session(url, query=query) as session:
            while time.monotonic() < ends:
                await asyncio.sleep(chance.expovariate(1 / think))
                label = chance.choice(session.sliders())
                outcome.seconds.append(await session.move(label, chance.randrange(1000)))
    except Exception as error:  # whatever it was, it is reported
        outcome.errors.append(f"{type(error).__name__}: {error}")


async def searching_person(url: str, ends: float, seed: int, outcome: Outcome) -> None:
    """Search, one after the other, until ``ends``."""
    try:
        query = f"preset={PRESETS[seed % len(PRESETS)]}"
        async with Session(url, "search", query) as session:
            while time.monotonic() < ends:
                await session.press("Start the search")
                while session.repeating and time.monotonic() < ends:
                    fragment, interval = next(iter(session.repeating.items()))
                    await asyncio.sleep(interval)
                    await session.rerun(fragment=fragment)
                outcome.searches += not session.repeating
    except Exception as error:  # whatever it was, it is reported
        outcome.errors.append(f"{type(error).__name__}: {error}")


async def crowd(url: str, sessions: int, searches: int, seconds: float, think: float) -> Outcome:
    """Let people come within the first seconds, work, and leave."""
    outcome = Outcome()
    ends = time.monotonic() + seconds
    people = [slider_person(url, ends, think, seed, outcome) for seed in range(sessions)]
    people += [searching_person(url, ends, seed, outcome) for seed in range(searches)]
    await asyncio.gather(*people)
    return outcome


async def long_session(url: str, reruns: int, app: App) -> list[float]:
    """Move the sliders of one session so often; return the memory after each tenth of it."""
    chance, memory = random.Random(1), []
    async with Session(url) as session:
        for number in range(reruns):
            await session.move(chance.choice(session.sliders()), chance.randrange(1000))
            if (number + 1) % max(reruns // 10, 1) == 0:
                memory.append(resident(app))
    return memory


def resident(app: App) -> float:
    """Return the memory of the app's process [MiB]."""
    status = Path(f"/proc/{app.process_id}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / MIB


async def peak_while(app: App, work: asyncio.Task[Outcome]) -> tuple[Outcome, float]:
    """Return what came of the work, and the most memory that the app had meanwhile [MiB]."""
    peak = resident(app)
    while not work.done():
        await asyncio.sleep(SAMPLE_SECONDS)
        peak = max(peak, resident(app))
    return await work, peak


async def everybody_gone(url: str) -> None:
    """Wait until searches have noticed, and Streamlit has dropped the sessions that left.

    It does so when another one leaves.
    """
    await asyncio.sleep(max(SESSION_TTL_SECONDS, GRACE_SECONDS) + SETTLING_SECONDS)
    for _ in range(2):
        async with Session(url):
            pass


async def measured(app: App, options: argparse.Namespace) -> int:
    """Run all parts, print what was found, and return how many errors there were."""
    print(f"load average before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    async with Session(app.url):
        pass
    print(f"memory with one session so far  {resident(app):7.0f} MiB")
    warm = min(WARM_SECONDS, options.seconds)
    first = await crowd(app.url, options.sessions, options.searches, warm, options.think)
    await everybody_gone(app.url)
    before = resident(app)
    print(f"memory after a short crowd      {before:7.0f} MiB")
    work = asyncio.create_task(
        crowd(app.url, options.sessions, options.searches, options.seconds, options.think)
    )
    outcome, peak = await peak_while(app, work)
    await everybody_gone(app.url)
    after = resident(app)
    errors = [*first.errors, *outcome.errors]
    print(
        f"{options.sessions} sessions moving sliders and {options.searches} searches at once for "
        f"{options.seconds:.0f} s: {len(errors)} errors, {outcome.searches} searches done\n"
        f"memory at the peak              {peak:7.0f} MiB\n"
        f"memory after all have left      {after:7.0f} MiB"
    )
    spread(outcome.seconds)
    for error in errors[:5]:
        print(f"  {error[:300]}")
    if options.reruns:
        memory = await long_session(app.url, options.reruns, app)
        told = ", ".join(f"{value:.0f}" for value in memory)
        print(f"{options.reruns} reruns in one session, memory after each tenth [MiB]: {told}")
    return len(errors)


def spread(seconds: Sequence[float]) -> None:
    """Print how long a slider took."""
    if seconds:
        p50, p95 = placed(seconds, 0.50), placed(seconds, 0.95)
        print(
            f"{len(seconds)} slider moves: p50 {1000 * p50:.0f} ms, p95 {1000 * p95:.0f} ms, "
            f"longest {1000 * max(seconds):.0f} ms"
        )


def main() -> None:
    """Start the app, load it and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--searches", type=int, default=5)
    parser.add_argument("--think", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--reruns", type=int, default=2000, help="of one session alone, afterwards")
    options = parser.parse_args()
    settings = {"server.disconnectedSessionTTL": str(SESSION_TTL_SECONDS)}
    at_once = {"EXPLORER_SEARCHES": str(max(options.searches, 1)), "MALLOC_ARENA_MAX": "2"}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_app(Path(folder) / "server.log", settings=settings, environment=at_once) as app,
    ):
        errors = asyncio.run(measured(app, options))
        complaints = [line for line in app.output().splitlines() if "rror" in line]
        for line in complaints[:5]:
            print(f"  log: {line[:300]}")
    raise SystemExit(1 if errors or complaints else 0)


if __name__ == "__main__":
    main()
