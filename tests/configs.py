"""Published Hugging Face configurations, cut to what describes the model, for several tests."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from explorer.config.hugging_face import ImportedModel, imported
from explorer.config.model import Model

FOLDER = Path(__file__).resolve().parent / "data" / "configs"
CONFIGS = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def config(name: str, **changes: Any) -> dict[str, Any]:
    """Return a config with fields changed, added, or left out where the value is ``...``."""
    values: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    values |= changes
    return {key: value for key, value in values.items() if value is not ...}


@cache
def imported_config(name: str) -> ImportedModel:
    """Return a config as it is imported."""
    return imported(config(name), f"{name}.json")


def config_model(name: str) -> Model:
    """Return the sizes of an imported config."""
    return imported_config(name).document.shape()
