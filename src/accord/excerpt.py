"""The peer's own words, told again in an error: what it sent may be megabytes long."""

from __future__ import annotations

__all__ = ("excerpt", "one_line", "visible")

# What a terminal or a page would obey: it moves the cursor, or turns the order of a text round.
_CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\t\n"
}
_LINE_ENDS = {ord("\n"): "\\n", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def excerpt(text: str, most: int = 200) -> str:
    """Return a text, cut to so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def visible(text: str) -> str:
    """Return a text with its control characters spelt out; tabs and line ends stay.

    Half surrogates, which no file and no terminal takes, are spelt out as well.
    """
    text = text.translate(_CONTROLS)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def one_line(text: str, most: int = 1000) -> str:
    """Return a text as a line: cut, and with line ends spelt out, too."""
    return visible(excerpt(text, most)).translate(_LINE_ENDS)
