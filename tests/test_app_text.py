"""Text from people stays text."""

from __future__ import annotations

import pytest

from explorer.ui.text import plain


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("Decode pipeline stages (PP_D)", "Decode pipeline stages (PP_D)"),
        ("a *bold* claim", r"a \*bold\* claim"),
        ("_slanted_", r"\_slanted\_"),
        ("[here](http://example.test)", "\\[here\\](http\u2060\\://example.test)"),
        ("![x](y)", r"!\[x\](y)"),
        ("<b>", r"\<b\>"),
        (":smile: :red[x] 12:30", r"\:smile: \:red\[x\] 12:30"),
        ("$x$ and `y`", r"\$x\$ and \`y\`"),
        ("# heading", r"\# heading"),
        ("www.example.test", "www\u2060.example.test"),
        ("WWW.example.test", "WWW\u2060.example.test"),
        ("HTTPS://example.test", "HTTPS\u2060\\://example.test"),
        ("mt3000@1", "mt3000@1"),
        ("me@example.test", "me\u2060@example.test"),
    ],
)
def test_markup_is_escaped_and_nothing_else(text: str, escaped: str) -> None:
    assert plain(text) == escaped
