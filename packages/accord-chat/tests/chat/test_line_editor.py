"""The line that is typed in `accord chat --lines`, and the earlier lines that Up recalls."""

from __future__ import annotations

import sys
from pathlib import Path

import pyte
import pytest

from accord_terminal.toolkit.keyboard import LineEditor
from chat.line_chats import AGENT, LinesChat

EARLIER = ["first", "second line of words", "dritte Zeile mit 漢字"]
UP, DOWN = b"\x1b[A", b"\x1b[B"


class Screen:
    """What an editor shows in a terminal."""

    def __init__(self, columns: int = 40) -> None:
        self.screen = pyte.Screen(columns, 10)
        stream = pyte.Stream(self.screen)
        self.editor = LineEditor(
            lambda: EARLIER, lambda text: stream.feed(text.replace("\n", "\r\n")), lambda: columns
        )

    @property
    def line(self) -> str:
        """The line of the cursor, up to it."""
        return self.screen.display[self.screen.cursor.y].rstrip()

    def type(self, *keys: bytes) -> str:
        return "".join(map(self.editor.feed, keys))


def test_line_is_edited_at_its_end() -> None:
    screen = Screen()
    assert screen.type(b"helo\x7flo w\xc3\xb6rl", b"ds\x08") == ""
    assert screen.editor.line == screen.line.replace(" ", " ") == "hello wörld"
    screen.type(b"\x17there")
    assert screen.editor.line == screen.line == "hello there"
    screen.type(b"\x15")
    assert screen.editor.line == screen.line == ""
    assert screen.type(b"again\n") == "again\n"


def test_up_and_down_recall_earlier_lines() -> None:
    screen = Screen()
    screen.type(b"dra", b"ft", UP)
    assert screen.editor.line == EARLIER[2]
    screen.type(UP)
    assert screen.line == screen.editor.line == EARLIER[1]
    screen.type(UP, UP, UP)
    assert screen.line == screen.editor.line == EARLIER[0]
    screen.type(DOWN, DOWN, DOWN, DOWN)
    assert screen.line == screen.editor.line == "draft"
    assert screen.type(b"\x1bOA", b"\x1bOA", b" more\n") == "second line of words more\n"


def test_interrupt_drops_the_line_which_can_be_recalled() -> None:
    screen = Screen()
    screen.type(b"half a line", b"\x1b[")
    screen.editor.interrupt()
    assert (screen.editor.line, screen.line, screen.editor.dropped) == ("", "", "half a line")
    assert screen.type(b"new\n") == "new\n"
    assert screen.editor.dropped == ""
    assert screen.type(UP, UP, b"\n") == "half a line\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_interrupt_ends_the_half_line_before_the_note(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True, TERM="xterm") as chat:
        chat.sees("is ready")
        chat.write(b"say one")
        chat.sees("say one")
        chat.interrupt()
        chat.sees("\nNote: Ctrl-C again quits")
        chat.type("say two")
        chat.sees("Agent: say two", "Done:")
        chat.write(b"\x04")
        assert chat.status() == 0


def test_keys_may_come_in_pieces() -> None:
    keys = "wörter ".encode() + UP + UP + b"\x1b[1;5C" + b"\x1b[3~" + DOWN + b"\n"
    for size in (1, 2, 3):
        pieces = [keys[at : at + size] for at in range(0, len(keys), size)]
        assert Screen().type(*pieces) == f"{EARLIER[2]}\n", size


def test_folded_line_is_written_again_below() -> None:
    screen = Screen(columns=12)
    screen.type(b"a line that is folded", UP, UP)
    assert screen.editor.line == EARLIER[1]
    shown = "".join(screen.screen.display).replace(" ", "")
    assert shown.endswith("secondlineofwords")


def test_recalled_line_of_an_agent_cannot_control_the_terminal() -> None:
    written: list[str] = []
    editor = LineEditor(lambda: ["\x1b[2Jgone\x07"], written.append, lambda: 80)
    editor.feed(UP)
    assert not set("".join(written)) & set("\x1b\x07")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_lines_are_recalled_in_a_terminal_also_after_a_restart(tmp_path: Path) -> None:
    words = ("--agent", AGENT)
    with LinesChat(tmp_path, *words, terminal=True, TERM="xterm") as chat:
        chat.sees("Note: accord chat in lines")
        chat.type("say the first")
        chat.sees("Done:")
        chat.type(":status")
        chat.sees("Status:")
        chat.write(UP + UP)
        chat.sees("say the first")
        chat.write(b" time\n")
        chat.sees("Agent: say the first time")
        chat.sees("Done:")
        chat.write(b"unfinished\x15\x04")
        assert chat.status() == 0
    with LinesChat(tmp_path, *words, terminal=True, TERM="xterm") as chat:
        chat.sees("Note: accord chat in lines")
        chat.sees("first time")
        chat.write(UP)
        chat.sees("say the first time")
        chat.write(b"\x15:quit\n")
        assert chat.status() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("terminal", ["dumb", "xterm"])
def test_terminal_is_as_before_when_the_program_ends(tmp_path: Path, terminal: str) -> None:
    import termios

    mode = "" if terminal == "dumb" else "--lines"  # which is how a dumb terminal is used
    words = ("--agent", AGENT)
    with LinesChat(tmp_path, *words, terminal=True, mode=mode, TERM=terminal) as chat:
        output = chat._output
        chat.sees("Note: accord chat in lines.", "is ready")
        edits_itself = not termios.tcgetattr(output)[3] & termios.ICANON
        assert edits_itself == (terminal == "xterm")
        chat.type(":quit")
        assert chat.status() == 0
        assert termios.tcgetattr(output)[3] & (termios.ICANON | termios.ECHO)
