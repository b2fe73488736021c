"""The script agent: every prompt is a command, and it does that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord import (
    Agent,
    AuthRequired,
    AvailableCommand,
    Implementation,
    MemoryStore,
    Session,
    Turn,
    __version__,
)
from accord.agent import AgentAuthMethod, AuthenticationMixin
from accord.script_agent.providers import ScriptProviders

if TYPE_CHECKING:
    from accord.agent import ConnectedClient, ToolCallHandle

__all__ = ("ScriptAgent",)


class ScriptAgent(AuthenticationMixin, ScriptProviders, Agent):
    """Does what prompts tell it to, in every version the same, and the same every time.

    It keeps its sessions, so that they can be listed and opened again as long as it runs.
    `leave` ends the process for the command `exit`; without it there is nothing to leave.
    """

    info = Implementation("accord-script", __version__, "Accord's script agent")
    auth_methods = (
        AgentAuthMethod("script", "Log in", "Works at once"),
        AgentAuthMethod("refused", "Log in without success", "Never works"),
    )
    prompt_capabilities = frozenset({"image", "audio", "resource"})
    system_prompt = frozenset({"append", "override"})
    unstable = True  # whoever tests against it wants all of it

    def __init__(self, *, leave: Callable[[int], object] | None = None) -> None:
        ScriptProviders.__init__(self)
        self.store = MemoryStore()
        self.leave = leave
        self._logged_in = True

    def is_logged_in(self) -> bool:
        """Tell whether prompts are worked on: from the beginning, until a logout."""
        return self._logged_in

    async def login(self, login_id: str) -> None:
        """Log in."""
        if login_id == "refused":
            raise AuthRequired("This login never works")
        self._logged_in = True

    async def logout(self) -> None:
        """Log out, until the next login."""
        self._logged_in = False

    async def open_session(self, session: Session) -> None:
        """Offer the options and the commands that there are."""
        from accord.script_agent.registry import COMMANDS, OPTIONS

        session.data["leave"] = self.leave
        await session.set_options(OPTIONS)
        await session.set_commands(
            [AvailableCommand(act.name, act.does, act.takes or None) for act in COMMANDS]
        )

    async def extension_request(self, method: str, params: Any, client: ConnectedClient) -> Any:
        """Answer `_accord/echo` with its params."""
        if method == "_accord/echo":
            return {"params": params, "version": client.version}
        return await super().extension_request(method, params, client)

    async def decide_permission(self, call: ToolCallHandle) -> bool | None:
        """Let the mode decide: `auto` allows, `read` refuses, `ask` leaves it to the user."""
        return {"auto": True, "read": False}.get(call.session.mode or "ask")

    async def prompt(self, turn: Turn) -> str | None:
        """Do what the prompt says."""
        from accord.script_agent.command import UsageError
        from accord.script_agent.registry import find_command, help_text

        words = next((part for part in turn.content if isinstance(part, str)), "").split(None, 1)
        name = words[0].removeprefix("/") if words else "help"
        act = find_command(name)
        if act is None:
            await turn.say(f"There is no command `{name}`.\n\n{help_text()}")
            return None
        try:
            return await act.run(turn, words[1].strip() if len(words) > 1 else "")
        except UsageError as misused:
            await turn.say(f"{misused}\n\nUsage: `{act.usage}`")
            return None
