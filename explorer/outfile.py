"""Files that commands write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from explorer.config.errors import InputError, refuse


def write_text(path: str, text: str, option: str = "--out") -> None:
    """Write a file anew; raises InputError that names the option when it fails."""
    try:
        Path(path).write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error, option) from None


def check_writable(path: str, option: str = "--out") -> None:
    """Refuse a file that cannot be written, before long work begins; raises InputError."""
    try:
        with Path(path).open("a", encoding="utf-8"):
            return
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error, option) from None


def json_text(document: dict[str, Any]) -> str:
    """Return a document as files and downloads hold it; NaN and infinity never leave this way."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _cannot_write(path: str, error: Exception, option: str) -> InputError:
    reason = getattr(error, "strerror", None) or "not a usable path"
    return refuse(option, path, f"cannot be written: {reason}")
