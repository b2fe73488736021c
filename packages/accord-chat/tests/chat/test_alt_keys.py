"""Alt with a letter or a digit, as a terminal sends it."""

from __future__ import annotations

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from accord_chat.view.terminal import with_plain_alt_keys


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        ("\x1bz", ["alt+z"]),
        ("\x1b1\x1bz", ["alt+1", "alt+z"]),
        ("\x1bpabc", ["alt+p", "a", "b", "c"]),
        ("\x1b[5;5~\x1bOP\x1b[1;3Az", ["ctrl+pageup", "f1", "alt+up", "z"]),
        ("¡", ["inverted_exclamation_mark"]),
    ],
)
def test_keys_with_alt(data: str, keys: list[str]) -> None:
    parser = XTermParser()
    found = list(parser.feed(with_plain_alt_keys(data)))
    assert [event.key for event in found if isinstance(event, events.Key)] == keys
