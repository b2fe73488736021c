"""Opens, finds and closes the sessions of one connection, and runs their turns, in either version.

`TurnRunner` runs a turn: queue, wait, store the prompt, call the agent, start the next turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from accord.agent.files_and_terminals import file_failure
from accord.agent.hooks import is_default, registry_of
from accord.agent.session import ConnectedClient, Session, Turn
from accord.agent.session_core import SessionCore
from accord.agent.toolbox import Toolbox
from accord.agent.updates import (
    CommandsUpdate,
    MessageUpdate,
    NoticeUpdate,
    OptionsUpdate,
    TurnEnded,
    TurnError,
)
from accord.agent.work import STOP_S, Delivery, SteeringMessage, TurnState, current_turn
from accord.connection.tasks import ends_process, is_being_cancelled, is_dropped, is_stopped
from accord.errors import (
    AccordError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    RemoteProtocolError,
    RequestError,
    ResourceNotFound,
    TransportError,
)
from accord.installed import install_command
from accord.mcp.consumer import McpConsumer
from accord.text.excerpt import excerpt, one_line
from accord.types.content import AudioContent, EmbeddedResource, ImageContent, Other
from accord.types.mcp import McpServer
from accord.types.session import SystemPrompt
from accord.wire.base import UNSET
from accord.wire.codec import encode

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.hooks import AgentHooks
    from accord.agent.store import SessionPage
    from accord.agent.store.stored_sessions import LoadedSession, SessionWriter, StoredSessions
    from accord.mcp.connections import McpConnections
    from accord.types.content import ContentBlock
    from accord.types.session import AuthAccount, AuthState, SessionOption


# What a client requests for a session that it opens.


class SessionSetup(Struct, frozen=True, kw_only=True):
    """Directories, MCP servers and system prompt of a session; all paths are absolute."""

    cwd: str
    additional_directories: Sequence[str] = ()
    mcp_servers: Sequence[McpServer] = ()
    system_prompt: SystemPrompt | None = None

    def check(self) -> None:
        """Raise `InvalidParams` for an invalid path (R-SESS-03, R-DIR-06: they are absolute)."""
        for path in (self.cwd, *self.additional_directories):
            if not _is_absolute(path):
                raise InvalidParams("Directories must be absolute paths", data={"path": path})
            if not _is_usable_path(path):
                raise InvalidParams("A directory has neither NUL nor lone surrogates in its path")
        for server in self.mcp_servers:
            if not _is_usable_path(getattr(server, "command", "")):
                raise InvalidParams("A program has neither NUL nor lone surrogates in its path")

    def is_in(self, cwd: str) -> bool:
        """Return whether the session works in a directory, compared as normalized paths."""
        return os.path.normpath(cwd) == os.path.normpath(self.cwd)

    def directories(self) -> tuple[str, ...]:
        """Return the directories that files may be in, each once (R-DIR-05)."""
        return tuple(dict.fromkeys((self.cwd, *self.additional_directories)))


def _is_absolute(path: str) -> bool:
    # On any system: the client may run on another machine.
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")


def _is_usable_path(text: str) -> bool:
    """Return whether the system accepts a text as a path: no NUL, no lone surrogate."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


# Connects sessions to their MCP servers. The library `mcp` is imported when the first needs it.


def mcp_connections(
    agent: AgentHooks, servers: Sequence[McpServer], cwd: str, consumer: McpConsumer
) -> McpConnections:
    """Return the connections of a session; raise `ImportError` without the library `mcp`."""
    try:
        from accord.mcp.connections import McpConnections
    except ImportError as exc:
        message = f"MCP servers need the extra: {install_command('mcp')}"
        raise ImportError(message) from exc
    info = agent.info
    name, version = (type(agent).__name__, "0") if info is None else (info.name, info.version)
    return McpConnections(servers, cwd=cwd, consumer=consumer, client_info=(name, version))


# Runs a turn: queue, wait, store the prompt, call the handler, start the next turn.

_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")

log: logging.Logger = logging.getLogger("accord.agent")


class TurnRunner:
    """Runs a turn in its session; the agent sees it as `turn`."""

    def __init__(
        self,
        agent: AgentHooks,
        session: Session,
        core: SessionCore,
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.state: TurnState = TurnState()
        self.turn: Turn = Turn(session, core, self.state, Toolbox, content, meta)
        self.core = core
        self.exit_error: BaseException | None = None  # the caller raises it after sending the end
        self._agent = agent
        self._is_handling = False  # the agent's handler runs
        self._taking = asyncio.Lock()  # messages are taken one after the other
        self._following: set[str] = set()  # messages that were not given to the agent's `steer`

    def enqueue(self) -> None:
        """Append the turn to the queue of its session; start it if it is the first."""
        queue = self.core.turn_queue
        queue.append(self.state)
        self.state.steer, self.state.steering.is_open = self.steer, True
        if queue[0] is self.state:
            self.state.may_start.set()

    async def wait_for_turn(self) -> None:
        """Return when the earlier turns are over; leave the queue if cancelled before that."""
        try:
            await self.state.may_start.wait()
        except asyncio.CancelledError:
            self.dequeue()
            raise

    def dequeue(self) -> None:
        """Leave the queue and start the next turn."""
        queue = self.core.turn_queue
        queue.remove(self.state)
        self.state.finished.set()
        self._end_steering()
        if queue:
            queue[0].may_start.set()

    async def store_prompt(self) -> None:
        """Store the prompt as the user's message; a cancel takes effect after that."""
        core = self.core
        self.state.message_id = core.next_id("message")
        self.state.prompt_id = self.state.message_id
        work = core.store_update(MessageUpdate("user", self.state.message_id, self.turn.content))
        if not core.is_stored:
            await work  # which waits for nothing
        elif await _finished(work):
            self.state.cancelled = True
        core.end_message()

    async def steer(self, content: tuple[ContentBlock, ...]) -> Delivery | None:
        """Store a message of the user for the running turn; return None if it has just ended.

        What is returned is called after the response, so that what the agent says to it follows.
        An agent that overrides `steer` gets it before, since it may refuse it.
        """
        core, agent, steering = self.core, self._agent, self.state.steering
        await self.state.began.wait()  # it is stored after the prompt, and the handler runs
        if not steering.is_open or self.state.cancelled:
            return None
        message = SteeringMessage(core.next_id("message"), content)
        was_taken = False  # by the agent's own `steer`

        async def deliver() -> None:
            if not was_taken:
                steering.add(message)
            steering.end_arrival()

        async def store() -> None:
            async with self._taking:
                await take()

        async def take() -> None:
            nonlocal was_taken
            # A handler that has returned does not look again: then it is a further prompt, and so
            # are those behind it.
            follows = not self._is_handling or not self._following.isdisjoint(steering.waiting())
            if follows or is_default(agent, "steer"):
                self._following.add(message.id)
            else:
                await agent.steer(self.turn, message)
                was_taken = True
            update = MessageUpdate("user", message.id, message.content)
            core.end_message()
            # As with prompts: a client of version 1 knows what its user has said.
            is_known = core.client_adapter.version == 1
            await (core.store_update(update) if is_known else core.publish(update))
            core.end_message()

        steering.begin_arrival()
        try:
            await _finished(store())
        except BaseException:
            steering.end_arrival()
            raise
        return deliver

    async def run(self) -> TurnEnded:
        """Call the agent's handler; return how the turn ended, which is stored, not yet sent."""
        state, core = self.state, self.core
        state.task = asyncio.current_task()
        current_turn.set(state)
        ended = TurnEnded("cancelled") if state.cancelled else await self._work()
        if state.cancelled or is_stopped() or ended.stop_reason == "cancelled":
            ended = TurnEnded("cancelled")
            await self._absorb_cancel()
        state.task = None
        state.is_over = True
        if self.turn.token_usage is not None and self._agent.unstable:
            ended = replace(ended, tokens=self.turn.token_usage)
        core.end_message()
        if not core.closed:
            await core.store_update(ended)
        return ended

    async def _work(self) -> TurnEnded:
        """Call the handler, and again for what the user has said that it has not read."""
        state, steering = self.state, self.state.steering
        try:
            ended = await self._call_handler()
            while ended.failure is None and ended.stop_reason != "cancelled":
                try:
                    message = None if state.cancelled else await steering.close()
                except asyncio.CancelledError:
                    if not (state.cancelled or is_being_cancelled()):
                        raise
                    return TurnEnded("cancelled")
                if message is None:
                    break
                state.prompt_id = message.id
                self.core.end_message()
                self.turn = self.turn.continued(message.content)
                ended = await self._call_handler()
            return ended
        finally:
            self._end_steering()

    def _end_steering(self) -> None:
        self.state.steer = None
        self.state.began.set()
        self.state.steering.end()

    async def _absorb_cancel(self) -> None:
        """Withdraw the cancel from the task, so that the end of the turn can be sent."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task = self.state.task
        while task is not None and task.uncancel():
            pass

    async def _call_handler(self) -> TurnEnded:
        self._is_handling = True
        self.state.began.set()
        try:
            return await self._handle()
        finally:
            self._is_handling = False

    async def _handle(self) -> TurnEnded:
        agent, core = self._agent, self.core
        try:
            core.not_awaited.clear()
            working: Any = agent.prompt(self.turn)
            if not hasattr(working, "__await__"):
                name = type(agent).__name__
                raise TypeError(f"{name}.prompt returned no coroutine: write `async def prompt`")
            reason = _reason(agent, await working)
            if forgotten := core.not_awaited:
                raise RuntimeError(f"{forgotten[0]} was not awaited: write `await {forgotten[0]}`")
            if reason != "error":
                return TurnEnded(reason)
            error: RequestError = InternalError()  # version 1 has no such reason
        except asyncio.CancelledError:
            if self.state.cancelled or is_being_cancelled():
                return TurnEnded("cancelled")
            log.exception("! the turn awaited something that was cancelled")
            error = InternalError()
        except RequestError as exc:
            error = exc
            if core.client_adapter.is_clients_error(exc):
                # Its code is about a request of the agent, not about the prompt.
                _log_clients_fault("! the turn failed by an error of the client", exc)
                error = InternalError("A request of the agent to the client failed")
        except BaseException as exc:  # groups, too: the client waits for the end of the turn
            if is_dropped(exc, self.state.task):
                raise
            if ends_process(exc):
                self.exit_error = exc
            elif isinstance(exc, TransportError) and core.client_adapter.is_closed:
                log.debug("! the client disconnected during a turn", exc_info=True)
                return TurnEnded("cancelled")
            elif self.state.cancelled or is_stopped():
                # R-CANCEL-06: an exception of an aborted operation is not an error.
                log.debug("! the turn failed while being cancelled", exc_info=True)
            elif isinstance(exc, RemoteProtocolError):
                _log_clients_fault("! the turn failed: the client broke the protocol", exc)
            else:
                log.error("! the turn failed", exc_info=exc)
            # Its text is not sent to the client (R-ERR-05), except for files that it named.
            error = file_failure(exc) or InternalError()
        return TurnEnded("error", TurnError(error.code, error.message, _data_of(error)))


async def _finished(work: Coroutine[Any, Any, None]) -> bool:
    """Wait for the end of the work, whatever happens; return whether this task was cancelled."""
    cancelled = False
    running = asyncio.ensure_future(work)
    while not running.done():
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled = True
    running.result()
    return cancelled


def _log_clients_fault(what: str, error: AccordError) -> None:
    """Log in one line, because a client can cause this repeatedly; the traceback at DEBUG."""
    log.error("%s: %s", what, one_line(str(error)))
    log.debug("! where the turn failed", exc_info=error)


def _reason(agent: AgentHooks, returned: object) -> str:
    """Return the stop reason that a handler returned; raise `TypeError` for an invalid one."""
    if returned is None:
        return "end_turn"
    if isinstance(returned, str) and (returned in _REASONS or returned.startswith("_")):
        return returned
    raise TypeError(
        f"{type(agent).__name__}.prompt returned {excerpt(repr(returned), 60)}, which is not a stop"
        " reason: say text with `await turn.say(…)`, and return None or one of"
        f" {', '.join(_REASONS)}, or a name of your own that begins with an underscore"
    )


def _data_of(error: RequestError) -> Any:
    """Return the data of an error; UNSET if it has none or JSON cannot represent it."""
    if error.data is None:
        return UNSET
    try:
        encode(error.data)
    except Exception:
        log.exception("! the data of an error cannot be written")
        return UNSET
    return error.data


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
        if message is None:
            shown = excerpt(repr(session_id), 60)
            message = f"Resource not found: no session {shown} is open on this connection"
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
        loaded: LoadedSession | None = None,
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
            first_number=0 if loaded is None else loaded.count,
            remembered=None if loaded is None else loaded.remembered,
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
                    core = self._make_core(session_id, setup, writer, loaded=loaded)
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
                    core = self._make_core(copy_id, setup, writer, loaded=loaded)
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
        session = self._session_for(session_id, content)
        return TurnRunner(self.agent, session, self.cores[session_id], content, meta)

    async def steer(self, session_id: str, content: tuple[ContentBlock, ...]) -> Delivery | None:
        """Give the running turn a message; return None if none runs, or if it is cancelled.

        What is returned is called after the response. Raise `RequestError` for an invalid
        message, and if the agent refuses it.
        """
        self._session_for(session_id, content)
        queue = self.cores[session_id].turn_queue
        steer = queue[0].steer if queue else None
        return None if steer is None else await steer(content)

    def _session_for(self, session_id: str, content: tuple[ContentBlock, ...]) -> Session:
        """Return the session of a prompt; raise `RequestError` for an invalid one."""
        session = self.sessions.get(session_id)
        if session is None:
            self.agent.check_auth()
            raise self._not_found(session_id)
        self.agent.check_prompt_auth(session)
        if not content:
            raise InvalidParams("prompt: expected at least one content block, got an empty array")
        for number, part in enumerate(content):
            taken = self.agent.prompt_capabilities
            if (kind := _capability_for(part)) not in (None, *taken):
                kinds = ", ".join(("text", "resource_link", *sorted(taken)))
                raise InvalidParams(
                    f"prompt[{number}]: expected content that this agent takes ({kinds}), got"
                    f" {kind}",
                    data={"type": kind},
                )
        return session

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
