"""Files that commands write."""

from __future__ import annotations

import json
from typing import Any

from explorer.config.jsonio import whole_file


def write_text(path: str, text: str) -> None:
    """Write the file of ``--out`` anew; raises InputError when that fails."""
    with whole_file(path, "--out", newline="") as file:
        file.write(text)


def json_text(document: dict[str, Any]) -> str:
    """Return a document as files and downloads hold it; NaN and infinity never leave this way."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
