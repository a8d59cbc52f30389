"""Text from people, shown as it is: never as Markdown or HTML."""

from __future__ import annotations

import re

MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:])")


def plain(text: str) -> str:
    """Return ``text`` with everything that Markdown, emoji codes or formulas mean escaped."""
    return MARKUP.sub(r"\\\1", text)
