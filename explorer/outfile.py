"""Files that commands write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from explorer.config.errors import refuse


def write_text(path: str, text: str) -> None:
    """Write the file of ``--out`` anew; raises InputError when that fails."""
    try:
        Path(path).write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise refuse("--out", path, f"cannot be written: {reason}") from None


def json_text(document: dict[str, Any]) -> str:
    """Return a document as files and downloads hold it; NaN and infinity never leave this way."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
