"""Asks the terminal for a desktop notification, in the way that it understands."""

from __future__ import annotations

from collections.abc import Mapping

from accord_terminal.toolkit.text import one_line

MAX_TEXT = 120
# The words that name a terminal which reads OSC 777; of two ways, each would show the text again.
WITH_777 = ("ghostty", "wezterm", "foot", "rxvt", "konsole", "contour")


def notification(text: str, environment: Mapping[str, str]) -> str:
    """Return the sequence for a text, and the bell.

    That is OSC 99 for Kitty, OSC 777 for terminals that are known to read it, and OSC 9 for all
    others. What a terminal does not know, it ignores.
    """
    clean = one_line(text, MAX_TEXT).replace(";", ",")  # a semicolon begins another field
    names = " ".join(environment.get(name, "") for name in ("TERM", "TERM_PROGRAM")).lower()
    if "kitty" in names or "KITTY_WINDOW_ID" in environment:
        sequence = f"99;;{clean}"
    elif (
        any(name in names for name in WITH_777)
        or "VTE_VERSION" in environment
        or "KONSOLE_VERSION" in environment
    ):
        sequence = f"777;notify;accord chat;{clean}"
    else:
        sequence = f"9;{clean}"
    return f"\x1b]{sequence}\x1b\\\a"
