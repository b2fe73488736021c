"""Desktop notifications: the bytes that a terminal gets, and when."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from accord_chat.view.app import notification
from chat.line_chats import AGENT, LinesChat

FOCUS_LOST, FOCUS_GAINED = b"\x1b[O", b"\x1b[I"
ANY = re.compile("\x1b\\](?:9|99|777);([^\x07]*?)\x1b\\\\\x07")


SEQUENCES = (
    ({"TERM": "xterm-256color"}, "9;a, b"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "9;a, b"),
    ({"TERM": "xterm-kitty"}, "99;;a, b"),
    ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, "99;;a, b"),
    ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "777;notify;accord chat;a, b"),
    ({"TERM": "foot"}, "777;notify;accord chat;a, b"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "777;notify;accord chat;a, b"),
)


def test_each_terminal_gets_one_sequence_and_the_bell() -> None:
    for environment, sequence in SEQUENCES:
        sent = notification("a; b\n", environment)
        assert sent == f"\x1b]{sequence}\x1b\\\x07", environment


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_notification_is_sent_only_while_the_terminal_has_no_focus(tmp_path: Path) -> None:
    with screen(tmp_path) as chat:
        chat.sees("F1 help")
        assert "\x1b[?1004h" in chat.text  # the terminal is to report the focus
        chat.write(b"hide\r")  # gives the session a title with control characters
        chat.sees("out ")
        chat.until(lambda new: bool(re.search(r"· .*\d s", new)))  # the turn has ended
        (chat.work / "go-on").touch()
        chat.write(FOCUS_LOST + b"slow\r")
        found = chat.until(lambda new: bool(ANY.search(new)))
        (text,) = ANY.findall(found)
        assert text.endswith("has finished")
        assert text.isprintable()
        assert ";" not in text
        chat.write(FOCUS_GAINED + b"slow again\r")
        chat.until(lambda new: new.count("slow again") > 1)
        assert len(ANY.findall(chat.text)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_setting_switches_notifications_off(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[chat]\nnotify = false\n")
    with screen(tmp_path) as chat:
        chat.sees("F1 help")
        (chat.work / "go-on").touch()
        chat.write(FOCUS_LOST + b"slow\r")
        chat.sees("that took long")
        chat.until(lambda new: bool(re.search(r"· .*\d s", new)))  # the turn has ended
        assert not ANY.search(chat.text)


def screen(folder: Path) -> LinesChat:
    words = ("--agent", AGENT, "--new")
    return LinesChat(folder, *words, terminal=True, mode="", TERM="xterm-256color", TERM_PROGRAM="")
