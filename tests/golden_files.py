"""Documents written by every version, kept for ever, and what they deliver today.

Usage: .venv/bin/python -m tests.golden_files [--write]

Prints each headline figure that differs from what the golden document, or the last accepted run,
says. With --write the figures of today are accepted: they go to tests/golden/figures.json, where a
diff shows them. The documents themselves never change: a new version adds new ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from explorer.config.files import scenario_from_json
from explorer.serving.evaluate import evaluate
from explorer.serving.report import evaluation_document

FOLDER = Path(__file__).parent / "golden"
ACCEPTED = FOLDER / "figures.json"
SCENARIOS = ("scenario-", "scenario-preset-", "export-")
FIGURES = (
    ("memory", "prefill", "total_bytes"),
    ("memory", "decode", "total_bytes"),
    ("stages", "prefill_seconds"),
    ("stages", "decode_seconds"),
    ("pool", "clusters"),
    ("pool", "pools"),
    ("pool", "throughput_tokens_per_second"),
    ("latency", "ttft_seconds"),
    ("latency", "tpot_seconds"),
)
CLOSE = 1e-9


def golden(prefix: str | tuple[str, ...]) -> list[Path]:
    """Return the golden documents whose names begin so."""
    paths = sorted(FOLDER.glob("*-[0-9]*"))
    return [path for path in paths if path.name.startswith(prefix)]


def figures_of(evaluation: dict[str, Any]) -> dict[str, float | None]:
    """Return the headline figures of an evaluation by dotted name."""
    found: dict[str, float | None] = {}
    for place in FIGURES:
        value: Any = evaluation
        for key in place:
            value = value[key]
        found[".".join(place)] = value
    return found


def written(path: Path) -> dict[str, float | None]:
    """Return the figures that a golden document itself holds; none for a bare scenario."""
    evaluation = json.loads(path.read_text(encoding="utf-8")).get("evaluation")
    return {} if evaluation is None else figures_of(evaluation)


def today(path: Path) -> dict[str, float | None]:
    """Return the figures that its scenario has now."""
    scenario = scenario_from_json(path.read_bytes(), path.name)
    return figures_of(evaluation_document(evaluate(scenario)))


def digest(path: Path) -> str:
    """Return what tells that a file is unchanged."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def accepted() -> dict[str, Any]:
    """Return the accepted figures and the digests of all documents."""
    if not ACCEPTED.exists():
        return {"sha256": {}, "figures": {}}
    found: dict[str, Any] = json.loads(ACCEPTED.read_text(encoding="utf-8"))
    return found


def same(one: float | None, other: float | None) -> bool:
    """Return whether two figures agree within rounding."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


def differences() -> list[str]:
    """Return a line for each figure that is not what a document, or the last run, says."""
    known, lines = accepted()["figures"], []
    for path in golden(SCENARIOS):
        now = today(path)
        for what, before in (("written", written(path)), ("accepted", known.get(path.name, {}))):
            for name, value in before.items():
                if not same(value, now[name]):
                    ratio = f", {now[name] / value:.6g} times" if value and now[name] else ""
                    lines.append(f"{path.name} {name}: {what} {value}, now {now[name]}{ratio}")
    return lines


def accept() -> None:
    """Write down the figures of today; raises ValueError where a document itself was changed."""
    known = accepted()["sha256"]
    digests = {path.name: digest(path) for path in golden("")}
    changed = [name for name, value in known.items() if digests.get(name) != value]
    if changed:
        raise ValueError(f"golden documents never change, but these did: {', '.join(changed)}")
    figures = {path.name: today(path) for path in golden(SCENARIOS)}
    text = json.dumps({"sha256": digests, "figures": figures}, indent=1)
    ACCEPTED.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Print the differences, and accept them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="accept the figures of today")
    options = parser.parse_args()
    for line in differences():
        sys.stdout.write(f"{line}\n")
    if options.write:
        accept()
    return 0


if __name__ == "__main__":
    sys.exit(main())
