"""Text from people, shown as it is: never as Markdown or HTML."""

from __future__ import annotations

import re

# Only what Markdown, emoji codes and formulas would act on: a backslash before anything else would
# be read out with the label of a control.
MARKUP = re.compile(
    r"[\\`*\[\]<>$~]"
    r"|(?<!\w)_|_(?!\w)"
    r"|:(?=//|[\w+-]+[:\[])"
    r"|^\s*[#>+=-]"
)

# Addresses become links after the backslashes are gone. A mark that nobody sees ends them: it takes
# no room and allows no line break.
ADDRESS = re.compile(
    r"(?:(?<=www)(?=\.)|(?<=http)(?=\\?:/)|(?<=https)(?=\\?:/)|(?=@[-\w]+\.[-\w]))", re.I
)
WORD_JOINER = "\u2060"


def plain(text: str) -> str:
    """Return ``text`` so that Markdown shows it letter by letter."""
    escaped = MARKUP.sub(lambda match: match[0][:-1] + "\\" + match[0][-1], text)
    return ADDRESS.sub(WORD_JOINER, escaped)
