"""The interface of a stage: what stands between two neighbours of a chain sees and sends.

A chain has two ends, the client's connection and the agent's, and stages between them. Each stage
has a port to either side; `wire` connects them. The messages that pass are raw: a method, and
params as JSON text. `Flow` stops the source of a direction while a connection is congested, and
`PassingLanes` keeps the messages of each session in order while a handler is awaited.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import RequestError
from accord.text import lenient_json
from accord.transports.base import Frame, Transport

log: logging.Logger = logging.getLogger("accord.proxy")

Params: TypeAlias = Raw | UnsetType  # JSON text as received; UNSET: the message has no params


class Direction(Enum):
    """Where a message goes; a response goes the opposite way of its request."""

    TO_AGENT = "to agent"
    TO_CLIENT = "to client"

    # That of `Enum` is a function in Python, and every message that passes looks something up.
    if not TYPE_CHECKING:
        __hash__ = object.__hash__


def raw_json(value: Any) -> Raw:
    """Return builtin values as JSON text."""
    return Raw(lenient_json.dumps(value))


class _SessionId(Struct):
    session_id: str | None = msgspec.field(name="sessionId", default=None)


_decode_session_id = msgspec.json.Decoder(_SessionId).decode
_decode_session_ids = msgspec.json.Decoder(list[_SessionId]).decode


def session_id_of(params: Params) -> str | None:
    """Return the session that params belong to; None if they name none."""
    if params is UNSET:
        return None
    try:
        return _decode_session_id(params).session_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = lenient_json.loads(bytes(params))
    except lenient_json.NotJson:
        return None
    session_id = value.get("sessionId") if lenient_json.is_object(value) else None
    return session_id if isinstance(session_id, str) else None


class RawResponse(Struct, frozen=True):
    """The response to a request: either `result` or `error`, as JSON text."""

    result: Raw | None = None
    error: Raw | None = None

    @staticmethod
    def of_result(value: Any) -> RawResponse:
        """Return the response for a result of builtin values."""
        return RawResponse(result=raw_json(value))

    @staticmethod
    def of_error(error: RequestError) -> RawResponse:
        """Return the response for an error."""
        body = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        return RawResponse(error=raw_json(body))

    def request_error(self) -> RequestError | None:
        """Return the error as an exception; None if the request succeeded."""
        if self.error is None:
            return None
        try:
            value = lenient_json.loads(bytes(self.error))
        except lenient_json.NotJson:
            value = None
        parts: dict[str, Any] = value if lenient_json.is_object(value) else {}
        code, message = lenient_json.whole(parts.get("code")), parts.get("message")
        if type(code) is not int or type(message) is not str:
            return RequestError.of(-32603, "Malformed error object", value)
        return RequestError.of(code, message, parts.get("data"))


class RawRequest:
    """A request on its way through a chain, until it is answered.

    To pass it on unchanged, pass on this object: the response and a cancellation find their way.
    To see or change the response, pass on what `derive` returns.
    """

    __slots__ = ("_answered", "_on_cancel", "is_answered", "is_cancelled", "method", "params")

    def __init__(
        self, method: str, params: Params, answered: Callable[[RawResponse], None]
    ) -> None:
        self.method: str = method
        self.params: Params = params
        self.is_answered: bool = False
        self.is_cancelled: bool = False  # the side that has sent it does not need it any more
        self._answered = answered
        self._on_cancel: Callable[[], object] | None = None

    def answer(self, response: RawResponse) -> None:
        """Respond; only the first response counts."""
        if not self.is_answered:
            self.is_answered = True
            self._on_cancel = None
            self._answered(response)

    def fail(self, error: RequestError) -> None:
        """Respond with an error."""
        self.answer(RawResponse.of_error(error))

    def cancel(self) -> None:
        """Cancel the request: called by what made it. A response is still expected."""
        if not self.is_answered and not self.is_cancelled:
            self.is_cancelled = True
            if self._on_cancel is not None:
                self._on_cancel()

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call this when the request is cancelled; immediately if it was.

        It replaces the callback of the previous owner: the one that passed the request on.
        """
        self._on_cancel = callback
        if self.is_cancelled:
            callback()

    def derive(
        self,
        answered: Callable[[RawResponse], None],
        *,
        method: str | None = None,
        params: Params | None = None,
    ) -> RawRequest:
        """Return a request to send instead of this one, whose response goes to `answered`.

        If this one is cancelled, so is the other. `answered` must answer this one in time.
        """
        derived = RawRequest(
            self.method if method is None else method,
            self.params if params is None else params,
            answered,
        )
        self.on_cancel(derived.cancel)
        return derived


class Port:
    """One side of a stage: messages that are sent here go to the neighbour on that side.

    The functions return immediately; the messages are written in this order.
    """

    __slots__ = ("notify", "notify_run", "request", "wait_for_room")

    def __init__(
        self,
        notify: Callable[[str, Params], None],
        request: Callable[[RawRequest], None],
        wait_for_room: Callable[[], Awaitable[None]],
        notify_run: Callable[[Run], None],
    ) -> None:
        #: `notify(method, params)` sends a notification.
        self.notify: Callable[[str, Params], None] = notify
        #: `request(request)` sends a request; `RawRequest.answer` will be called with the response.
        self.request: Callable[[RawRequest], None] = request
        #: Awaitable: returns when the connection that messages of this direction go to is not
        #: congested. For stages that send many messages of their own. What waits for the stage
        #: itself does not count: it may wait for what the stage sends.
        self.wait_for_room: Callable[[], Awaitable[None]] = wait_for_room
        #: `notify_run(run)` sends notifications that were received together.
        self.notify_run: Callable[[Run], None] = notify_run


class Stage:
    """Receives every message that passes one place of a chain; by default it passes all on.

    The chain sets the ports and flows before the first message. The methods run on the event loop,
    must not block, and must not raise. One object serves one chain.
    """

    name: str = "proxy"  # for error messages and traces
    client: Port
    agent: Port
    flows: Mapping[Direction, Flow]  # to stop the source of a direction
    # Stops the agent, and ends the chain when what is on its way to the client has arrived.
    end_chain: Callable[[str], None]

    async def start(self) -> None:
        """Prepare for messages; called when the first `initialize` arrives, before it."""

    async def aclose(self) -> None:
        """Release everything; called once at the end of the chain."""

    def notification_from_client(self, method: str, params: Params) -> None:
        """Handle a notification on its way to the agent."""
        self.agent.notify(method, params)

    def run_from_client(self, run: Run) -> None:
        """Handle notifications that were received together; without an override, one by one."""
        if type(self).notification_from_client is Stage.notification_from_client:
            self.agent.notify_run(run)
            return
        for text in run.texts:
            self.notification_from_client(run.method, Raw(text))

    def request_from_client(self, request: RawRequest) -> None:
        """Handle a request on its way to the agent: pass it on, or answer it."""
        self.agent.request(request)

    def notification_from_agent(self, method: str, params: Params) -> None:
        """Handle a notification on its way to the client."""
        self.client.notify(method, params)

    def run_from_agent(self, run: Run) -> None:
        """Handle notifications that were received together; without an override, one by one."""
        if type(self).notification_from_agent is Stage.notification_from_agent:
            self.client.notify_run(run)
            return
        for text in run.texts:
            self.notification_from_agent(run.method, Raw(text))

    def request_from_agent(self, request: RawRequest) -> None:
        """Handle a request on its way to the client: pass it on, or answer it."""
        self.client.request(request)


class EndOfChain(Protocol):
    """One end of a chain: sends what the last stage passes on; what it receives goes to `port`."""

    port: Port

    def send_notification_out(self, method: str, params: Params) -> None:
        """Send a notification to the client or the agent."""
        ...

    def send_run_out(self, run: Run) -> None:
        """Send notifications that were received together."""
        ...

    def send_request_out(self, request: RawRequest) -> None:
        """Send a request to the client or the agent."""
        ...


def wire(
    client: EndOfChain,
    stages: Sequence[Stage],
    agent: EndOfChain,
    flows: Mapping[Direction, Flow],
    end_chain: Callable[[str], None],
) -> None:
    """Set the ports of both ends and of all stages; `end_chain` ends all of them."""
    to_client = flows[Direction.TO_CLIENT].wait_for_room
    to_agent = flows[Direction.TO_AGENT].wait_for_room
    handlers = (client.send_notification_out, client.send_request_out, client.send_run_out)
    for stage in stages:
        stage.flows = flows
        stage.end_chain = end_chain
        stage.client = _port(handlers, partial(to_client, stage))
        handlers = (stage.notification_from_agent, stage.request_from_agent, stage.run_from_agent)
    agent.port = _port(handlers, to_client)
    handlers = (agent.send_notification_out, agent.send_request_out, agent.send_run_out)
    for stage in reversed(stages):
        stage.agent = _port(handlers, partial(to_agent, stage))
        handlers = (
            stage.notification_from_client,
            stage.request_from_client,
            stage.run_from_client,
        )
    client.port = _port(handlers, to_agent)


def _port(
    handlers: tuple[
        Callable[[str, Params], None], Callable[[RawRequest], None], Callable[[Run], None]
    ],
    wait_for_room: Callable[[], Awaitable[None]],
) -> Port:
    notify, request, notify_run = handlers
    return Port(notify, request, wait_for_room, notify_run)


# Runs: notifications of one method that were read together, and pass a chain together.
# A streaming agent sends hundreds of updates that begin with the same bytes. What is the same is
# looked at once for all of them; their params are checked together.


class Run(Struct, frozen=True, gc=False):
    """Notifications in the order in which they came."""

    method: str
    texts: Sequence[Frame]  # the params of each, objects as JSON text
    frames: Sequence[Frame]  # as they came
    head: bytes  # what precedes the params in each of the frames
    sizes: Sequence[int]  # of the texts
    joined: bytes  # the texts as one JSON array, without white space between them

    def part(self, begin: int, end: int) -> Run:
        """Return some of the notifications."""
        if begin == 0 and end == len(self.texts):
            return self
        texts, frames = self.texts[begin:end], self.frames[begin:end]
        joined = b"[%b]" % b",".join(texts)
        return Run(self.method, texts, frames, self.head, self.sizes[begin:end], joined)

    def session_id(self) -> str | None | UnsetType:
        """Return the session that all of them belong to; `UNSET` if it is not the same one."""
        try:
            found = {one.session_id for one in _decode_session_ids(self.joined)}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return UNSET
        return found.pop() if len(found) == 1 else UNSET


# Back-pressure of a chain: a connection whose peer does not read stops the source of the messages.
# The conductor sees the whole chain, so nothing needs to pile up from hop to hop.


class Pauses:
    """Pauses a transport while there is a reason to."""

    __slots__ = ("_reasons", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._reasons: set[object] = set()

    def add(self, reason: object) -> None:
        """Do not read until this reason is removed."""
        if not self._reasons:
            self._transport.pause_reading()
        self._reasons.add(reason)

    def remove(self, reason: object) -> None:
        """Continue reading if this was the last reason."""
        if reason in self._reasons:
            self._reasons.discard(reason)
            if not self._reasons:
                self._transport.resume_reading()


class Flow:
    """One direction of a chain: its source is not read while one of its sinks is full."""

    def __init__(self) -> None:
        self.source: Pauses | None = None
        self._full: set[object] = set()
        self._waiters: list[asyncio.Future[None]] = []

    def block(self, sink: object) -> None:
        """Stop the source until `unblock` is called with the same sink."""
        if sink not in self._full:
            self._full.add(sink)
            if self.source is not None:
                self.source.add(self)

    def unblock(self, sink: object) -> None:
        """Let the source continue if no other sink is full."""
        if sink in self._full:
            self._full.discard(sink)
            if not self._full and self.source is not None:
                self.source.remove(self)
            self._wake()

    async def wait_for_room(self, ignored: object = None) -> None:
        """Return when no sink is full, other than one; let other tasks run in any case."""
        if not self._full - {ignored}:
            await asyncio.sleep(0)
        while self._full - {ignored}:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


# The lanes of one direction of a stage: messages of a session are handled one after another.
# A lane exists while a handler of its session is being awaited, or messages wait for it. Without
# lanes, messages are handled immediately.

_ITEM_BYTES = 300  # approximate memory of a waiting message in addition to its text

Release: TypeAlias = Callable[[], None]
# Handles a message; returns True if later messages wait until `release` is called.
Work: TypeAlias = Callable[[Release], bool]


class _Item:
    """A message that waits; also for the lanes in which it has a mark."""

    __slots__ = ("gates", "marks", "run", "size")

    def __init__(self, run: Work, size: int, *, gates: bool) -> None:
        self.run = run
        self.size = size
        self.gates = gates
        self.marks = 0


class _Lane:
    __slots__ = ("is_advancing", "is_held", "key", "waiting")

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.is_held = False
        self.is_advancing = False
        self.waiting: deque[_Item | _Mark] = deque()


class _Mark:
    """Where a message without a session came, in the lane of a session."""

    __slots__ = ("item",)

    def __init__(self, item: _Item) -> None:
        self.item = item


class PassingLanes:
    """`full(True)` is called when more than `limit_bytes` wait, `full(False)` later on."""

    def __init__(self, full: Callable[[bool], None], limit_bytes: int = 1024 * 1024) -> None:
        self._by_key: dict[str | None, _Lane] = {}
        self._gated: deque[tuple[str | None, int, Work, bool]] | None = None
        self._full = full
        self.limit_bytes: int = limit_bytes
        self._is_full = False
        self._waiting_bytes = 0

    @property
    def are_free(self) -> bool:
        """Whether no message waits and no lane is held."""
        return not self._by_key and self._gated is None

    def submit(self, key: str | None, size: int, run: Work, *, gates: bool = False) -> None:
        """Handle a message of a session, now or after the earlier messages of the session.

        A message without a session (`key` None) also waits for earlier messages of all sessions.
        With `gates`, all later messages wait for this one: it may open the session of any.
        """
        if self._gated is not None:
            self._gated.append((key, size, run, gates))
            self._count(size + _ITEM_BYTES)
            return
        if gates:
            self._gated = deque()
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = _Lane(key)
        item = _Item(run, size, gates=gates)
        lane.waiting.append(item)
        self._count(size + _ITEM_BYTES)
        if key is None:
            for other in self._by_key.values():
                if other is not lane:
                    other.waiting.append(_Mark(item))
                    item.marks += 1
        if len(lane.waiting) == 1:
            self._advance(lane)

    def _advance(self, lane: _Lane) -> None:
        """Handle the messages of a lane until one holds it."""
        if lane.is_advancing:
            return  # the loop below goes on: many messages may wait, and calls do not nest
        lane.is_advancing = True
        try:
            self._handle_waiting(lane)
        finally:
            lane.is_advancing = False
        if not lane.waiting and not lane.is_held and self._by_key.get(lane.key) is lane:
            del self._by_key[lane.key]

    def _handle_waiting(self, lane: _Lane) -> None:
        while lane.waiting and not lane.is_held:
            head = lane.waiting[0]
            if isinstance(head, _Mark):
                lane.waiting.popleft()
                head.item.marks -= 1
                if not head.item.marks:
                    self._advance(self._by_key[None])
                continue
            if head.marks:
                return
            lane.waiting.popleft()
            self._count(-head.size - _ITEM_BYTES)
            lane.is_held = True  # also while it runs
            release = self._release_of(lane, head)
            try:
                is_held = head.run(release)
            except Exception:  # logged; later messages must not wait for ever
                log.exception("! a message that had waited could not be handled")
                is_held = False
            if not is_held:
                release()

    def _release_of(self, lane: _Lane, item: _Item) -> Release:
        is_released = False

        def release() -> None:
            nonlocal is_released
            if is_released:
                return
            is_released = True
            lane.is_held = False
            self._advance(lane)
            if item.gates:
                self._open_gate()

        return release

    def _open_gate(self) -> None:
        gated, self._gated = self._gated, None
        for key, size, run, gates in gated or ():
            self._count(-size - _ITEM_BYTES)
            self.submit(key, size, run, gates=gates)

    def _count(self, size: int) -> None:
        self._waiting_bytes += size
        if self._is_full:
            if self._waiting_bytes <= self.limit_bytes // 2:
                self._is_full = False
                self._full(False)
        elif self._waiting_bytes > self.limit_bytes:
            self._is_full = True
            self._full(True)
