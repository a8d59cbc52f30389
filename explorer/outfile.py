"""Files that commands write."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from explorer.config.errors import InputError, refuse

LONGEST_PART = 100
"""Letters of a file's name in the name of the part that is being written."""


def write_text(path: str, text: str, option: str = "--out") -> None:
    """Write a file anew; raises InputError that names the option when it fails."""
    with whole_file(path, option, newline="") as file:
        file.write(text)


def check_writable(path: str, option: str = "--out") -> None:
    """Refuse a file that cannot be written, before long work begins; raises InputError."""
    try:
        with Path(path).open("a", encoding="utf-8"):
            return
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error, option) from None


@contextmanager
def whole_file(reference: str, field: str, newline: str | None = None) -> Iterator[TextIO]:
    """Open a file that takes the place of the one under its name once all of it is written.

    A full disk, or an error in the block, leaves the former file as it was. What is no plain file
    (a pipe, a device) is written as it comes.

    Raises:
        InputError: names ``field`` when the file cannot be written.
    """
    part = None
    try:
        path = Path(reference).resolve()
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline=newline) as file:
                yield file
            return
        part = path.with_name(f".{path.name[:LONGEST_PART]}.{secrets.token_hex(4)}")
        with part.open("x", encoding="utf-8", newline=newline) as file:
            yield file
        if path.exists():
            part.chmod(path.stat().st_mode)
        part.replace(path)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise _cannot_write(reference, error, field) from None
    finally:
        if part is not None:
            with suppress(OSError, ValueError):
                part.unlink(missing_ok=True)


def json_text(document: dict[str, Any]) -> str:
    """Return a document as files and downloads hold it; NaN and infinity never leave this way."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _cannot_write(path: str, error: Exception, option: str) -> InputError:
    reason = getattr(error, "strerror", None) or "not a usable path"
    return refuse(option, path, f"cannot be written: {reason}")
