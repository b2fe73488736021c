"""The sessions of one connection, whatever version it speaks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from accord.agent.background import STOP_S
from accord.agent.connected_client import ConnectedClient
from accord.errors import InvalidParams, InvalidRequest, ResourceNotFound, TransportError

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.session import Session
    from accord.agent.session_actions import SessionActions
    from accord.agent.store.base import SessionPage
    from accord.agent.store.session_log import LoadedSession, SessionLog
    from accord.agent.subagent import SubagentHandle
    from accord.agent.turn_runner import TurnRunner
    from accord.types.auth import AuthAccount, AuthState
    from accord.types.content import ContentBlock
    from accord.types.mcp import McpServer
    from accord.types.session import SessionOption, SystemPrompt

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("SessionManager", "SessionSetup", "managers_of")

log = logging.getLogger("accord.agent")

_MAX_SESSIONS = 10_000


class SessionSetup(Struct, frozen=True, kw_only=True):
    """What a client gives a session when it opens it; directories are absolute paths."""

    cwd: str
    additional_directories: Sequence[str] = ()
    mcp_servers: Sequence[McpServer] = ()
    system_prompt: SystemPrompt | None = None

    def check(self) -> None:
        """Raise `InvalidParams` for a directory that is not absolute (R-SESS-03, R-DIR-06)."""
        for path in (self.cwd, *self.additional_directories):
            if not _is_absolute(path):
                raise InvalidParams("Directories must be absolute paths", data={"path": path})
            if not _is_usable_path(path):
                raise InvalidParams("A directory has neither NUL nor lone surrogates in its path")
        for server in self.mcp_servers:
            if not _is_usable_path(getattr(server, "command", "")):
                raise InvalidParams("A program has neither NUL nor lone surrogates in its path")

    def is_in(self, cwd: str) -> bool:
        """Tell whether the session is to work in a directory, however that is written."""
        return os.path.normpath(cwd) == os.path.normpath(self.cwd)

    def directories(self) -> tuple[str, ...]:
        """Return the directories that files may be in, each once (R-DIR-05)."""
        return tuple(dict.fromkeys((self.cwd, *self.additional_directories)))


def _is_absolute(path: str) -> bool:
    # Of whatever system: a client may run elsewhere.
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")


def _is_usable_path(text: str) -> bool:
    """Return whether the system takes a text as a path: no NUL, no lone surrogate."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


class SessionManager:
    """Opens, finds and closes the sessions of one client."""

    def __init__(self, agent: Agent, *, max_sessions: int = _MAX_SESSIONS) -> None:
        self._max_sessions = max_sessions
        self._opening = 0  # sessions that are being opened
        self._client_adapter: ClientAdapter | None = None
        self._make_client_adapter: Callable[[], ClientAdapter] | None = None  # from `initialize` on
        self.agent = agent
        self.sessions: dict[str, Session] = {}
        self.subagents: dict[str, SubagentHandle] = {}
        self.client = ConnectedClient(self)
        # The last report of who is logged in; None for clients that never asked for one.
        self.last_auth_status: tuple[AuthState, tuple[AuthAccount, ...]] | None = None

    @cached_property
    def log(self) -> SessionLog | None:
        """The agent's store, where it has one; `initialize` does without."""
        if self.agent.store is None:
            return None
        from accord.agent.store.session_log import SessionLog

        return SessionLog(self.agent.store)

    def set_client_adapter(self, make_client_adapter: Callable[[], ClientAdapter]) -> None:
        """Speak to the client in this way from now on."""
        self._make_client_adapter, self._client_adapter = make_client_adapter, None
        for session in self.sessions.values():
            session.client_adapter = self.client_adapter

    @property
    def client_adapter(self) -> ClientAdapter:
        """The client, to speak to."""
        if self._client_adapter is None:
            assert self._make_client_adapter is not None, "initialize has been answered"
            self._client_adapter = self._make_client_adapter()
        return self._client_adapter

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` has been answered."""
        return self._make_client_adapter is not None

    async def send_auth_status(self, state: AuthState, accounts: tuple[AuthAccount, ...]) -> None:
        """Say who is logged in, to a client that has asked and does not know it (R-ASTAT-06)."""
        if self.last_auth_status not in (None, (state, accounts)):
            self.last_auth_status = state, accounts
            await self.client_adapter.send_auth_status(state, accounts)

    def session(self, session_id: str) -> Session:
        """Return an open session (R-SESS-37)."""
        try:
            return self.sessions[session_id]
        except KeyError:
            raise ResourceNotFound(data={"sessionId": session_id}) from None

    def find(self, session_id: str) -> Session:
        """Return an open session or a subagent."""
        return self.subagents.get(session_id) or self.session(session_id)

    async def new_session(self, setup: SessionSetup) -> Session:
        """Create a session."""
        self.agent.check_auth()  # R-AUTH-11
        setup.check()
        session_id = f"session-{os.urandom(12).hex()}"
        with self._reserve_slot():
            if self.log is not None:
                await self.log.create(session_id, setup.cwd, setup.additional_directories)
            try:
                return await self._open(self._session(session_id, setup))
            except BaseException:
                if self.log is not None:
                    await self.log.delete(session_id)
                raise

    @contextmanager
    def _reserve_slot(self) -> Generator[None]:
        """Keep a place for a session that is being opened; raise `InvalidRequest` if all are taken.

        A client that opens sessions without end would take all memory.
        """
        most = self._max_sessions
        if len(self.sessions) + self._opening >= most:
            message = f"This connection has {most} open sessions, the limit: close one first"
            raise InvalidRequest(message, data={"limit": most})
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    def _session(self, session_id: str, setup: SessionSetup, *, first: int = 0) -> Session:
        from accord.agent.session import Session

        return Session(
            session_id,
            self,
            cwd=setup.cwd,
            directories=setup.directories(),
            mcp_servers=setup.mcp_servers,
            system_prompt=setup.system_prompt,
            first_number=first,
            write=None if self.log is None else self.log.writer(session_id),
            read_history=None if self.log is None else partial(self.log.history, session_id),
        )

    async def _open(self, session: Session, stored: Sequence[SessionOption] = ()) -> Session:
        await self.agent.open_session(session)
        session.restore_options(stored)
        self.sessions[session.id] = self.agent.sessions[session.id] = session
        session.is_open = True
        return session

    async def resume(self, session_id: str, setup: SessionSetup, *, replay: bool) -> Session:
        """Go on with a session, after a replay if wanted."""
        self.agent.check_auth()
        setup.check()
        if self.log is None:
            return self.session(session_id)  # nothing is retained of it
        async with self.agent.session_lock(session_id):
            return await self._resume(self.log, session_id, setup, replay=replay)

    async def _resume(
        self, kept: SessionLog, session_id: str, setup: SessionSetup, *, replay: bool
    ) -> Session:
        stored = await kept.find(session_id)
        if not setup.is_in(stored.cwd):
            # R-SESS-05, R-SESS-35
            raise InvalidParams("The session works elsewhere", data={"cwd": stored.cwd})
        session = self.sessions.get(session_id)
        if session is None:
            await self._close_elsewhere(session_id)
        if session is None:
            with self._reserve_slot():
                loaded = await kept.load(session_id)
                session = self._session(session_id, setup, first=loaded.count)
                session.title, session.title_set_by_user = stored.title, stored.title_is_users
                await self._open(session, loaded.options)
            if replay:
                async with session.hold_updates():
                    await self._replay(session, loaded)
            return session
        if setup.system_prompt is not None:
            session.system_prompt = setup.system_prompt
        if replay:
            async with session.hold_updates():  # nothing is shown both as history and as news
                await self._replay(session, await kept.load(session_id))
        return session

    async def _replay(self, session: Session, loaded: LoadedSession) -> None:
        runs = bool(session.turn_queue or session.open_tool_calls)
        async with aclosing(loaded.updates(running=runs)) as reports:
            async for report in reports:
                await self.client_adapter.send_update(session.id, report)

    def subagent(self, owner: SessionActions, title: str, **details: Any) -> SubagentHandle:
        """Return a session inside of another; `details` as `SessionActions.subagent` has them."""
        from accord.agent.subagent import SubagentHandle

        return SubagentHandle(owner, title, **details)

    async def fork(self, session_id: str, setup: SessionSetup) -> Session:
        """Open a new session that begins as a copy of another."""
        self.agent.check_auth()
        setup.check()
        kept = self._required_log
        copy = f"session-{os.urandom(12).hex()}"
        with self._reserve_slot():
            stored = await kept.fork(session_id, copy, setup.cwd, setup.additional_directories)
            try:
                loaded = await kept.load(copy)
                session = self._session(copy, setup, first=loaded.count)
                session.title = stored.title
                return await self._open(session, loaded.options)
            except BaseException:
                await kept.delete(copy)
                raise

    async def delete(self, session_id: str) -> None:
        """Forget a session for good; one that is not there is no error (R-LIST-14)."""
        async with self.agent.session_lock(session_id):
            await self._close_elsewhere(session_id)
            await self._required_log.delete(session_id)

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Put a session away, closing it first, or take it out again."""
        async with self.agent.session_lock(session_id):
            await self._required_log.find(session_id)
            if archived:
                await self._close_elsewhere(session_id)  # R-ARCH-04
            await self._required_log.archive(session_id, archived=archived)

    async def status(self, session_id: str) -> Literal["open", "saved"]:
        """Return whether a session is in memory, on whatever connection (R-STATUS-03)."""
        if session_id in self.agent.sessions:
            return "open"
        await self._required_log.find(session_id)
        return "saved"

    async def set_title(self, session_id: str, title: str) -> str:
        """Store a title that the user gave; return it as it was stored."""
        title = " ".join(title.split())
        if not title:
            raise InvalidParams("A title must not be empty")  # R-TITLE-03
        await self._required_log.set_title(session_id, title)
        if (session := self.agent.sessions.get(session_id)) is not None:
            session.title, session.title_set_by_user = title, True
        return title

    async def list(
        self, *, cwd: str | None, archived: str | None, cursor: str | None
    ) -> SessionPage:
        """Return a page of the stored sessions; raise `InvalidParams` for what it cannot mean."""
        return await self._required_log.list(cwd=cwd, archived=archived, cursor=cursor)

    @property
    def _required_log(self) -> SessionLog:
        assert self.log is not None, "offered with a store alone"
        return self.log

    async def _close_elsewhere(self, session_id: str) -> None:
        """Close a session wherever it is open: two connections must not write to one log."""
        session = self.agent.sessions.get(session_id)
        if session is None:
            return
        if session.manager is not self and session.client_adapter.shows_notices:
            with suppress(TransportError):  # it has just gone
                await session.show_notice("The session goes on elsewhere", severity="warning")
        await session.manager._close_locked(session)  # noqa: SLF001  # the manager itself

    def send_commands(self, session: Session) -> None:
        """Send the commands once the client knows of the session."""
        from accord.agent.updates import CommandsUpdate

        if session.commands:
            report = CommandsUpdate(session.commands)
            self.client_adapter.spawn(self.client_adapter.send_update(session.id, report))

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Take the user's choice; raise `InvalidParams` for one that there is not."""
        from accord.agent.updates import OptionsUpdate

        session.validate_option(option_id, value)  # R-CONF-11
        await self.agent.set_option(session, option_id, value)
        session.apply_option(option_id, value)
        await session.store_update(OptionsUpdate(session.options))

    def start_turn(
        self, session_id: str, content: tuple[ContentBlock, ...], meta: dict[str, Any] | None
    ) -> TurnRunner:
        """Return the turn of a prompt, not yet queued; raise for what cannot be prompted."""
        from accord.agent.turn_runner import TurnRunner

        if (known := self.sessions.get(session_id)) is None:
            self.agent.check_auth()
        else:
            self.agent.check_prompt_auth(known)
        session = self.session(session_id)
        if not content:
            raise InvalidParams("A prompt must not be empty")
        for part in content:
            if (kind := _capability_for(part)) not in (None, *self.agent.prompt_capabilities):
                raise InvalidParams("The prompt holds what was not offered", data={"type": kind})
        return TurnRunner(session, content, meta)

    async def close(self, session_id: str) -> None:
        """Cancel what runs in a session and free it."""
        session = self.session(session_id)
        async with self.agent.session_lock(session_id):
            await self._close_locked(session)

    async def _close_locked(self, session: Session) -> None:
        """See `close`; the session's lock is held."""
        if self.sessions.pop(session.id, None) is None:
            return  # somebody was faster
        self.client_adapter.cancel_prompts(session.id)
        for course in tuple(session.turn_queue):
            course.turn.cancel()
        try:
            async with asyncio.timeout(STOP_S):
                for course in tuple(session.turn_queue):
                    await course.finished.wait()
        except TimeoutError:
            log.error("! a turn of session %s does not stop when cancelled", session.id)
        await session.background_work.stop()  # R-SESS-33
        await self._release(session)

    async def _release(self, session: Session) -> None:
        session.closed = True
        session.client_adapter.drop_session(session.id)
        self.agent.sessions.pop(session.id, None)
        await self.agent.close_session(session)

    async def aclose(self) -> None:
        """Free all sessions; the client has gone."""
        for session in tuple(self.sessions.values()):
            try:
                async with self.agent.session_lock(session.id):
                    if self.sessions.pop(session.id, None) is not None:
                        await session.background_work.stop()
                        await self._release(session)
            except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                log.exception("! closing session %s failed", session.id)


def managers_of(agent: object) -> set[SessionManager]:
    """Return what serves the connections of an agent."""
    return vars(agent).setdefault("_hosts", set())


def _capability_for(part: ContentBlock) -> str | None:
    from accord.types.content import AudioContent, EmbeddedResource, ImageContent, Other

    match part:
        case ImageContent():
            return "image"
        case AudioContent():
            return "audio"
        case EmbeddedResource():
            return "resource"
        case Other():
            return "unknown"
        case _:
            return None
