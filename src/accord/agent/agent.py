"""An agent, to subclass: what it overrides is what it offers, in both versions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from accord.errors import MethodNotFound

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.session import Session
    from accord.agent.store import SessionStore
    from accord.agent.tool import ToolCall
    from accord.agent.turn import Turn
    from accord.model.session import Info, StopReason

__all__ = ("Agent",)


class Agent:
    """Works on what users say in sessions.

    `prompt_content` names what prompts may hold besides text and links: `image`, `audio`,
    `resource`. `mcp` names the ways in which it connects to MCP servers: `stdio`, `http`, `sse`.
    With a `store` sessions can be listed, loaded, resumed and deleted; with `unstable` also
    forked, renamed, archived and asked for their status, as the unstable protocol has it.
    """

    info: Info | None = None  # by default the name of the class
    prompt_content: ClassVar[frozenset[str]] = frozenset()
    mcp: ClassVar[frozenset[str]] = frozenset()
    store: SessionStore | None = None
    unstable: ClassVar[bool] = False

    async def prompt(self, turn: Turn) -> StopReason | None:
        """Work on a prompt; return why it stopped, None for "end_turn".

        A cancel cancels this coroutine, and however it ends then, the turn is cancelled.
        """
        raise MethodNotFound

    async def open_session(self, session: Session) -> None:
        """Set up a session, new or opened again: options, commands, data of its own."""

    async def close_session(self, session: Session) -> None:
        """Free what a session holds; its turn is over."""

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Take the user's choice, which is one of the option's values.

        Raise to refuse it; the session has the old value until this returns.
        """

    def authorize(self) -> None:
        """Raise `AuthRequired` to have the user log in first; asked before anything is done."""

    async def permit(self, call: ToolCall) -> bool | None:
        """Decide on a tool call that needs permission; None leaves it to the user."""
        return None

    async def aclose(self) -> None:
        """Free what the agent holds; called when `run` ends."""
        if self.store is not None:
            await self.store.aclose()

    def capabilities_v1(self, derived: v1.AgentCapabilities) -> v1.AgentCapabilities:
        """Return what to offer in version 1; by default what is derived."""
        return derived

    def capabilities_v2(self, derived: v2.AgentCapabilities) -> v2.AgentCapabilities:
        """Return what to offer in version 2; by default what is derived."""
        return derived

    @property
    def open_sessions(self) -> dict[str, Session]:
        """The sessions that are open, on whatever connection, by id."""
        return vars(self).setdefault("_open_sessions", {})

    def run(self) -> None:
        """Serve one client on stdin and stdout, in either version, until it hangs up."""
        from accord.agent.serving import serve
        from accord.transports.stdio import stdio

        transport = stdio(give_back=False)

        async def serve_it() -> None:
            try:
                await serve(self, transport)
            finally:
                await self.aclose()

        asyncio.run(serve_it())
