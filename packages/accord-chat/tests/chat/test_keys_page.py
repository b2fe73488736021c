"""The page of the keys has each key of the program."""

from __future__ import annotations

from accord_chat.view.commands import COMMANDS, TRANSCRIPT_KEYS, TYPING_KEYS
from project import ROOT

PAGE = ROOT / "docs/reference/chat-keys.md"


def test_page_has_every_key() -> None:
    page = PAGE.read_text("utf-8")
    rows = [*TYPING_KEYS, *TRANSCRIPT_KEYS, *((one.shown_key, one.summary) for one in COMMANDS)]
    assert [row for row in rows if f"| {row[0]} | {row[1]} |" not in page] == []


def test_every_command_has_a_name_and_a_key_of_its_own() -> None:
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    assert len({command.key for command in COMMANDS}) == len(COMMANDS)
