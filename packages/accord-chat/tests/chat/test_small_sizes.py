"""What stays visible on small screens, and when agents send absurd numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input
from textual.widgets._toast import Toast

from accord import Agent, Turn
from accord.script_agent.agent import ScriptAgent
from accord.types.session import ContextUsage, Cost
from accord_chat.sources import OwnAgent, SourceSetup
from accord_chat.view.bars import activity_text, status_text
from accord_chat.view.pick_screen import PickScreen
from chat.chats import LocalAgent, Typist, open_chat


class Writer(Agent):
    """Asks before it writes: seven answers."""

    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Write a.txt", kind="edit") as call:
            await call.add_diff(f"{turn.session.cwd}/a.txt", None, "new\n")
            await call.permission()


async def test_answers_below_are_announced_with_their_keys(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Writer()), folder=tmp_path, size=(40, 12)) as user:
        await user.send("write")
        panel = await user.question()
        await user.until(lambda: "more: " in str(panel.border_subtitle))
        await user.sees("┃  y  Allow", "↓ ", "more: ", " x · ", "❯")
        _, _, keys = str(panel.border_subtitle).partition("more: ")
        hidden = keys.partition(" · ")[0].split()
        assert f"↓ {len(hidden)} more" in user.screen
        assert hidden == ["y", "a", "n", "d", "r", "f", "x"][-len(hidden) :]
        await user.press("up")  # to the last one
        await user.sees("┃  x  Reject", "↑ ")
        await user.until(lambda: "↓" not in user.screen)
        await user.pilot.resize_terminal(80, 40)
        await user.sees("┃  y  ", "┃  x  ")
        await user.until(lambda: "more: " not in user.screen)


def toasts(user: Typist) -> list[str]:
    """Return the toasts that are drawn."""
    found = user.app.screen.query(Toast)
    return [str(toast.render()) for toast in found if toast.region.height]


@pytest.mark.parametrize("size", [(40, 12), (80, 24)])
async def test_notice_covers_no_question_and_no_prompt(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_chat(LocalAgent(Writer()), folder=tmp_path, size=size) as user:
        await user.send("write")
        await user.question()
        user.app.notify("Something has happened.", timeout=60)
        await user.sees("┃  y  Allow", "─ Something has happened. ─", "❯")
        await user.pilot.pause()  # until a toast would be drawn
        assert not toasts(user)
        await user.press("y")
        await user.until(lambda: not user.session.is_busy)
        if size[0] == 80:
            await user.until(lambda: toasts(user) == ["Something has happened."])
            await user.until(lambda: "happened. ─" not in user.screen)
        else:
            await user.sees("─ Something has happened. ─")


USAGES = (
    ContextUsage(10**15, 10**15, Cost(1e300, "EUR")),
    ContextUsage(2**63, 1, Cost(-1e300, "ABCDEF")),
    ContextUsage(2**63, 0, Cost(1e9, "USD")),
    ContextUsage(0, 2**63),
)


async def test_absurd_numbers_leave_room_for_the_settings(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        await user.sees("Ask · Small")
        for usage in USAGES:
            user.session.transcript.usage = usage
            text = status_text(user.session, 78)
            assert text.plain.startswith("Ask · Small "), usage
            assert text.plain.endswith(" · F1 help")
            assert text.cell_len == 78
            assert status_text(user.session, 38).plain.endswith(" · F1")
            assert status_text(user.session, 38).cell_len <= 38


async def test_filter_without_hits_says_so(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        await user.press("f2")
        await user.until(lambda: isinstance(user.app.screen, PickScreen))
        user.app.screen.query_one(Input).value = "zzz"
        await user.sees("No match for zzz")
        await user.press("enter", "down")
        assert isinstance(user.app.screen, PickScreen)
        user.app.screen.query_one(Input).value = "ask"
        await user.sees("Mode: Ask")
        assert "No match" not in user.screen


async def test_keys_after_a_failure_fit_every_width(tmp_path: Path) -> None:
    program = "/no/such/program/with/a/long/name"
    source = OwnAgent("エージェント" * 20, [program], SourceSetup())
    async with open_chat(source, folder=tmp_path, size=(120, 20)) as user:
        session = user.session
        await user.sees("✗ Cannot start", program, "Ctrl+R starts it again")
        assert not session.needs_attention
        assert "has failed" not in user.screen  # what is shown needs no notice
        for width in (120, 80, 60, 40):
            await user.pilot.resize_terminal(width, 20)
            await user.until(lambda width=width: user.app.screen.size.width == width)
            has_room = width >= 80
            await user.until(lambda has=has_room: ("Alt+N another agent" in user.screen) == has)
            assert "Ctrl+R starts it again" in user.screen
            assert activity_text(session, 0, 0, width - 2).cell_len <= width - 2
        session.failure = "エ" * 100
        for width in (40, 60, 80, 120):
            assert activity_text(session, 0, 0, width - 2).cell_len <= width - 2
        session.state, session.state_since_s = "starting", 0.0
        shown = activity_text(session, 0, 0, 58)
        assert shown.plain.endswith("Ctrl+R starts it again")
        assert shown.cell_len <= 58
