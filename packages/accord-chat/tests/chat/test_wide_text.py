"""Characters of two cells, of none, from right to left, and lines longer than the screen."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len

from accord import Agent, Turn
from chat.chats import LocalAgent, open_chat

WIDE = "漢字" * 30 + " e\u0301e\u0301 👍 שלום עולם " + "w" * 130 + " end"
LONG = "".join(f"{n:03}" for n in range(100))  # 300 columns


class Wide(Agent):
    """Writes wide text everywhere."""

    async def prompt(self, turn: Turn) -> None:
        await turn.set_title(WIDE)
        await turn.say(f"{WIDE}\n\n```\n{LONG}\n```\n")
        async with turn.tool(f"字 {WIDE}", kind="execute") as call:
            await call.append_text(f"{LONG}\n")
            await call.permission()


async def test_no_line_is_wider_than_the_screen(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Wide()), folder=tmp_path, size=(200, 50)) as user:
        await user.send(WIDE)
        await user.question()
        for width in (200, 80, 40):
            await user.pilot.resize_terminal(width, 50)
            await user.until(lambda width=width: user.view.size.width == width)
            await user.sees("asks for permission", "שלום עולם")
            lines = user.screen.split("\n")
            assert max(cell_len(line) for line in lines) <= width
            box = [line for line in lines if line.startswith("┃")]
            assert len(box) > 4
            assert {(cell_len(line), line[-1]) for line in box} == {(width, "┃")}
            shown = "".join(line[4:].strip() for line in lines)
            assert LONG[-30:] in shown.replace("┃", "") or width < 80
        await user.press("n")
        await user.until(lambda: not user.session.is_busy)
