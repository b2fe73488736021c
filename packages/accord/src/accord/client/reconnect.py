"""Establishes a lost connection again, and continues the sessions of the client (R-WS-17).

This works above the connection, in terms of sessions and their transcripts, and not as a transport
that replays messages: only a transcript can tell what of a replay is new, because a replay merges
texts, gives tool calls in their last state, and may use other message ids.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct
from msgspec.structs import fields, replace

from accord.client.agent_adapter import AgentAdapter, SessionEventStream
from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    Compaction,
    Event,
    MessageReplaced,
    ModeChanged,
    OptionsChanged,
    SessionMessage,
    StateChanged,
    TerminalOutputChunk,
    TitleChanged,
    ToolCall,
    UpdatedAtChanged,
    UsageChanged,
)
from accord.client.handlers import ClientHandlers
from accord.client.transcript import Item, Message, Transcript, continuation, message_events
from accord.connection.connection import Connection
from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    ConnectionRefused,
    NotOffered,
    ProtocolError,
    RequestError,
    TransportError,
    TurnInterrupted,
    UnsupportedVersion,
)
from accord.roles.remote import Remote
from accord.transports.registry import ConnectionChange, Reconnect, Waits
from accord.types.content import ContentBlock, text_of

# The connection of a client that reconnects, as its `Remote` uses it.

log: logging.Logger = logging.getLogger("accord.client.reconnect")

_LOGINS = ("authenticate", "auth/login")
_LOGOUTS = ("logout", "auth/logout")


class _Login(Struct):
    """A request that logged in, and the connections on which it was sent."""

    method: str
    params: Any
    decode: Callable[[bytes | Raw], Any]
    made_on: Connection
    repeated_on: Connection | None = None
    was_repeated: bool = False


class ConnectionGate:
    """Passes calls to the current connection; while there is none, they wait.

    Calls in progress fail with their connection, and nothing is sent again. Only a prompt fails
    later, once the connection is established again and the state of its turn is known.
    A login is repeated on the next connection as soon as the agent requires it.
    Everything else is that of the current connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        self.interrupted: dict[Any, TurnInterrupted] = {}
        """By session, how its turn was interrupted by the last loss."""
        self.unsent_prompts: set[Any] = set()
        """The sessions whose prompt waits for the next connection."""
        self._decided = asyncio.Event()  # the gate is open, or failed
        self._decided.set()
        self._error: TransportError | None = None
        self._login: _Login | None = None  # the caller's last one
        self._logging_in = asyncio.Lock()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

    def shut(self) -> None:
        """Let calls wait: the connection was lost."""
        self._decided.clear()

    def open(self, connection: Connection) -> None:
        """Continue with a new connection."""
        self.connection = connection
        self._decided.set()

    def fail(self, error: TransportError) -> None:
        """Fail all calls, also those that wait."""
        self._error = error
        self._decided.set()

    async def _current(self) -> Connection:
        while True:
            if self._error is None and self.connection.has_ended:
                self.shut()  # before the loss was handled
            await self._decided.wait()
            if self._error is not None:
                raise self._error
            if not self.connection.has_ended:
                return self.connection

    async def call(
        self,
        method: str,
        params: Any,
        decode: Callable[[bytes | Raw], Any],
        *,
        session: Any = None,
    ) -> Any:
        """Send a request, as `Connection.call` does."""
        if method == "session/prompt":
            return await self._prompt(method, params, decode, session)
        connection = await self._current()
        result = await self._call(connection, method, params, decode, session)
        if method in _LOGINS:
            self._login = _Login(method, params, decode, connection)
        elif method in _LOGOUTS:
            self._login = None
        return result

    async def _call(
        self,
        connection: Connection,
        method: str,
        params: Any,
        decode: Callable[[bytes | Raw], Any],
        session: Any,
    ) -> Any:
        """Send a request; send it again if it needs the login of a lost connection."""
        try:
            return await connection.call(method, params, decode, session=session)
        except AuthRequired:
            if not await self.log_in_again(connection):
                raise
        return await connection.call(method, params, decode, session=session)

    async def log_in_again(self, connection: Connection) -> bool:
        """Repeat the login of a lost connection on this one, at most once (R-AUTH-12).

        Returns whether a request that needs it can be sent again.
        """
        async with self._logging_in:
            login = self._login
            if login is None or login.made_on is connection:
                return False
            if login.repeated_on is connection:
                return login.was_repeated
            login.repeated_on, login.was_repeated = connection, False
            try:
                await connection.call(login.method, login.params, login.decode)
            except RequestError as error:
                log.warning("! the agent does not accept the login again: %s", error)
            else:
                login.was_repeated = True
            return login.was_repeated

    async def _prompt(
        self, method: str, params: Any, decode: Callable[[bytes | Raw], Any], session: Any
    ) -> Any:
        self.unsent_prompts.add(session)
        try:
            connection = await self._current()
        finally:
            self.unsent_prompts.discard(session)
        try:
            return await self._call(connection, method, params, decode, session)
        except TransportError:
            await self._current()
            if (interrupted := self.interrupted.get(session)) is not None:
                raise interrupted from None
            raise

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification, as `Connection.notify` does."""
        connection = await self._current()
        await connection.notify(method, params)


# Compares what a client has of a session with the agent's replay, to find what it missed.
#
# A replay writes the history in another way than the live updates: texts are merged, tool calls
# have their last state, thoughts may be left out, message ids may be new or missing. So the two
# transcripts are aligned in order: entities by their ids, other messages by their content.

_FINAL = frozenset({"completed", "failed", "cancelled"})
_NEAR = 32  # messages that a replayed one is compared with
_OTHER_FIELDS = frozenset({"id", "meta", "changed"})


class Missed(Struct, frozen=True):
    """What a client missed, and whether the replay contains its last prompt (None: unknown)."""

    events: tuple[Event, ...]
    has_prompt: bool | None


def missed_events(held: Transcript, replayed: Transcript, prompt_start: int) -> Missed:
    """Return the events that turn what the client holds into what the agent has replayed.

    The events of the conversation follow what both sides have. What the replay lacks stays: an
    agent may store less than it has sent. `prompt_start` is the index of the first item of the
    last prompt in `held`.
    """
    aligned = _Alignment(held.items, replayed.items)
    for item in replayed.items:
        aligned.add(item)
    events = [*aligned.missed(), *_settings(held, replayed)]
    return Missed(tuple(events), aligned.has_prompt(prompt_start) if replayed.items else None)


class _Alignment:
    """Finds each replayed item among the held ones, in order."""

    def __init__(self, held: Sequence[Item], replayed: Sequence[Item]) -> None:
        self._held = held
        self._places = {key: place for place, item in enumerate(held) if (key := _key(item))}
        self._replayed_keys = {key for item in replayed if (key := _key(item))}
        self._next = 0  # the first held item that a message without an id can be
        # The held messages that only their content can identify, by role and by their first text.
        self._candidates: dict[str, list[int]] = {"agent": [], "thought": [], "user": []}
        self._by_text: dict[tuple[str, str], list[int]] = {}
        self._first_texts: dict[int, str] = {}
        for place, item in enumerate(held):
            if not isinstance(item, Message) or _key(item) in self._replayed_keys:
                continue
            if content := item.content:
                text = self._first_texts[place] = _first_text(content)
                self._candidates[item.role].append(place)
                self._by_text.setdefault((item.role, text), []).append(place)
        self._matched: set[int] = set()
        # The rest of a held message: the replay can divide one message into several.
        self._rest: tuple[Message, tuple[ContentBlock, ...]] | None = None
        self._changes: list[Event] = []  # of held items with ids, wherever they are
        self._tail: list[Event] = []  # after the last held item
        self._new_prompt = False

    def missed(self) -> list[Event]:
        """Return what is not held.

        An unknown item before a known one was not missed, because updates arrive in order: the
        agent only writes its history in another way.
        """
        return [*self._changes, *self._tail]

    def has_prompt(self, prompt_start: int) -> bool:
        """Return whether the replay contains the prompt that was sent at this place."""
        return self._new_prompt or any(
            place >= prompt_start and _is_prompt(self._held[place]) for place in self._matched
        )

    def add(self, item: Item) -> None:
        """Find the next replayed item."""
        place = self._places.get(_key(item) or ("", ""))
        if place is not None:
            self._found(place)
            known = self._held[place]
            if isinstance(known, Message):
                assert isinstance(item, Message)
                self._changes += _message_changes(known, item)
            elif (changed := _changed(known, item)) is not None:
                self._changes.append(changed)
        elif not isinstance(item, Message):
            self._rest = None
            self._tail.append(_new(item))
        elif not self._find_by_content(item):
            self._rest = None
            self._new_prompt = self._new_prompt or item.role == "user"
            self._tail += message_events(item)

    def _found(self, place: int) -> None:
        self._matched.add(place)
        self._next = max(self._next, place + 1)
        self._rest = None
        self._tail.clear()
        self._new_prompt = False

    def _find_by_content(self, item: Message) -> bool:
        content = item.content
        if not content:
            return True
        if self._rest is not None and self._rest[0].role == item.role:
            message, rest = self._rest
            if (more := continuation(content, rest)) is not None:
                self._rest = (message, more) if more else None
                return True
            if (more := continuation(rest, content)) is not None:
                self._rest = None
                self._tail = list(_appended(message, more))
                return True
        text = _first_text(content)
        for place in self._places_to_compare(item.role, text):
            known = self._first_texts[place]
            if not (text.startswith(known) or known.startswith(text)):
                continue
            message = self._message(place)
            if (more := continuation(message.content, content)) is not None:
                self._found(place)
                self._match_rest(message, more)
                return True
            if (more := continuation(content, message.content)) is not None:
                self._found(place)
                self._rest = (message, more)
                return True
        return item.role == "user" and self._find_rewritten_prompt(item)

    def _find_rewritten_prompt(self, item: Message) -> bool:
        """Find a prompt that the agent has stored with more or less around it."""
        prompts = self._candidates["user"]
        start = bisect_left(prompts, self._next)
        if start == len(prompts):
            return False
        ours = text_of(self._message(prompts[start]).content).strip()
        theirs = text_of(item.content).strip()
        if not ours or not theirs or (ours not in theirs and theirs not in ours):
            return False
        self._found(prompts[start])
        return True

    def _places_to_compare(self, role: str, text: str) -> Iterator[int]:
        """Return where a message can be: near, with the same text, or at the end.

        Comparing it with all messages would take quadratic time.
        """
        places = self._candidates[role]
        start = bisect_left(places, self._next)
        yield from places[start : start + _NEAR]
        same = self._by_text.get((role, text), [])
        yield from same[bisect_left(same, self._next) :][:1]
        yield from places[max(start + _NEAR, len(places) - _NEAR) :]

    def _message(self, place: int) -> Message:
        item = self._held[place]
        assert isinstance(item, Message)
        return item

    def _match_rest(self, message: Message, rest: tuple[ContentBlock, ...]) -> None:
        """Find the rest of a replayed message in the held ones: the replay can merge several."""
        while rest and (place := self._following(message.role)) is not None:
            following = self._message(place)
            if (more := continuation(following.content, rest)) is not None:
                self._found(place)
                message, rest = following, more
            elif (more := continuation(rest, following.content)) is not None:
                self._found(place)
                self._rest = (following, more)
                return
            else:
                break
        self._tail = list(_appended(message, rest))

    def _following(self, role: str) -> int | None:
        """Return the place of the next message of a role, before any item that was replayed."""
        places = self._candidates[role]
        start = bisect_left(places, self._next)
        if start == len(places) or places[start] > self._next + _NEAR:
            return None
        between = range(self._next, places[start])
        if any(_key(self._held[place]) in self._replayed_keys for place in between):
            return None
        return places[start]


def _key(item: Item) -> tuple[str, str] | None:
    if isinstance(item, Message):
        return None if item.id is None else (item.role, item.id)
    return type(item).__name__, item.id


def _is_prompt(item: Item) -> bool:
    return isinstance(item, Message) and item.role == "user"


def _first_text(content: tuple[ContentBlock, ...]) -> str:
    return content[0] if isinstance(content[0], str) else ""


def _appended(message: Message, content: Sequence[ContentBlock]) -> Iterator[Event]:
    """Return the events that append content to a message."""
    if content:
        more = Message(message.role, message.id)
        more.replace(tuple(content))
        yield from message_events(more)


def _message_changes(held: Message, replayed: Message) -> Iterator[Event]:
    """Return the events that give a message the replayed content, unless more of it is held."""
    content = replayed.content
    if (more := continuation(held.content, content)) is not None:
        yield from _appended(held, more)
    elif continuation(content, held.content) is None:
        assert held.id is not None, "found by its id"
        yield MessageReplaced(held.role, held.id, content)


def _new(item: ToolCall | Compaction | SessionMessage) -> Event:
    return (_changed(ToolCall(id=item.id), item) or item) if isinstance(item, ToolCall) else item


def _changed(held: Any, replayed: Any) -> Any:
    """Return the replayed state of an entity, or None if it contains nothing new.

    A replay can omit details, and a final status is kept.
    """
    changes: dict[str, Any] = {}
    for name, default in _state_fields(replayed.__class__):
        value = getattr(replayed, name)
        if value not in (getattr(held, name), default):
            changes[name] = value
    if getattr(held, "status", None) in _FINAL and changes.get("status") not in _FINAL:
        changes.pop("status", None)
    if not changes:
        return None
    if isinstance(held, ToolCall):
        changed = (*changes, "unfinished") if held.unfinished else tuple(changes)
        changes["unfinished"] = False  # what the agent reports counts again
        return replace(held, **changes, changed=changed)
    return replace(held, **changes)


@cache
def _state_fields(entity: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the names and defaults of the fields that a replay can change."""
    every = fields(entity)
    return tuple((field.name, field.default) for field in every if field.name not in _OTHER_FIELDS)


def _settings(held: Transcript, replayed: Transcript) -> Iterator[Event]:
    """Return the changes of everything but the conversation."""
    for plan_id, plan in replayed.plans.items():
        if held.plans.get(plan_id) != plan:
            yield plan
    if replayed.options and replayed.options != held.options:
        yield OptionsChanged(replayed.options)
    if replayed.mode is not None and not replayed.options and replayed.mode != held.mode:
        yield ModeChanged(replayed.mode)
    if replayed.commands and replayed.commands != held.commands:
        yield CommandsChanged(replayed.commands)
    for terminal_id, shell in replayed.terminals.items():
        known = held.terminals.get(terminal_id)
        if shell.terminal != (AgentTerminal(id=terminal_id) if known is None else known.terminal):
            yield shell.terminal
        output = b"" if known is None else bytes(known.output)
        if shell.output.startswith(output):
            if more := bytes(shell.output[len(output) :]):
                yield TerminalOutputChunk(terminal_id, more)
        elif not output.endswith(bytes(shell.output)):  # a replay can have only the end
            yield TerminalOutputChunk(terminal_id, bytes(shell.output), replaces=True)
    if replayed.usage is not None and replayed.usage != held.usage:
        yield UsageChanged(replayed.usage)
    if replayed.title is not None and replayed.title != held.title:
        yield TitleChanged(replayed.title)
    if replayed.updated_at is not None and replayed.updated_at != held.updated_at:
        yield UpdatedAtChanged(replayed.updated_at)
    for session_id, subagent in replayed.subagents.items():
        if held.subagents.get(session_id) != subagent:
            yield subagent


_AT_ONCE = 8  # sessions that are opened at the same time
_WORKING = ("running", "requires_action")


class Reconnector:
    """Watches the connection of a client; opens another one, and its sessions on it."""

    def __init__(
        self,
        settings: Reconnect,
        adapter: AgentAdapter,
        handlers: ClientHandlers,
        connect: Callable[[], AbstractAsyncContextManager[Remote]],
        timeout_s: float,
    ) -> None:
        self._settings = settings
        self._adapter = adapter
        self._gate = adapter.remote.connection = ConnectionGate(adapter.remote.connection)
        self._handlers = handlers
        self._connect = connect
        self._waits = Waits(settings, asyncio.get_running_loop().time)
        self._timeout_s = timeout_s  # for `initialize`, and for opening the sessions

    async def run(self) -> None:
        """Reconnect until the attempts are used up; then end all sessions."""
        first = self._gate.connection
        try:
            loss = await _loss_of(first)
            await first.aclose()
            while True:
                loss = await self._reconnect(loss)
        except TransportError as error:
            self._end(error)
        except Exception as error:  # calls would wait indefinitely
            log.exception("! reconnecting failed")
            self._end(ConnectionLost(f"Reconnecting failed: {error!r}"))
        except asyncio.CancelledError:
            self._gate.fail(ConnectionClosed("The connection was closed"))
            raise

    def _end(self, error: TransportError) -> None:
        self._gate.fail(error)
        self._handlers.end(error)
        self._report(ConnectionChange(state="lost", error=error))

    async def _reconnect(self, loss: TransportError) -> TransportError:
        """Establish the connection again; return how it was lost then."""
        self._gate.shut()
        self._waits.lost()
        # Sessions that are opened from now on use the next connection.
        sessions = {
            session_id: self._handlers.event_streams[session_id]
            for session_id in self._handlers.session_setups
        }
        await self._handlers.aclose()
        last: Exception = loss
        for attempt in range(1, self._settings.attempts + 1):
            wait_s = self._waits.next()
            self._report(
                ConnectionChange(state="reconnecting", error=last, attempt=attempt, wait_s=wait_s)
            )
            await asyncio.sleep(wait_s)
            try:
                async with self._connect() as remote:
                    async with asyncio.timeout(self._timeout_s):
                        await self._continue(sessions, remote, loss)
                    self._waits.connected()
                    self._report(ConnectionChange(state="connected", attempt=attempt))
                    return await _loss_of(remote.connection)
            except UnsupportedVersion as error:
                raise ConnectionLost(f"{loss}; the agent cannot be used again: {error}") from error
            except (AccordError, TimeoutError) as error:
                if isinstance(error, ConnectionRefused) and error.is_final:
                    raise ConnectionLost(f"{loss}; {error}") from error
                last = error
        count = self._settings.attempts
        raise ConnectionLost(
            f"{loss}; the connection could not be established again in {count} attempts, "
            f"the last one failed: {str(last) or type(last).__name__}"
        )

    async def _continue(
        self, sessions: dict[str, SessionEventStream], remote: Remote, loss: TransportError
    ) -> None:
        handlers, connection = self._handlers, remote.connection
        connection.flow.reads_others = handlers.reads_others
        for stream in handlers.event_streams.values():
            stream.move(connection.flow.backlogs)
        self._gate.interrupted.clear()
        adapter = self._adapter.on(remote)
        free = asyncio.Semaphore(_AT_ONCE)

        async def continue_session(session_id: str, stream: SessionEventStream) -> None:
            async with free:
                if handlers.event_streams.get(session_id) is not stream:
                    del sessions[session_id]  # closed, or loaded again
                    return
                try:
                    try:
                        await self._open_again(stream, adapter, loss)
                    except AuthRequired:
                        if not await self._gate.log_in_again(connection):
                            raise
                        await self._open_again(stream, adapter, loss)
                except (RequestError, ProtocolError) as error:
                    del sessions[session_id]
                    self._give_up(stream, loss, error)

        opening = [continue_session(*each) for each in sessions.items()]
        for failed in await asyncio.gather(*opening, return_exceptions=True):
            if failed is not None:
                raise failed
        self._adapter.remote.adopt(remote)
        self._gate.open(connection)

    def _give_up(
        self, stream: SessionEventStream, loss: TransportError, error: AccordError
    ) -> None:
        """End a session that the agent does not open again."""
        log.warning("! a session could not be continued: %s", error)
        stream.end(ConnectionLost(f"{loss}; the session could not be opened again: {error}"))
        self._handlers.drop_session(stream.session_id)

    async def _open_again(
        self, stream: SessionEventStream, adapter: AgentAdapter, loss: TransportError
    ) -> None:
        """Load or resume a session, and publish what was missed."""
        handlers, session_id = self._handlers, stream.session_id
        replays = adapter.supports("load_session")
        if not replays and not adapter.supports("resume_session"):
            raise NotOffered("session/load", "session/load or session/resume")
        in_history: bool | None = None
        state: StateChanged | None = None

        def opened(_response: object) -> None:
            nonlocal in_history, state
            for each, replayed in handlers.end_replay(replay):
                missed = missed_events(each.transcript, replayed, stream.prompt_start)
                for event in missed.events:
                    each.publish(event)
                if each is stream:
                    in_history, state = missed.has_prompt, replayed.state
            if state is not None:
                self._settle(stream, state, _interrupted(loss, in_history, state))

        replay = handlers.begin_replay(session_id, adapter.events_from_update)
        try:
            result = await adapter.load_session(
                session_id, handlers.session_setups[session_id], replay=replays, opened=opened
            )
        finally:
            handlers.end_replay(replay)
        transcript = stream.transcript
        if result.options is not None and result.options != transcript.options:
            stream.publish(OptionsChanged(result.options))
        if result.commands is not None and result.commands != transcript.commands:
            stream.publish(CommandsChanged(result.commands))
        if state is None:
            if stream.on_event is not None and adapter.supports("session_status"):
                state = (await adapter.session_status(session_id)).state
            self._settle(stream, state, _interrupted(loss, in_history, state))

    def _settle(
        self, stream: SessionEventStream, state: StateChanged | None, error: TurnInterrupted
    ) -> None:
        """Apply the state of a session; end its turn unless the agent still works on it.

        A version 2 turn ends in order if the state has its stop reason. A version 1 turn ends when
        its prompt fails.
        """
        self._gate.interrupted[stream.session_id] = error
        if stream.on_event is not None:  # a version 2 turn
            if state is not None and (state.state != "idle" or state.stop_reason is not None):
                stream.publish(state)
            was_sent = stream.session_id not in self._gate.unsent_prompts
            if stream.on_disconnect is not None and was_sent and not error.agent_works:
                stream.on_disconnect(error)
        if state is not None and state != stream.transcript.state:
            stream.publish(state)

    def _report(self, change: ConnectionChange) -> None:
        log.info("= connection: %s", change)
        if self._settings.on_change is None:
            return
        try:
            self._settings.on_change(change)
        except Exception:
            log.exception("! on_change failed")


def _interrupted(
    loss: TransportError, in_history: bool | None, state: StateChanged | None
) -> TurnInterrupted:
    works: bool | None = None
    if state is not None and state.state in ("idle", *_WORKING):
        works = state.state in _WORKING
    return TurnInterrupted(str(loss), in_history=in_history, agent_works=works)


async def _loss_of(connection: Connection) -> TransportError:
    return await connection.wait_ended() or ConnectionLost("The connection has ended")
