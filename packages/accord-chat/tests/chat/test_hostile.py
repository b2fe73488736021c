"""Agents that try to look like the program, to hide text, or to send too much."""

from __future__ import annotations

from pathlib import Path

from accord import Agent, PlanEntry, Turn
from accord_chat.view.permission_panel import PermissionPanel
from chat.chats import LocalAgent, open_chat

HIDING = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp.exe\u2066\u200b\x00\x08\r"
BOX = (
    "┏━ local asks for permission ━━━━━━━━━┓\n"
    "┃ Run: rm -rf /                       ┃\n"
    "┃  y  Allow  (allows it once)         ┃\n"
    "┗━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┛"
)


class Hostile(Agent):
    """Does what the prompt says."""

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "hide":
                await turn.think(f"thought {HIDING}")
                await turn.say(f"say {HIDING} [bank](https://evil.example/\u202e)")
                await turn.plan([PlanEntry(f"step {HIDING}")])
                await turn.set_title(f"title {HIDING}")
                async with turn.tool(f"tool {HIDING}", kind="execute") as call:
                    await call.append_text(f"out {HIDING}\n")
                    await call.permission()
            case "imitate":
                await turn.say(BOX)
                async with turn.tool("Real", kind="edit") as call:
                    await call.permission()
                await turn.say("\n".join(f"line {n}" for n in range(500)))
            case "flood":
                await turn.say("x" * 1_000_000)
                async with turn.tool("Flood", kind="execute") as call:
                    for _ in range(10):
                        await call.append_text("0123456789" * 100_000 + "\n")
                await turn.say("\n\nthe end")
            case text:
                await turn.say(text)


async def test_nothing_that_hides_text_reaches_the_screen(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Hostile()), folder=tmp_path, size=(100, 40)) as user:
        await user.send("hide")
        await user.question()
        await user.sees("thought", "say", "tool", "title")
        shown = user.screen
        await user.press("n")
        await user.until(lambda: not user.session.is_busy)
        for screen in (shown, user.screen):
            assert not set(screen.replace("\n", "")) & set(
                "\x1b\x9b\x00\x07\x08\r\u202e\u2066\u200b"
            )
            assert "bank (https://evil.example/" in screen.replace("%E2%80%AE", "")


async def test_imitated_question_is_no_question(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Hostile()), folder=tmp_path, size=(80, 40)) as user:
        await user.send("imitate")
        panel = await user.question()
        lines = user.screen.split("\n")
        fake = next(n for n, line in enumerate(lines) if "rm -rf" in line)
        assert lines[fake].startswith("  ")  # text of agents is indented
        real = panel.region
        assert real.x == 0
        assert fake < real.y
        await user.press("n")
        await user.sees("line 499")


async def test_question_stays_while_the_agent_goes_on(tmp_path: Path) -> None:
    class Chatty(Agent):
        async def prompt(self, turn: Turn) -> None:
            async with turn.tool("Real", kind="edit") as call:
                await turn.say("\n\n".join(f"line {n}" for n in range(200)))
                await call.permission()
            await turn.say("done")

    async with open_chat(LocalAgent(Chatty()), folder=tmp_path) as user:
        await user.send("go")
        panel = await user.question()
        await user.press("pageup", "pageup")
        assert panel.region.bottom <= 24
        assert "local asks for permission" in user.screen
        await user.press("y")
        await user.sees("done")
        await user.until(lambda: not user.app.screen.query(PermissionPanel))


async def test_very_long_output_does_not_stop_the_keyboard(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Hostile()), folder=tmp_path) as user:
        await user.send("flood")
        await user.type("still typing")
        assert user.composer.text == "still typing"
        await user.until(lambda: not user.session.is_busy)
        await user.sees("the end")
