"""Large images in terminals with graphics, by what the terminal answers."""

from __future__ import annotations

import base64
import re
import shlex
import zlib
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from accord_chat.view.pictures import Pixels, kitty, sixel
from accord_chat.view.terminal import KITTY_ID, Replies, question
from chat.fake_terminal import FakeTerminal
from chat.forked import command

Start = Callable[..., FakeTerminal]
PAINTER = """
import sys
sys.path.insert(0, {tests!r})

from accord import Agent, ImageContent
from chat.images import picture

class Painter(Agent):
    async def prompt(self, turn):
        await turn.say(ImageContent(picture(320, 240), "image/png"))
        await turn.say("Painted.")

Painter().run()
"""


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    made: list[FakeTerminal] = []
    work = tmp_path / "work"
    work.mkdir()
    agent = tmp_path / "painter.py"
    agent.write_text(PAINTER.format(tests=str(Path(__file__).parent.parent)))

    def make(**answers: object) -> FakeTerminal:
        words = ["-m", "accord", "chat", "--agent", shlex.join(command(str(agent)))]
        environment = {
            "COLORTERM": "truecolor",
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "ACCORD_CONFIG": str(tmp_path),
        }
        made.append(FakeTerminal(words, work, environment, **answers))  # type: ignore[arg-type]
        return made[-1]

    try:
        yield make
    finally:
        for terminal in made:
            terminal.close()


def open_image(terminal: FakeTerminal) -> None:
    terminal.sees("F1 help")
    assert not terminal.kitty_commands()  # nothing is asked before there is an image
    terminal.type(b"paint\r")
    terminal.sees("320×240 pixels", "Painted.")
    terminal.until(lambda: re.search(r"^\s+· \d+ s", terminal.text, re.MULTILINE))  # the end
    terminal.type(b"\x1b[17~")  # F6
    terminal.sees("▎")
    terminal.type(b"kv")
    terminal.sees("Esc leaves", "╭─ image/png · 320×240 pixels")


@pytest.mark.slow
def test_terminal_that_knows_kitty_gets_the_pixels(start: Start) -> None:
    terminal = start(kitty=True, attributes=b"\x1b[?62;c", cell=b"\x1b[6;20;10t")
    open_image(terminal)
    terminal.until(lambda: [1 for keys, _ in terminal.kitty_commands() if keys.get("m") == "0"])
    (asked, _), (keys, first), *rest = terminal.kitty_commands()
    assert asked["a"] == "q"
    assert (keys["a"], keys["s"], keys["v"], keys["c"], keys["r"]) == (
        "T",
        "320",
        "240",
        "32",
        "12",
    )
    data = first + b"".join(more for _, more in rest)
    rgb = zlib.decompress(base64.b64decode(data))
    assert len(rgb) == 3 * 320 * 240
    assert rgb[:3] == b"\xff\0\0"
    assert "▀" not in terminal.text
    terminal.type(b"\x1b")
    terminal.sees("▌ paint", "▀▀▀▀", "F1 help")
    assert terminal.kitty_commands()[-1][0]["a"] == "d"


@pytest.mark.slow
def test_terminal_with_sixel_among_its_attributes_gets_sixels(start: Start) -> None:
    terminal = start(attributes=b"\x1b[?62;4;22c", cell=b"\x1b[6;20;10t")
    open_image(terminal)
    terminal.until(terminal.sixels)
    assert terminal.sixels()[0].startswith(b'"1;1;320;240')
    assert len(terminal.kitty_commands()) == 1
    terminal.type(b"\x1b")
    terminal.sees("▌ paint", "▀▀▀▀", "F1 help")
    terminal.type(b"\x1b")
    terminal.until(lambda: "▎" not in terminal.text)
    terminal.type(b"what is left")
    terminal.sees("❯ what is left")  # no answer of the terminal was taken for keys


@pytest.mark.slow
def test_terminal_that_answers_nothing_shows_half_cells(start: Start) -> None:
    terminal = start()
    open_image(terminal)
    terminal.sees("▀" * 56)
    assert not terminal.sixels()
    assert len(terminal.kitty_commands()) == 1


@pytest.mark.slow
def test_answer_that_comes_late_is_not_typed(start: Start) -> None:
    terminal = start()
    open_image(terminal)
    terminal.sees("▀" * 56)
    terminal.type(f"\x1b_Gi={KITTY_ID};OK\x1b\\\x1b[6;20;10t\x1b[?62;c".encode())
    terminal.type(b"\x1b")
    terminal.sees("▌ paint", "F1 help")
    terminal.type(b"v")  # the same image again
    terminal.until(lambda: len(terminal.kitty_commands()) > 1)
    terminal.type(b"\x1b")
    terminal.sees("▌ paint", "F1 help")
    terminal.type(b"\x1b")
    terminal.until(lambda: "▎" not in terminal.text)
    terminal.type(b"typed")
    terminal.sees("❯ typed")


def test_answers_are_taken_out_in_pieces_and_between_keys() -> None:
    replies, done = Replies(), []
    assert replies.take("\x1b[?62;4c") == "\x1b[?62;4c"  # nothing was asked
    replies.expect(lambda: done.append(True))
    assert replies.take("a\x1b[6;2") == "a"
    assert replies.take("0;10tb\x1b_Gi=") == "b"
    assert not done
    assert replies.take(f"{KITTY_ID};OK\x1b") == ""
    assert replies.take("\\c\x1b[?62;4;22cd\x1b[A") == "cd\x1b[A"
    assert done
    graphics = replies.graphics
    assert (graphics.protocol, graphics.cell_width, graphics.cell_height) == ("kitty", 10, 20)


ANSWERS = {
    "\x1b[?62;4c": "sixel",
    "\x1b[?4c": None,  # the class of the terminal
    "\x1b[?62;22c": None,
    f"\x1b_Gi={KITTY_ID};ENOTSUPPORTED\x1b\\\x1b[?62c": None,
    "\x1b_Gi=7;OK\x1b\\\x1b[?62c": None,
}


def test_only_a_clear_answer_counts() -> None:
    for answer, protocol in ANSWERS.items():
        replies = Replies()
        replies.expect(lambda: None)
        assert replies.take(answer) == ""
        assert replies.graphics.protocol == protocol, answer


def test_terminal_that_would_show_the_question_is_not_asked() -> None:
    for asks_kitty, environment in (
        (True, {"TERM": "xterm-kitty"}),
        (False, {"TERM": "xterm-256color", "TMUX": "socket,1,0"}),
        (False, {"TERM": "screen-256color"}),
        (False, {"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}),
    ):
        asked = question(environment)
        assert asked is not None
        assert ("\x1b_G" in asked) == asks_kitty, environment
        assert asked.endswith("\x1b[c")
    for name in ("", "dumb", "linux"):
        assert question({"TERM": name}) is None


def test_sixels_have_the_colours_of_the_pixels() -> None:
    red, green = b"\xff\0\0", b"\0\xff\0"
    pixels = Pixels(8, 7, (red * 6 + green * 2) * 7, 8, 7)
    assert drawn(sixel(pixels)) == [[(100, 0, 0)] * 6 + [(0, 100, 0)] * 2] * 7


def drawn(text: str) -> list[list[tuple[int, ...]]]:
    """Return the colours that a terminal draws."""
    body = text.removeprefix("\x1bP").removesuffix("\x1b\\").partition("q")[2]
    colours: dict[int, tuple[int, ...]] = {}
    dots: dict[tuple[int, int], tuple[int, ...]] = {}
    x = y = now = 0
    repeat = 1
    at = 0
    while at < len(body):
        letter = body[at]
        at += 1
        if letter in '"#!':
            end = at
            while end < len(body) and (body[end].isdigit() or body[end] == ";"):
                end += 1
            numbers = [int(number) for number in body[at:end].split(";")]
            at = end
            if letter == "#":
                now = numbers[0]
                if len(numbers) > 1:
                    colours[now] = tuple(numbers[2:])
            elif letter == "!":
                repeat = numbers[0]
        elif letter == "$":
            x = 0
        elif letter == "-":
            x, y = 0, y + 6
        else:
            bits = [bit for bit in range(6) if (ord(letter) - 63) >> bit & 1]
            dots |= {(x + more, y + bit): colours[now] for more in range(repeat) for bit in bits}
            x, repeat = x + repeat, 1
    width, height = max(dots)[0] + 1, max(y for _, y in dots) + 1
    return [[dots[x, y] for x in range(width)] for y in range(height)]


def test_kitty_pieces_are_short_enough_and_can_be_put_together() -> None:
    rgb = bytes(range(256)) * 900
    text = kitty(Pixels(320, 240, rgb, 320, 240), 32, 12)
    pieces = text.split("\x1b\\")[:-1]
    assert all(len(piece.partition(";")[2]) <= 4096 for piece in pieces)
    assert [piece.partition(";")[0][-3:] for piece in pieces][-2:] == ["m=1", "m=0"][-len(pieces) :]
    data = "".join(piece.partition(";")[2] for piece in pieces)
    assert zlib.decompress(base64.b64decode(data)) == rgb
