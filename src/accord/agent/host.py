"""The sessions of one connection, whatever version it speaks."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from accord.agent.link import Link
from accord.agent.reports import CommandsReport
from accord.agent.session import Session
from accord.agent.turn import Turn
from accord.errors import InvalidParams, ResourceNotFound
from accord.model.content import Audio, Content, Image, Other, Resource

if TYPE_CHECKING:
    from accord.agent.agent import Agent

__all__ = ("Host", "Setup")

log = logging.getLogger("accord.agent")


class Setup(Struct, frozen=True, kw_only=True):
    """What a client gives a session when it opens it; directories are absolute paths."""

    cwd: str
    additional: Sequence[str] = ()
    mcp_servers: Sequence[Any] = ()

    def check(self) -> None:
        """Raise `InvalidParams` for a directory that is not absolute (R-SESS-03, R-DIR-06)."""
        for path in (self.cwd, *self.additional):
            if not _is_absolute(path):
                raise InvalidParams("Directories must be absolute paths", data={"path": path})

    def roots(self) -> tuple[str, ...]:
        """Return the directories that files may be in, each once (R-DIR-05)."""
        return tuple(dict.fromkeys((self.cwd, *self.additional)))


def _is_absolute(path: str) -> bool:
    # Of whatever system: a client may run elsewhere.
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")


class Host:
    """Opens, finds and closes the sessions of one client."""

    link: Link  # from `initialize` on

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.sessions: dict[str, Session] = {}

    def settle(self, link: Link) -> None:
        """Speak to the client in this way from now on."""
        self.link = link
        for session in self.sessions.values():
            session.link = link

    def session(self, session_id: str) -> Session:
        """Return an open session (R-SESS-37)."""
        try:
            return self.sessions[session_id]
        except KeyError:
            raise ResourceNotFound(data={"sessionId": session_id}) from None

    async def new_session(self, setup: Setup) -> Session:
        """Create a session."""
        setup.check()
        return await self._open(
            Session(
                f"session-{os.urandom(12).hex()}",
                self.agent,
                self.link,
                cwd=setup.cwd,
                roots=setup.roots(),
                mcp_servers=setup.mcp_servers,
            )
        )

    async def _open(self, session: Session) -> Session:
        await self.agent.open_session(session)
        self.sessions[session.id] = self.agent.open_sessions[session.id] = session
        session.is_open = True
        return session

    async def resume(self, session_id: str, setup: Setup, *, replay: bool) -> Session:
        """Go on with a session, after a replay if wanted."""
        setup.check()
        return self.session(session_id)

    def tell_commands(self, session: Session) -> None:
        """Send the commands once the client knows of the session."""
        if session.commands_now:
            report = CommandsReport(session.commands_now)
            self.link.start(self.link.show(session.id, report))

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Take the user's choice; raise `InvalidParams` for one that there is not."""
        session.check_option(option_id, value)  # R-CONF-11
        await self.agent.set_option(session, option_id, value)
        session.take_option(option_id, value)

    def begin(self, session_id: str, content: tuple[Content, ...]) -> Turn:
        """Return the turn of a prompt, not yet queued; raise for what cannot be prompted."""
        session = self.session(session_id)
        if not content:
            raise InvalidParams("A prompt must not be empty")
        for part in content:
            if (kind := _kind_to_offer(part)) not in (None, *self.agent.prompt_content):
                raise InvalidParams("The prompt holds what was not offered", data={"type": kind})
        return Turn(session, content)

    async def close(self, session_id: str) -> None:
        """Cancel what runs in a session and free it."""
        session = self.session(session_id)
        del self.sessions[session_id]
        for turn in list(session.turns):
            turn.cancel()
        for turn in list(session.turns):
            await turn.finished.wait()
        await self._free(session)

    async def _free(self, session: Session) -> None:
        session.closed = True
        self.agent.open_sessions.pop(session.id, None)
        await self.agent.close_session(session)

    async def aclose(self) -> None:
        """Free all sessions; the client has gone."""
        while self.sessions:
            _, session = self.sessions.popitem()
            try:
                await self._free(session)
            except Exception:
                log.exception("! closing session %s failed", session.id)


def _kind_to_offer(part: Content) -> str | None:
    match part:
        case Image():
            return "image"
        case Audio():
            return "audio"
        case Resource():
            return "resource"
        case Other():
            return "unknown"
        case _:
            return None
