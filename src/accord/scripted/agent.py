"""The script agent: every prompt is a command, and it does that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accord import Agent, Command, Info, MemoryStore, Session, Turn, __version__

if TYPE_CHECKING:
    from accord.agent.tool import ToolCall

__all__ = ("ScriptAgent",)


class ScriptAgent(Agent):
    """Does what prompts tell it to, in every version the same, and the same every time.

    It keeps its sessions, so that they can be listed and opened again as long as it runs.
    `leave` ends the process for the command `exit`; without it there is nothing to leave.
    """

    info = Info("accord-script", __version__, "Accord's script agent")
    prompt_content = frozenset({"image", "audio", "resource"})

    def __init__(self, *, leave: Callable[[int], object] | None = None) -> None:
        self.store = MemoryStore()
        self.leave = leave

    async def open_session(self, session: Session) -> None:
        """Offer the options and the commands that there are."""
        from accord.scripted.script import ACTS, OPTIONS

        session.data["leave"] = self.leave
        await session.set_options(OPTIONS)
        await session.commands([Command(act.name, act.does, act.takes or None) for act in ACTS])

    async def permit(self, call: ToolCall) -> bool | None:
        """Let the mode decide: `auto` allows, `read` refuses, `ask` leaves it to the user."""
        return {"auto": True, "read": False}.get(call.session.mode or "ask")

    async def prompt(self, turn: Turn) -> str | None:
        """Do what the prompt says."""
        from accord.scripted.acts import Misused
        from accord.scripted.script import find, help_text

        words = next((part for part in turn.content if isinstance(part, str)), "").split(None, 1)
        name = words[0].removeprefix("/") if words else "help"
        act = find(name)
        if act is None:
            await turn.say(f"There is no command `{name}`.\n\n{help_text()}")
            return None
        try:
            return await act.run(turn, words[1].strip() if len(words) > 1 else "")
        except Misused as misused:
            await turn.say(f"{misused}\n\nUsage: `{act.usage}`")
            return None
