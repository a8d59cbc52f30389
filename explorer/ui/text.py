"""Text from people, shown as it is: never as Markdown or HTML."""

from __future__ import annotations

import re

# Only what Markdown, emoji codes, formulas and bare addresses would act on: a backslash before
# anything else would be read out with the label of a control.
MARKUP = re.compile(
    r"[\\`*\[\]<>$~]"
    r"|(?<!\w)_|_(?!\w)"
    r"|:(?=//|[\w+-]+[:\[])"
    r"|(?<=www)\."
    r"|^\s*[#>+=-]"
)


def plain(text: str) -> str:
    """Return ``text`` so that Markdown shows it letter by letter."""
    return MARKUP.sub(lambda match: match[0][:-1] + "\\" + match[0][-1], text)
