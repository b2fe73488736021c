"""Alt with a letter or a digit, as terminals without the protocol of Kitty send it.

Textual waits for more after Escape and a letter: two such keys that arrive together become text.
It also reads Escape and a digit as a character of the keyboard of a Mac.
"""

from __future__ import annotations

import re

_ALT_KEY = re.compile("\x1b([a-z0-9])")


def with_plain_alt_keys(data: str) -> str:
    """Return what a terminal has sent with the keys in the form of Kitty, which is unambiguous."""
    return _ALT_KEY.sub(lambda found: f"\x1b[{ord(found[1])};3u", data)
