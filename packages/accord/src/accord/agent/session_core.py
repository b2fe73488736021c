"""The state and the output of a session, shared by turns, tool calls and subagents.

An update is sent after it is stored. `StoredOutput` does both for one update at a time;
`BatchedOutput` collects the updates of a stream, which does not wait for the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from accord.agent.client_adapter import ClientAdapter, TextStream, mode_of
from accord.agent.updates import (
    MessageRole,
    MessageUpdate,
    OptionsUpdate,
    Remembered,
    TerminalOutputUpdate,
    TitleUpdate,
    ToolContentUpdate,
    Update,
)
from accord.agent.work import Background, OpenSubagent, OpenToolCall, TurnState, current_turn
from accord.connection.routes import trace
from accord.errors import InvalidParams, LocalProtocolError, TransportError
from accord.types.content import ContentBlock, require_content
from accord.types.mcp import McpServer
from accord.types.session import AvailableCommand, SelectOption, SessionOption, SystemPrompt
from accord.wire.codec import encode

if TYPE_CHECKING:
    from accord.mcp.connections import McpConnections

log: logging.Logger = logging.getLogger("accord.agent")


Send: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class UpdateWriter(Protocol):
    """Writes the updates of a session to its store; see `SessionWriter`."""

    @property
    def is_batched(self) -> bool:
        """Whether writing many updates at once takes hardly longer than writing one."""
        ...

    def write(self, updates: Sequence[Update]) -> Awaitable[None]:
        """Write updates, durably when this returns."""
        ...

    def write_now(self, updates: Sequence[Update]) -> bool:
        """Write chunks of messages without waiting; return False if that is not possible now."""
        ...

    async def release(self) -> None:
        """Stop writing."""
        ...


class StoredOutput:
    """Stores and sends one update at a time."""

    def __init__(self, writer: UpdateWriter) -> None:
        self._writer = writer
        self._lock = asyncio.Lock()  # held while an update is stored and sent: in one order

    async def publish(self, update: Update, send: Send) -> None:
        """Store an update, then call `send`."""
        async with self._lock:
            await self._writer.write((update,))
            await send()

    async def store(self, update: Update) -> None:
        """Store an update that is not sent, or is sent by the caller after this."""
        await self._writer.write((update,))

    async def flush(self) -> None:
        """Wait until all updates are stored and sent."""

    def text_stream(
        self, stream: TextStream, message_id: str, send: Callable[[str], Awaitable[None]]
    ) -> StoredText | None:
        """Return what stores the chunks of a message and sends them; None: `publish` has to.

        `send` sends a chunk that the stream does not take.
        """
        return None

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Hold back updates during the block, so that nothing interrupts a replay."""
        async with self._lock:
            yield

    async def release(self) -> None:
        """Stop writing; nothing is published after this."""
        await self._writer.release()


# Stores the updates of a session in batches: streaming does not wait for the store.


_WAITING_CHARACTERS = 1 << 18  # of text that waits for the store, until its sender waits, too
_CHUNK_COST = 64  # characters that a chunk counts in addition to its text
_PAUSE_S = 0.002  # at least between two writes of chunks: those of a fast stream are few
_FINISH_S = 5.0


class _Item(Struct, eq=False):
    """An update that is not stored yet; without one, the item only marks a place in the queue.

    With a `stream`, it is the chunks in `texts`, which are stored as one.
    """

    update: Update | None
    send: Send | None = None
    cost: int = 0
    context: Context | None = None  # if the update belongs to a traced request
    done: asyncio.Future[None] | None = None  # after it is sent; None if nothing waits for it
    stream: StoredText | None = None
    texts: list[str] = []

    def stored(self) -> Update | None:
        """Return what to store."""
        if self.stream is None:
            return self.update
        return MessageUpdate(self.stream.role, self.stream.message_id, ("".join(self.texts),))


class BatchedOutput(StoredOutput):
    """Stores what has been published while the previous batch was stored, and then sends it.

    Chunks of text return at once. A failure to store drops all updates that wait, is raised by
    the next call, and by `flush` before the turn ends: what was sent is in the store.
    """

    def __init__(self, writer: UpdateWriter) -> None:
        super().__init__(writer)
        self._queue: deque[_Item] = deque()
        self._waiting = 0  # the cost of the queue
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None  # of updates that nothing waited for
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._last: _Item | None = None  # in the queue, if it can take more text
        self._flushing = False  # `_flush_texts` is due
        self._next_flush = 0.0  # the earliest time
        self._congested = False  # the client reads slower

    def text_stream(
        self, stream: TextStream, message_id: str, send: Callable[[str], Awaitable[None]]
    ) -> StoredText:
        return StoredText(self, stream, message_id, send)

    def add_text(self, stream: StoredText, text: str) -> bool:
        """Store and send a chunk soon; return whether its sender must wait for room."""
        if self._error is not None:
            self._raise_error()
        cost = len(text) + _CHUNK_COST
        last = self._last
        if last is not None and last.stream is stream:
            last.texts.append(text)
            last.cost += cost
            self._waiting += cost
        else:
            self._last = item = _Item(None, cost=cost, stream=stream, texts=[text])
            self._queue.append(item)
            self._waiting += cost
            if self._task is None and not self._flushing:
                self._flushing = True
                loop = asyncio.get_running_loop()
                if loop.time() < self._next_flush:
                    loop.call_at(self._next_flush, self._flush_texts)
                else:
                    loop.call_soon(self._flush_texts)
        return self._congested or self._waiting > _WAITING_CHARACTERS

    def _flush_texts(self) -> None:
        """Store and send what is in the queue, chunks only, without a task if that is possible."""
        self._flushing = False
        if self._task is not None or not self._queue:
            return
        batch = tuple(self._queue)
        try:
            if self._lock.locked() or not self._write_now(batch):
                self._start()
                return
        except Exception as exc:  # noqa: BLE001  # of any store: the next call raises it
            self._drop(exc)
            return
        self._next_flush = asyncio.get_running_loop().time() + _PAUSE_S
        self._last = None
        self._queue.clear()
        self._waiting = 0
        self._has_room.set()
        try:
            for item in batch:
                assert item.stream is not None, "the task sends others"
                self._congested = item.stream.deliver_now(item.texts) or self._congested
        except Exception as exc:  # noqa: BLE001  # as above
            self._error = exc

    def _write_now(self, batch: Sequence[_Item]) -> bool:
        chunks: list[Update] = []
        for item in batch:
            if item.stream is None or not item.stream.is_free:
                return False
            chunks.append(cast("Update", item.stored()))
        return self._writer.write_now(chunks)

    async def wait_for_room(self, stream: TextStream | None = None) -> None:
        """Wait until less text waits for the store, and until the client has read."""
        if self._congested and stream is not None:
            self._congested = False
            await stream.wait()
        if self._waiting > _WAITING_CHARACTERS:
            self._has_room.clear()
            await self._has_room.wait()

    async def publish(self, update: Update, send: Send) -> None:
        self._raise_error()
        size = _text_size(update)
        if size is None:
            await self._wait(_Item(update, send, context=_context()))
            return
        self._add(_Item(update, send, size + _CHUNK_COST, _context()))
        await self.wait_for_room()

    async def store(self, update: Update) -> None:
        try:
            await self._wait(_Item(update))
        except Exception:
            self._error = None  # reported now, once
            raise
        self._raise_error()

    async def flush(self) -> None:
        if self._task is not None or self._queue:
            await self._wait(_Item(None))
        self._raise_error()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        await self.flush()
        async with self._lock:
            yield

    async def release(self) -> None:
        if self._queue:
            self._start()
        if self._task is not None:
            _, unfinished = await asyncio.wait([self._task], timeout=_FINISH_S)
            for task in unfinished:
                log.error("! updates of a session could not be stored before it was closed")
                task.cancel()
        if self._error is not None:
            log.error("! what a session has said was not stored or sent: %s", self._error)
        await super().release()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _wait(self, item: _Item) -> None:
        item.done = asyncio.get_running_loop().create_future()
        self._add(item)
        await item.done

    def _add(self, item: _Item) -> None:
        self._last = None
        self._queue.append(item)
        self._waiting += item.cost
        self._start()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="accord: stored output")

    async def _run(self) -> None:
        try:
            while self._queue:
                async with self._lock:
                    await self._write_all()
        except asyncio.CancelledError:
            self._drop(TransportError("The session was closed before the update was stored"))
            raise
        finally:
            self._task = None

    async def _write_all(self) -> None:
        """Store what is in the queue with one write, and then send it."""
        batch = tuple(self._queue)
        self._last = None
        try:
            stored = [update for item in batch if (update := item.stored()) is not None]
            await self._writer.write(stored)
        except Exception as exc:  # noqa: BLE001  # of any store: the callers raise it
            self._drop(exc)
            return
        for item in batch:
            self._queue.popleft()
            self._waiting -= item.cost
            error: Exception | None = None
            try:
                if item.stream is not None:
                    await item.stream.deliver(item.texts)
                elif item.send is not None:
                    await _send(item.send, item.context)
            except Exception as exc:  # noqa: BLE001  # the callers raise it; later updates are stored
                error = exc
            _end(item, error)
            if error is not None and item.done is None:
                self._error = error
        if self._waiting <= _WAITING_CHARACTERS // 2:
            self._has_room.set()

    def _drop(self, error: Exception) -> None:
        """Drop the updates that wait: nothing may be sent after one that was not stored."""
        if any(item.done is None for item in self._queue):
            self._error = error
        self._last = None
        while self._queue:
            _end(self._queue.popleft(), error)
        self._waiting = 0
        self._has_room.set()


class StoredText:
    """Stores and sends the chunks of one message; used as a `TextStream`."""

    __slots__ = ("_output", "_send", "_stream", "message_id", "role")

    def __init__(
        self,
        output: BatchedOutput,
        stream: TextStream,
        message_id: str,
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        self.role: MessageRole = stream.role
        self.message_id: str = message_id
        self._output = output
        self._stream = stream
        self._send = send

    def send(self, text: str) -> bool | None:
        """Send a chunk; return whether the sender must wait, None if the chunk was not sent."""
        if not self._stream.takes(text):
            return None
        return self._output.add_text(self, text)

    async def wait(self) -> None:
        """Wait while the store or the client is slower."""
        await self._output.wait_for_room(self._stream)

    @property
    def is_free(self) -> bool:
        """Whether nothing else must be sent before a chunk."""
        return self._stream.takes("")

    def deliver_now(self, texts: Iterable[str]) -> bool:
        """Send chunks that are stored; return whether the sender must wait before the next."""
        must_wait, error = False, None
        for text in texts:
            try:
                must_wait = self._stream.send(text) or must_wait
            except Exception as exc:  # noqa: BLE001  # such as one that is too large; others follow
                error = exc
        if error is not None:
            raise error
        return must_wait

    async def deliver(self, texts: Iterable[str]) -> None:
        """Send chunks that are stored."""
        stream, error = self._stream, None
        for text in texts:
            try:
                must_wait = stream.send(text)
                if must_wait is None:
                    await self._send(text)
                elif must_wait:
                    await stream.wait()
            except Exception as exc:  # noqa: BLE001  # as above
                error = exc
        if error is not None:
            raise error


async def _send(send: Send, context: Context | None) -> None:
    if context is None:
        await send()
    else:
        await asyncio.get_running_loop().create_task(send(), context=context)


def _end(item: _Item, error: Exception | None) -> None:
    if item.done is None or item.done.done():
        return
    if error is None:
        item.done.set_result(None)
    else:
        item.done.set_exception(error)


def _context() -> Context | None:
    """Return the context to send in; None outside of traced requests."""
    return None if trace() is None else copy_context()


def _text_size(update: Update) -> int | None:
    """Return the length of a chunk of text; None for other updates, which are waited for."""
    match update:
        case MessageUpdate(content=(str() as text,)) | ToolContentUpdate(content=str() as text):
            return len(text)
        case TerminalOutputUpdate(data=data):
            return len(data)
        case _:
            return None


SessionState: TypeAlias = Literal["idle", "running", "requires_action"]


class SessionCore:
    """One session with one client: ids, settings, stored and sent updates, open work.

    `decide_permission` gets a tool call and decides on it, or returns None. `all_subagents` are
    those of the connection, by id. `writer` stores updates before they are sent and `read_history`
    returns the stored ones; both are None for an agent without a store. `first_number` is where
    generated ids start.
    """

    def __init__(
        self,
        session_id: str,
        client_adapter: ClientAdapter,
        decide_permission: Callable[[Any], Awaitable[bool | None]],
        all_subagents: dict[str, SessionCore],
        *,
        cwd: str,
        directories: Sequence[str],
        mcp_servers: Sequence[McpServer] = (),
        make_mcp_connections: Callable[[SessionCore], McpConnections] | None = None,
        system_prompt: SystemPrompt | None = None,
        first_number: int = 0,
        remembered: Any = None,
        writer: UpdateWriter | None = None,
        read_history: Callable[[], Awaitable[list[Update]]] | None = None,
    ) -> None:
        self.id = session_id
        self.client_adapter = client_adapter
        self.decide_permission = decide_permission
        self.all_subagents = all_subagents
        self.cwd = cwd
        self.directories: tuple[str, ...] = tuple(directories)
        self.mcp_servers: tuple[McpServer, ...] = tuple(mcp_servers)
        self._make_mcp_connections = make_mcp_connections
        self._mcp_connections: McpConnections | None = None  # from `connect_mcp` on
        self.system_prompt = system_prompt
        self.title: str | None = None
        self.title_set_by_user = False
        self.options: tuple[SessionOption, ...] = ()
        self.commands: tuple[AvailableCommand, ...] = ()
        self.is_open = False  # the client knows the session
        self.closed = False
        # What the user always allows or rejects: name, kind and the words of a command.
        self.permission_memory: dict[tuple[str, ...], bool] = {}
        self.turn_queue: list[TurnState] = []  # the first runs, the others wait
        self.arriving: TurnState | None = None  # will be the first; its handler is not called yet
        self.open_tool_calls: dict[str, OpenToolCall] = {}
        self.subagents: list[OpenSubagent] = []  # that have not ended
        self.not_awaited: list[str] = []  # calls that were dropped without `await`
        self._output = None if writer is None else _output_of(writer)
        self._read_history = read_history
        self._count = first_number
        self.remembered: Any = remembered  # by the agent, as JSON
        self._is_remembered = True  # the store has this value, as far as is known
        self._role: MessageRole | None = None
        self._message_id = ""
        self._chunks = 0  # of the current message
        # Sends text of the current message; None if `add_to_message` has to.
        self.stream: TextStream | StoredText | None = None
        self._waiting = 0  # requests to the user that a turn waits for
        self._state: SessionState = "idle"

    @property
    def is_stored(self) -> bool:
        """Whether the updates are stored."""
        return self._output is not None

    @cached_property
    def background(self) -> Background:
        """The background work."""
        return Background(self.open_tool_calls, self.subagents)

    def set_client_adapter(self, adapter: ClientAdapter) -> None:
        """Send by another adapter from now on."""
        self.client_adapter: ClientAdapter = adapter
        self.end_message()

    def close(self) -> None:
        """Refuse updates from now on."""
        self.closed: bool = True
        self.stream = None

    async def connect_mcp(self) -> McpConnections:
        """Connect to the MCP servers that are not connected; see `Session.connect_mcp`."""
        self._check_open()
        if self._mcp_connections is None:
            assert self._make_mcp_connections is not None, "subagents use those of the session"
            self._mcp_connections = self._make_mcp_connections(self)
        await self._mcp_connections.connect()
        return self._mcp_connections

    async def set_mcp_servers(self, servers: Sequence[McpServer]) -> None:
        """Use other MCP servers: the client has loaded the open session with others."""
        if tuple(servers) == self.mcp_servers:
            return
        self.mcp_servers = tuple(servers)
        connections, self._mcp_connections = self._mcp_connections, None
        if connections is not None:
            await connections.aclose()

    async def disconnect_mcp(self) -> None:
        """Disconnect from the MCP servers."""
        if self._mcp_connections is not None:
            await self._mcp_connections.aclose()

    async def release(self) -> None:
        """Store what was published before `close`, and let another process open the session."""
        if self._output is not None:
            await self._output.release()

    # Updates.

    def next_id(self, kind: str) -> str:
        """Return an id that nothing else in this session has."""
        self._count += 1
        return f"{kind}-{self._count}"

    def add_to_message(
        self, role: MessageRole, content: ContentBlock, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Append to the current message of a role, or start one if another role wrote last."""
        if role is not self._role:
            self._role = role
            self._message_id = self.next_id("message")
            self.stream = None
            self._chunks = 0
        self._chunks += 1
        send = self.client_adapter.send_message_chunk
        if self._chunks == 2 and not self.closed:  # there are likely to be more
            stream = self.client_adapter.text_stream(self.id, role, self._message_id)
            if self._output is None or stream is None:
                self.stream = stream
            else:
                send_text = partial(send, self.id, role, self._message_id)
                self.stream = self._output.text_stream(stream, self._message_id, send_text)
        if self._output is None and not self.closed:  # the coroutine of `_publish` would only wait
            return send(self.id, role, self._message_id, content, meta)
        require_content("content", content)  # before it is stored
        return self._publish(
            MessageUpdate(role, self._message_id, (content,)),
            partial(send, self.id, role, self._message_id, content, meta),
        )

    def end_message(self) -> None:
        """Let the next chunk start a new message."""
        self._role = None
        self.stream = None

    async def publish(self, update: Update) -> None:
        """Store and send an update."""
        await self._publish(update, partial(self.client_adapter.send_update, self.id, update))

    async def _publish(self, update: Update, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Store an update, then call `send`; raise `LocalProtocolError` if it is closed."""
        self._check_open()
        if self._output is None:
            await send()
        else:
            await self._output.publish(update, send)

    @asynccontextmanager
    async def hold_updates(self) -> AsyncGenerator[None, None]:
        """Hold back other updates during the block, so that nothing interrupts a replay."""
        if self._output is None:
            yield
            return
        async with self._output.held():
            yield

    async def store_update(self, update: Update) -> None:
        """Store an update; raise `LocalProtocolError` if the session is closed."""
        self._check_open()
        if self._output is not None:
            await self._output.store(update)

    async def remember(self, value: Any) -> None:
        """Store what `remembered` gives from now on; of a list, only what is new is written."""
        before = self.remembered
        if value == before and self._is_remembered:
            return
        new, keep = value, 0
        if self._is_remembered and isinstance(value, list) and isinstance(before, list):
            known, wanted = cast("list[Any]", before), cast("list[Any]", value)
            keep = next(
                (n for n, (a, b) in enumerate(zip(known, wanted, strict=False)) if a != b),
                min(len(known), len(wanted)),
            )
            new = wanted[keep:]
        # A copy: the caller may change what it has given.
        update = Remembered(msgspec.json.decode(encode(new)), keep or None)
        self.remembered = update.after(before)  # at once: another call continues from here
        self._is_remembered = True
        try:
            await self.store_update(update)
        except BaseException as exc:
            # It may be stored nevertheless, or not: the next value is written as a whole.
            self._is_remembered = False
            if isinstance(exc, Exception):
                self.remembered = before
            raise

    def _check_open(self) -> None:
        if self.closed:
            raise LocalProtocolError(f"Session {self.id} is closed")

    async def flush(self) -> None:
        """Wait until the published updates are sent: a message that follows may refer to them."""
        if self._output is not None:
            await self._output.flush()

    async def history(self) -> list[Update]:
        """Return the stored updates, collapsed; nothing without a store."""
        if self._read_history is None:
            return []
        await self.flush()
        return await self._read_history()

    async def set_title(self, title: str | None) -> None:
        """Set the title, unless the user has set it."""
        if self.title_set_by_user:  # R-TITLE-05: the user's title stays
            return
        self.title = title
        if self.is_open:
            await self.publish(TitleUpdate(title))

    # Config options.

    @property
    def mode(self) -> str | None:
        """The value of the option whose category is `mode`."""
        option = mode_of(self.options)
        return None if option is None else option.value

    def option(self, option_id: str) -> SessionOption:
        """Return a config option; raise KeyError for an unknown one."""
        for option in self.options:
            if option.id == option_id:
                return option
        raise KeyError(option_id)

    async def set_options(self, options: tuple[SessionOption, ...]) -> None:
        """Replace all config options; raise ValueError for a value that an option does not have."""
        for option in options:
            if isinstance(option, SelectOption):
                values = [choice.value for choice in option.choices]
                if option.value not in values or len(set(values)) != len(values):  # R-CONF-17
                    raise ValueError(f"{option.id}: {option.value!r} is not one of {values}")
        previous_mode = self.mode
        self.options = options
        if self.is_open:
            await self.publish(OptionsUpdate(options, self.mode != previous_mode))

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of a config option."""
        changed = _with_value(self.option(option_id), value)
        await self.set_options(tuple(o if o.id != option_id else changed for o in self.options))

    def set_option_without_update(self, option_id: str, value: str | bool) -> None:
        """Change a value without an update; ignore an option that the agent has removed."""
        self.options = tuple(
            _with_value(option, value) if option.id == option_id else option
            for option in self.options
        )

    def restore_options(self, stored: Iterable[SessionOption]) -> None:
        """Apply the stored values of options that still exist and still have these values."""
        for option in stored:
            with suppress(InvalidParams):
                self.validate_option(option.id, option.value)
                self.set_option_without_update(option.id, option.value)

    def validate_option(self, option_id: str, value: str | bool) -> None:
        """Raise `InvalidParams` for an unknown option or value."""
        try:
            _with_value(self.option(option_id), value)
        except KeyError:
            raise InvalidParams("Unknown config option", data={"configId": option_id}) from None
        except ValueError:
            data = {"configId": option_id, "value": value}
            raise InvalidParams("The config option has no such value", data=data) from None

    # What the session is doing.

    def turn_here(self) -> TurnState | None:
        """Return the turn that work started here belongs to; None in the background."""
        return current_turn.get(None)

    def cancel(self) -> None:
        """Cancel the running turn, if there is one."""
        if self.turn_queue:
            self.turn_queue[0].cancel()

    @property
    def state(self) -> SessionState:
        """What the agent does in this session."""
        return self._state

    def set_idle(self) -> None:
        """Record that nothing runs any more; the caller sends the state."""
        self._state = "idle"

    @asynccontextmanager
    async def waiting_for_user(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """Mark the session as waiting for the user, unless `detached`."""
        await self.flush()
        if detached:
            yield
            return
        self._waiting += 1
        await self.update_state()
        try:
            yield
        finally:
            self._waiting -= 1
            if not (self.turn_queue and self.turn_queue[0].cancelled):
                await self.update_state()

    async def update_state(self) -> None:
        """Send the state of the running turn if it has changed."""
        if not self.turn_queue:
            return
        is_busy = any(
            call.status == "in_progress" and not call.is_asking and not call.is_in_background
            for call in self.open_tool_calls.values()
        ) or any(
            child.state == "running" and not child.is_in_background for child in self.subagents
        )
        state = "requires_action" if self._waiting and not is_busy else "running"
        if state != self._state:
            self._state = state
            await self.send_state()

    async def send_state(self) -> None:
        """Send the state and the background work, in versions that have them."""
        await self.flush()
        await self.client_adapter.send_state(self.id, self._state, self.background)

    async def notify_background(self) -> None:
        """Send the state if the background work has changed."""
        if not self.closed and self.background.has_changed():
            await self.send_state()


def _with_value(option: SessionOption, value: str | bool) -> SessionOption:
    """Return an option with another value; raise ValueError for a value it does not have."""
    if isinstance(option, SelectOption):
        if not any(choice.value == value for choice in option.choices):
            raise ValueError(value)
    elif not isinstance(value, bool):
        raise ValueError(value)
    return msgspec.structs.replace(option, value=value)


def _output_of(writer: UpdateWriter) -> StoredOutput:
    return BatchedOutput(writer) if writer.is_batched else StoredOutput(writer)
