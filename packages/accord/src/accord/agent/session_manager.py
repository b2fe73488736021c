"""Opens, finds and closes the sessions of one connection, in either version."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from accord.agent.background import STOP_S
from accord.agent.hooks import is_default
from accord.agent.mcp_connections import mcp_connections
from accord.agent.registry import registry_of
from accord.agent.session import ConnectedClient, Session
from accord.agent.session_core import SessionCore
from accord.agent.toolbox import Toolbox
from accord.agent.turn_runner import TurnRunner
from accord.agent.updates import CommandsUpdate, NoticeUpdate, OptionsUpdate
from accord.errors import InvalidParams, InvalidRequest, ResourceNotFound, TransportError
from accord.mcp.consumer import McpConsumer
from accord.types.content import AudioContent, EmbeddedResource, ImageContent, Other

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.hooks import AgentHooks
    from accord.agent.session_setup import SessionSetup
    from accord.agent.store.base import SessionPage
    from accord.agent.store.session_writer import SessionWriter
    from accord.agent.store.stored_sessions import LoadedSession, StoredSessions
    from accord.mcp.consumer_connections import McpConnections
    from accord.types.content import ContentBlock
    from accord.types.session import AuthAccount, AuthState, SessionOption


log: logging.Logger = logging.getLogger("accord.agent")

_MAX_SESSIONS = 10_000
_TAKEN_OVER = "This session was opened in another client"


class _Slot:
    """Counts a session while it is being opened."""

    __slots__ = ("_manager",)

    def __init__(self, manager: SessionManager) -> None:
        self._manager = manager

    def __enter__(self) -> None:
        self._manager.opening += 1

    def __exit__(self, *_: object) -> None:
        self._manager.opening -= 1


class SessionManager:
    """The sessions of one connection: `cores` and `sessions` have the same ids."""

    def __init__(
        self,
        agent: AgentHooks,
        adapter: ClientAdapter,
        stored_sessions: StoredSessions | None,
        *,
        max_sessions: int = _MAX_SESSIONS,
        principal: str | None = None,
    ) -> None:
        self.agent = agent
        self.client_adapter = adapter
        self.stored_sessions = stored_sessions
        self.cores: dict[str, SessionCore] = {}
        self.sessions: dict[str, Session] = {}
        self.subagents: dict[str, SessionCore] = {}
        self.client: ConnectedClient = ConnectedClient(
            lambda: self.client_adapter, self.sessions, principal
        )
        # What the client last received; None if it has never asked for the auth status.
        self.last_auth_status: tuple[AuthState, tuple[AuthAccount, ...]] | None = None
        self._registry = registry_of(agent)
        self._taken_over: set[str] = set()  # sessions that were open here
        self._max_sessions = max_sessions
        self._principal = principal
        self.opening = 0  # sessions that are being opened
        # `new_session` waits for nothing: no store, and no `open_session` but the empty one.
        self.opens_at_once: bool = stored_sessions is None and is_default(agent, "open_session")

    @cached_property
    def mcp(self) -> McpConsumer:
        """What calls the MCP servers of the client."""
        return McpConsumer(
            lambda request, settled: self.client_adapter.message_mcp(request, settled)
        )

    def set_client_adapter(self, adapter: ClientAdapter) -> None:
        """Use another adapter from now on: the client has repeated `initialize`."""
        self.client_adapter: ClientAdapter = adapter
        for core in self.cores.values():
            core.set_client_adapter(adapter)

    async def send_auth_status(self, state: AuthState, accounts: tuple[AuthAccount, ...]) -> None:
        """Send the auth status to a client that has asked for it, if it changed (R-ASTAT-06)."""
        if self.last_auth_status not in (None, (state, accounts)):
            self.last_auth_status = state, accounts
            await self.client_adapter.send_auth_status(state, accounts)

    def session(self, session_id: str) -> SessionCore:
        """Return an open session; raise `ResourceNotFound` for any other (R-SESS-37)."""
        try:
            return self.cores[session_id]
        except KeyError:
            raise self._not_found(session_id) from None

    def _not_found(self, session_id: str) -> ResourceNotFound:
        message = _TAKEN_OVER if session_id in self._taken_over else None
        return ResourceNotFound(message, data={"sessionId": session_id})

    def find(self, session_id: str) -> SessionCore:
        """Return an open session or a subagent."""
        return self.subagents.get(session_id) or self.session(session_id)

    def open_anywhere(self, session_id: str) -> SessionCore | None:
        """Return a session that is open on this or another connection of the agent."""
        owner = self._registry.owners.get(session_id)
        return None if owner is None else owner.session(session_id)

    # Opening.

    async def new_session(self, setup: SessionSetup) -> SessionCore:
        """Create a session."""
        self.agent.check_auth()  # R-AUTH-11
        setup.check()
        session_id = f"session-{os.urandom(12).hex()}"
        with self._reserve_slot():
            if self.stored_sessions is None:
                return await self._open(self._make_core(session_id, setup))
            await self.stored_sessions.create(session_id, setup.cwd, setup.additional_directories)
            try:
                async with self._writer(session_id) as writer:
                    return await self._open(self._make_core(session_id, setup, writer))
            except BaseException:
                await self.stored_sessions.delete(session_id)
                raise

    def _reserve_slot(self) -> _Slot:
        """Count a session that is being opened; raise `InvalidRequest` if there are too many.

        A client that keeps opening sessions would otherwise take all memory.
        """
        limit = self._max_sessions
        if len(self.cores) + self.opening >= limit:
            message = f"This connection has {limit} open sessions, the limit: close one first"
            raise InvalidRequest(message, data={"limit": limit})
        return _Slot(self)

    @asynccontextmanager
    async def _writer(self, session_id: str) -> AsyncGenerator[SessionWriter, None]:
        """Become the writer of a stored session, unless the block fails to open it."""
        writer = await self._required_sessions.writer(session_id, partial(self._lose, session_id))
        try:
            yield writer
        except BaseException:
            await writer.release()
            raise

    def _lose(self, session_id: str) -> None:
        """Close a session that another server opens."""

        async def close() -> None:
            async with self._registry.lock(session_id):
                await self.close_locked(session_id, taken_over=True, is_lost=True)

        if session_id in self.sessions:
            self.client_adapter.spawn(close())

    def _make_core(
        self,
        session_id: str,
        setup: SessionSetup,
        writer: SessionWriter | None = None,
        *,
        first_number: int = 0,
    ) -> SessionCore:
        return SessionCore(
            session_id,
            self.client_adapter,
            self.agent.decide_permission,
            self.subagents,
            cwd=setup.cwd,
            directories=setup.directories(),
            mcp_servers=setup.mcp_servers,
            make_mcp_connections=self._mcp_connections,
            system_prompt=setup.system_prompt,
            first_number=first_number,
            writer=writer,
            read_history=None
            if self.stored_sessions is None
            else partial(self.stored_sessions.history, session_id),
        )

    def _mcp_connections(self, core: SessionCore) -> McpConnections:
        return mcp_connections(self.agent, core.mcp_servers, core.cwd, self.mcp)

    async def _open(
        self, core: SessionCore, stored_options: Sequence[SessionOption] = ()
    ) -> SessionCore:
        session = Session(core, self.client, self.agent, Toolbox)
        try:
            await self.agent.open_session(session)
        except BaseException:
            await core.disconnect_mcp()
            raise
        core.restore_options(stored_options)
        self._taken_over.discard(core.id)
        self.cores[core.id] = core
        self.sessions[core.id] = session
        self._registry.add(session, self)
        core.is_open = True
        return core

    async def resume(self, session_id: str, setup: SessionSetup, *, replay: bool) -> SessionCore:
        """Open a stored session, after sending its history if `replay`."""
        self.agent.check_auth()
        setup.check()
        if self.stored_sessions is None:
            core = self.session(session_id)  # only open ones exist
            await core.set_mcp_servers(setup.mcp_servers)
            return core
        async with self._registry.lock(session_id):
            return await self._resume(self.stored_sessions, session_id, setup, replay=replay)

    async def _resume(
        self, stored_sessions: StoredSessions, session_id: str, setup: SessionSetup, *, replay: bool
    ) -> SessionCore:
        stored = await stored_sessions.find(session_id)
        if not setup.is_in(stored.cwd):
            # R-SESS-05, R-SESS-35: a session does not move to another directory
            raise InvalidParams("The session works elsewhere", data={"cwd": stored.cwd})
        core = self.cores.get(session_id)
        if core is None:
            await self._close_elsewhere(session_id)
            with self._reserve_slot():
                async with self._writer(session_id) as writer:
                    loaded = await stored_sessions.load(session_id, replay=replay)
                    core = self._make_core(session_id, setup, writer, first_number=loaded.count)
                    core.title, core.title_set_by_user = stored.title, stored.title_is_users
                    await self._open(core, loaded.options)
            if replay:
                async with core.hold_updates():
                    await self._replay(core, loaded)
            return core
        await core.set_mcp_servers(setup.mcp_servers)
        if setup.system_prompt is not None:
            core.system_prompt = setup.system_prompt
        if replay:
            async with core.hold_updates():  # each update is sent once: as history or as news
                await self._replay(core, await stored_sessions.load(session_id))
        return core

    async def _replay(self, core: SessionCore, loaded: LoadedSession) -> None:
        running = bool(core.turn_queue or core.open_tool_calls)
        async with aclosing(loaded.updates(running=running)) as updates:
            async for update in updates:
                await self.client_adapter.send_update(core.id, update)

    async def fork(self, session_id: str, setup: SessionSetup) -> SessionCore:
        """Open a new session that starts as a copy of another."""
        self.agent.check_auth()
        setup.check()
        stored_sessions = self._required_sessions
        copy_id = f"session-{os.urandom(12).hex()}"
        with self._reserve_slot():
            stored = await stored_sessions.fork(
                session_id, copy_id, setup.cwd, setup.additional_directories
            )
            try:
                async with self._writer(copy_id) as writer:
                    loaded = await stored_sessions.load(copy_id, replay=False)
                    core = self._make_core(copy_id, setup, writer, first_number=loaded.count)
                    core.title = stored.title
                    return await self._open(core, loaded.options)
            except BaseException:
                await stored_sessions.delete(copy_id)
                raise

    # Stored sessions.

    @property
    def _required_sessions(self) -> StoredSessions:
        assert self.stored_sessions is not None, "advertised only with a store"
        return self.stored_sessions

    async def delete(self, session_id: str) -> None:
        """Delete a session; do nothing if it does not exist (R-LIST-14: not an error)."""
        async with self._registry.lock(session_id):
            if self._principal is not None:
                try:
                    await self._required_sessions.find(session_id)
                except ResourceNotFound:
                    return
            await self._close_elsewhere(session_id)
            await self._required_sessions.delete(session_id)

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Archive or unarchive a session."""
        async with self._registry.lock(session_id):
            await self._required_sessions.find(session_id)
            if archived:
                await self._close_elsewhere(session_id)  # R-ARCH-04: an archived one is closed
            await self._required_sessions.archive(session_id, archived=archived)

    async def status(self, session_id: str) -> Literal["open", "saved"]:
        """Return whether a session is open, on any connection and server (R-STATUS-03)."""
        if self._principal is None and session_id in self._registry.sessions:
            return "open"
        stored_sessions = self._required_sessions
        await stored_sessions.find(session_id)
        if session_id in self._registry.sessions or await stored_sessions.is_owned(session_id):
            return "open"
        return "saved"

    async def set_title(self, session_id: str, title: str) -> str:
        """Store a title that the user has set; return it as stored."""
        title = " ".join(title.split())
        if not title:
            raise InvalidParams("A title must not be empty")  # R-TITLE-03
        await self._required_sessions.set_title(session_id, title)
        if (owner := self._registry.owners.get(session_id)) is not None:
            owner.set_users_title(session_id, title)
        return title

    def set_users_title(self, session_id: str, title: str) -> None:
        """Set the title of an open session; the agent can no longer change it."""
        core = self.cores[session_id]
        core.title, core.title_set_by_user = title, True

    async def list(
        self, *, cwd: str | None, archived: str | None, cursor: str | None
    ) -> SessionPage:
        """Return a page of the stored sessions; raise `InvalidParams` for an invalid filter."""
        return await self._required_sessions.list(cwd=cwd, archived=archived, cursor=cursor)

    # Using.

    def send_commands(self, core: SessionCore) -> None:
        """Send the commands once the client knows the session."""
        if core.commands:
            self.client_adapter.spawn(
                self.client_adapter.send_update(core.id, CommandsUpdate(core.commands))
            )

    async def set_option(self, core: SessionCore, option_id: str, value: str | bool) -> None:
        """Set an option; raise `InvalidParams` for an unknown option or value."""
        core.validate_option(option_id, value)  # R-CONF-11
        await self.agent.set_option(self.sessions[core.id], option_id, value)
        core.set_option_without_update(option_id, value)
        await core.store_update(OptionsUpdate(core.options))

    def start_turn(
        self, session_id: str, content: tuple[ContentBlock, ...], meta: dict[str, Any] | None
    ) -> TurnRunner:
        """Return the turn of a prompt, not yet queued; raise `RequestError` for an invalid one."""
        session = self.sessions.get(session_id)
        if session is None:
            self.agent.check_auth()
            raise self._not_found(session_id)
        self.agent.check_prompt_auth(session)
        if not content:
            raise InvalidParams("A prompt must not be empty")
        for part in content:
            if (kind := _capability_for(part)) not in (None, *self.agent.prompt_capabilities):
                raise InvalidParams("The prompt holds what was not offered", data={"type": kind})
        return TurnRunner(self.agent, session, self.cores[session_id], content, meta)

    # Closing.

    async def close(self, session_id: str) -> None:
        """Cancel what runs in a session and release it."""
        self.session(session_id)
        async with self._registry.lock(session_id):
            await self.close_locked(session_id)

    async def _close_elsewhere(self, session_id: str) -> None:
        """Close a session wherever it is open: two connections must not write to one log."""
        if (owner := self._registry.owners.get(session_id)) is not None:
            await owner.close_locked(session_id, taken_over=owner is not self)

    async def close_locked(
        self, session_id: str, *, taken_over: bool = False, is_lost: bool = False
    ) -> None:
        """See `close`; the caller holds the lock. The client is notified if `taken_over`.

        `is_lost`: another server has it now, or will have it.
        """
        session = self.sessions.get(session_id)
        if session is None:
            return
        if taken_over and self.client_adapter.shows_notices:
            notice = NoticeUpdate("warning", _TAKEN_OVER)
            with suppress(TransportError):  # the client has just disconnected
                # Not by the session: its store may refuse everything now.
                await self.client_adapter.send_update(session_id, notice)
        core = self.cores.pop(session_id, None)
        if core is None:
            return  # closed by another task while the notice was sent
        del self.sessions[session_id]
        if taken_over:
            self._taken_over.add(session_id)
        if not is_lost or self.client_adapter.version != 1:
            # In version 1 the response to a prompt has to report that the session is lost.
            self.client_adapter.cancel_prompts(session_id)
        turns = tuple(core.turn_queue)
        for turn in turns:
            turn.cancel()
        try:
            async with asyncio.timeout(STOP_S):
                for turn in turns:
                    await turn.finished.wait()
        except TimeoutError:
            log.error("! a turn of session %s does not stop when cancelled", session_id)
        await core.background.stop()  # R-SESS-33
        await self._release(core, session)

    async def _release(self, core: SessionCore, session: Session) -> None:
        core.close()
        self.client_adapter.drop_session(core.id)
        self._registry.remove(core.id)
        try:
            await self.agent.close_session(session)
        finally:
            try:
                await core.disconnect_mcp()
            finally:
                await core.release()

    async def aclose(self) -> None:
        """Release all sessions; the client has disconnected."""
        for session_id, session in tuple(self.sessions.items()):
            try:
                async with self._registry.lock(session_id):
                    core = self.cores.pop(session_id, None)
                    if core is not None:
                        self.sessions.pop(session_id, None)
                        await core.background.stop()
                        await self._release(core, session)
            except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                log.exception("! closing session %s failed", session_id)


def _capability_for(part: ContentBlock) -> str | None:
    """Return the prompt capability that a content block needs."""
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
