"""Pasted text, as a terminal sends it: one text, and never a key."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from textual import events

from accord.script_agent.agent import ScriptAgent
from accord_chat.view.terminal import ESCAPE_S, InputParser, PasteFilter, pasted_text
from chat.chats import LocalAgent, open_chat
from chat.terminal import Terminal, needs_tmux, open_terminal

START, END = "\x1b[200~", "\x1b[201~"
COLOURED = "with \x1b[31mesc"
TITLE = "a\x1b]0;title\x07b\r\nc\rd\te"
SHOWN_TITLE = "a\\x1b]0;title\\x07b\nc\nd\te"


def read(*pieces: str) -> list[str]:
    """Return what was read: keys by name, pastes in brackets."""
    parser, found = InputParser(), list[str]()
    for piece in pieces:
        for event in parser.feed(piece):
            if isinstance(event, events.Paste):
                found.append(f"[{event.text}]")
            elif isinstance(event, events.Key):
                found.append(event.key)
    return found


PASTED = {
    COLOURED: "with esc",
    TITLE: SHOWN_TITLE,
    "\x1bz\x1b[A\x1b1\x1b": "\\x1bz\\x1b1\\x1b",
    "a\u202eb\x00": "a\\u202eb\\x00",
    "\x1b[?62;4c\x1b_Gi=1;OK\x1b\\": "\\x1b_Gi=1;OK\\x1b\\",
    "": "",
}


def test_paste_is_one_text_wherever_it_is_split() -> None:
    for pasted, text in PASTED.items():
        data = f"x{START}{pasted}{END}y\x1bz"
        wanted = ["x", f"[{text}]", "y", "alt+z"]
        assert read(data) == wanted
        for at in range(1, len(data)):
            assert read(data[:at], data[at:]) == wanted, at
        assert read(*data) == wanted


def test_end_of_a_paste_in_a_paste_gives_no_keys() -> None:
    assert read(f"{START}a{END}b\r{START}c{END}\r") == ["[ab\nc]", "enter"]
    assert read(f"{START}/a.png{END}{START}/b.png{END}") == ["[/a.png]", "[/b.png]"]
    assert read(f"a{END}b") == ["a", "b"]


def test_escape_is_a_key_if_nothing_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("accord_chat.view.terminal.time.monotonic", lambda: now_s)
    parser = InputParser()
    assert not list(parser.feed("\x1b"))
    assert not list(parser.tick())
    now_s = 2 * ESCAPE_S
    (key,) = parser.tick()
    assert isinstance(key, events.Key)
    assert key.key == "escape"


def test_long_paste_in_pieces() -> None:
    text = "0123456789\n" * 100_000
    data = f"{START}{text}{END}"
    pastes = PasteFilter()
    pieces = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    (found,) = (part for piece in pieces for part in pastes.take(piece))
    assert found.text == pasted_text(text) == text  # type: ignore[union-attr]


async def test_direction_is_shown_in_the_prompt(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        user.composer.insert("a\u202eb")
        await user.sees("❯ a\\u202eb")
        user.composer.set_text("\u2066c")
        await user.sees("❯ \\u2066c")


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    with open_terminal(tmp_path) as made:
        yield made


@needs_tmux[0]
@needs_tmux[1]
def test_paste_in_a_terminal(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small", "F1 help")
    for text, shown in [
        (COLOURED, "❯ with esc\n"),
        ("one\ntwo\x1b]0;title\x07\n", "❯ one\n  two\\x1b]0;title\\x07\n"),
        ("a\u202eb", "❯ a\\u202eb\n"),
    ]:
        terminal.tmux("set-buffer", text)
        terminal.tmux("paste-buffer", "-p")
        terminal.until(lambda screen, shown=shown: shown in screen)
        assert "▌" not in terminal.screen  # nothing was sent
        terminal.press("C-c")
        terminal.until(lambda screen, shown=shown: shown not in screen)
