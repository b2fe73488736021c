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
    from accord.agent.client_adapter import Link
    from accord.agent.session import Session
    from accord.agent.session_actions import Verbs
    from accord.agent.store.base import Page
    from accord.agent.store.session_log import Kept, Loaded
    from accord.agent.subagent import Subagent
    from accord.agent.turn_runner import Course
    from accord.types.auth import Account, LoginState
    from accord.types.content import Content
    from accord.types.mcp import McpServer
    from accord.types.session import SessionOption, SystemPrompt

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("Host", "Setup", "hosts_of")

log = logging.getLogger("accord.agent")

_MOST_SESSIONS = 10_000


class Setup(Struct, frozen=True, kw_only=True):
    """What a client gives a session when it opens it; directories are absolute paths."""

    cwd: str
    additional: Sequence[str] = ()
    mcp_servers: Sequence[McpServer] = ()
    system_prompt: SystemPrompt | None = None

    def check(self) -> None:
        """Raise `InvalidParams` for a directory that is not absolute (R-SESS-03, R-DIR-06)."""
        for path in (self.cwd, *self.additional):
            if not _is_absolute(path):
                raise InvalidParams("Directories must be absolute paths", data={"path": path})
            if not _is_path(path):
                raise InvalidParams("A directory has neither NUL nor lone surrogates in its path")
        for server in self.mcp_servers:
            if not _is_path(getattr(server, "command", "")):
                raise InvalidParams("A program has neither NUL nor lone surrogates in its path")

    def is_in(self, cwd: str) -> bool:
        """Tell whether the session is to work in a directory, however that is written."""
        return os.path.normpath(cwd) == os.path.normpath(self.cwd)

    def roots(self) -> tuple[str, ...]:
        """Return the directories that files may be in, each once (R-DIR-05)."""
        return tuple(dict.fromkeys((self.cwd, *self.additional)))


def _is_absolute(path: str) -> bool:
    # Of whatever system: a client may run elsewhere.
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")


def _is_path(text: str) -> bool:
    """Return whether the system takes a text as a path: no NUL, no lone surrogate."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


class Host:
    """Opens, finds and closes the sessions of one client."""

    def __init__(self, agent: Agent, *, most_sessions: int = _MOST_SESSIONS) -> None:
        self._most_sessions = most_sessions
        self._opening = 0  # sessions that are being opened
        self._link: Link | None = None
        self._make_link: Callable[[], Link] | None = None  # from `initialize` on
        self.agent = agent
        self.sessions: dict[str, Session] = {}
        self.children: dict[str, Subagent] = {}
        self.client = ConnectedClient(self)
        # The last report of who is logged in; None for clients that never asked for one.
        self.told_login: tuple[LoginState, tuple[Account, ...]] | None = None

    @cached_property
    def kept(self) -> Kept | None:
        """The agent's store, where it has one; `initialize` does without."""
        if self.agent.store is None:
            return None
        from accord.agent.store.session_log import Kept

        return Kept(self.agent.store)

    def settle(self, make_link: Callable[[], Link]) -> None:
        """Speak to the client in this way from now on."""
        self._make_link, self._link = make_link, None
        for session in self.sessions.values():
            session.link = self.link

    @property
    def link(self) -> Link:
        """The client, to speak to."""
        if self._link is None:
            assert self._make_link is not None, "initialize has been answered"
            self._link = self._make_link()
        return self._link

    @property
    def is_settled(self) -> bool:
        """Whether `initialize` has been answered."""
        return self._make_link is not None

    async def tell_login(self, state: LoginState, accounts: tuple[Account, ...]) -> None:
        """Say who is logged in, to a client that has asked and does not know it (R-ASTAT-06)."""
        if self.told_login not in (None, (state, accounts)):
            self.told_login = state, accounts
            await self.link.logged_in(state, accounts)

    def session(self, session_id: str) -> Session:
        """Return an open session (R-SESS-37)."""
        try:
            return self.sessions[session_id]
        except KeyError:
            raise ResourceNotFound(data={"sessionId": session_id}) from None

    def find(self, session_id: str) -> Session:
        """Return an open session or a subagent."""
        return self.children.get(session_id) or self.session(session_id)

    async def new_session(self, setup: Setup) -> Session:
        """Create a session."""
        self.agent.authorize()  # R-AUTH-11
        setup.check()
        session_id = f"session-{os.urandom(12).hex()}"
        with self._place():
            if self.kept is not None:
                await self.kept.create(session_id, setup.cwd, setup.additional)
            try:
                return await self._open(self._session(session_id, setup))
            except BaseException:
                if self.kept is not None:
                    await self.kept.delete(session_id)
                raise

    @contextmanager
    def _place(self) -> Generator[None]:
        """Keep a place for a session that is being opened; raise `InvalidRequest` if all are taken.

        A client that opens sessions without end would take all memory.
        """
        most = self._most_sessions
        if len(self.sessions) + self._opening >= most:
            message = f"This connection has {most} open sessions, the limit: close one first"
            raise InvalidRequest(message, data={"limit": most})
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    def _session(self, session_id: str, setup: Setup, *, first: int = 0) -> Session:
        from accord.agent.session import Session

        return Session(
            session_id,
            self,
            cwd=setup.cwd,
            roots=setup.roots(),
            mcp_servers=setup.mcp_servers,
            system_prompt=setup.system_prompt,
            first=first,
            record=None if self.kept is None else self.kept.recorder(session_id),
            read=None if self.kept is None else partial(self.kept.history, session_id),
        )

    async def _open(self, session: Session, stored: Sequence[SessionOption] = ()) -> Session:
        await self.agent.open_session(session)
        session.take_stored(stored)
        self.sessions[session.id] = self.agent.open_sessions[session.id] = session
        session.is_open = True
        return session

    async def resume(self, session_id: str, setup: Setup, *, replay: bool) -> Session:
        """Go on with a session, after a replay if wanted."""
        self.agent.authorize()
        setup.check()
        if self.kept is None:
            return self.session(session_id)  # nothing is retained of it
        async with self.agent.session_lock(session_id):
            return await self._resume(self.kept, session_id, setup, replay=replay)

    async def _resume(self, kept: Kept, session_id: str, setup: Setup, *, replay: bool) -> Session:
        stored = await kept.find(session_id)
        if not setup.is_in(stored.cwd):
            # R-SESS-05, R-SESS-35
            raise InvalidParams("The session works elsewhere", data={"cwd": stored.cwd})
        session = self.sessions.get(session_id)
        if session is None:
            await self._take_away(session_id)
        if session is None:
            with self._place():
                loaded = await kept.load(session_id)
                session = self._session(session_id, setup, first=loaded.count)
                session.title_now, session.title_is_users = stored.title, stored.title_is_users
                await self._open(session, loaded.options)
            if replay:
                async with session.quiet():
                    await self._replay(session, loaded)
            return session
        if setup.system_prompt is not None:
            session.system_prompt = setup.system_prompt
        if replay:
            async with session.quiet():  # nothing is shown both as history and as news
                await self._replay(session, await kept.load(session_id))
        return session

    async def _replay(self, session: Session, loaded: Loaded) -> None:
        runs = bool(session.turns or session.tools)
        async with aclosing(loaded.reports(running=runs)) as reports:
            async for report in reports:
                await self.link.show(session.id, report)

    def subagent(self, owner: Verbs, title: str, **details: Any) -> Subagent:
        """Return a session inside of another; `details` as `Verbs.subagent` has them."""
        from accord.agent.subagent import Subagent

        return Subagent(owner, title, **details)

    async def fork(self, session_id: str, setup: Setup) -> Session:
        """Open a new session that begins as a copy of another."""
        self.agent.authorize()
        setup.check()
        kept = self._kept
        copy = f"session-{os.urandom(12).hex()}"
        with self._place():
            stored = await kept.fork(session_id, copy, setup.cwd, setup.additional)
            try:
                loaded = await kept.load(copy)
                session = self._session(copy, setup, first=loaded.count)
                session.title_now = stored.title
                return await self._open(session, loaded.options)
            except BaseException:
                await kept.delete(copy)
                raise

    async def delete(self, session_id: str) -> None:
        """Forget a session for good; one that is not there is no error (R-LIST-14)."""
        async with self.agent.session_lock(session_id):
            await self._take_away(session_id)
            await self._kept.delete(session_id)

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Put a session away, closing it first, or take it out again."""
        async with self.agent.session_lock(session_id):
            await self._kept.find(session_id)
            if archived:
                await self._take_away(session_id)  # R-ARCH-04
            await self._kept.archive(session_id, archived=archived)

    async def status(self, session_id: str) -> Literal["open", "saved"]:
        """Return whether a session is in memory, on whatever connection (R-STATUS-03)."""
        if session_id in self.agent.open_sessions:
            return "open"
        await self._kept.find(session_id)
        return "saved"

    async def set_title(self, session_id: str, title: str) -> str:
        """Store a title that the user gave; return it as it was stored."""
        title = " ".join(title.split())
        if not title:
            raise InvalidParams("A title must not be empty")  # R-TITLE-03
        await self._kept.set_title(session_id, title)
        if (session := self.agent.open_sessions.get(session_id)) is not None:
            session.title_now, session.title_is_users = title, True
        return title

    async def list(self, *, cwd: str | None, archived: str | None, cursor: str | None) -> Page:
        """Return a page of the stored sessions; raise `InvalidParams` for what it cannot mean."""
        return await self._kept.list(cwd=cwd, archived=archived, cursor=cursor)

    @property
    def _kept(self) -> Kept:
        assert self.kept is not None, "offered with a store alone"
        return self.kept

    async def _take_away(self, session_id: str) -> None:
        """Close a session wherever it is open: two connections must not write to one log."""
        session = self.agent.open_sessions.get(session_id)
        if session is None:
            return
        if session.host is not self and session.link.shows_notices:
            with suppress(TransportError):  # it has just gone
                await session.notice("The session goes on elsewhere", severity="warning")
        await session.host.close_held(session)

    def tell_commands(self, session: Session) -> None:
        """Send the commands once the client knows of the session."""
        from accord.agent.updates import CommandsReport

        if session.commands_now:
            report = CommandsReport(session.commands_now)
            self.link.start(self.link.show(session.id, report))

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Take the user's choice; raise `InvalidParams` for one that there is not."""
        from accord.agent.updates import OptionsReport

        session.check_option(option_id, value)  # R-CONF-11
        await self.agent.set_option(session, option_id, value)
        session.take_option(option_id, value)
        await session.record(OptionsReport(session.options))

    def begin(
        self, session_id: str, content: tuple[Content, ...], meta: dict[str, Any] | None
    ) -> Course:
        """Return the turn of a prompt, not yet queued; raise for what cannot be prompted."""
        from accord.agent.turn_runner import Course

        if (known := self.sessions.get(session_id)) is None:
            self.agent.authorize()
        else:
            self.agent.authorize_prompt(known)
        session = self.session(session_id)
        if not content:
            raise InvalidParams("A prompt must not be empty")
        for part in content:
            if (kind := _kind_to_offer(part)) not in (None, *self.agent.prompt_content):
                raise InvalidParams("The prompt holds what was not offered", data={"type": kind})
        return Course(session, content, meta)

    async def close(self, session_id: str) -> None:
        """Cancel what runs in a session and free it."""
        session = self.session(session_id)
        async with self.agent.session_lock(session_id):
            await self.close_held(session)

    async def close_held(self, session: Session) -> None:
        """See `close`; the session's lock is held."""
        if self.sessions.pop(session.id, None) is None:
            return  # somebody was faster
        self.link.withdraw(session.id)
        for course in tuple(session.turns):
            course.turn.cancel()
        try:
            async with asyncio.timeout(STOP_S):
                for course in tuple(session.turns):
                    await course.finished.wait()
        except TimeoutError:
            log.error("! a turn of session %s does not stop when cancelled", session.id)
        await session.background_work.stop()  # R-SESS-33
        await self._free(session)

    async def _free(self, session: Session) -> None:
        session.closed = True
        session.link.forget(session.id)
        self.agent.open_sessions.pop(session.id, None)
        await self.agent.close_session(session)

    async def aclose(self) -> None:
        """Free all sessions; the client has gone."""
        for session in tuple(self.sessions.values()):
            try:
                async with self.agent.session_lock(session.id):
                    if self.sessions.pop(session.id, None) is not None:
                        await session.background_work.stop()
                        await self._free(session)
            except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                log.exception("! closing session %s failed", session.id)


def hosts_of(agent: object) -> set[Host]:
    """Return what serves the connections of an agent."""
    return vars(agent).setdefault("_hosts", set())


def _kind_to_offer(part: Content) -> str | None:
    from accord.types.content import Audio, Image, Other, Resource

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
