"""A connection to the program under test: raw messages, all of them observed."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from accord.text import lenient_json
from accord.transports.base import Frame as Bytes
from accord.transports.base import Transport
from accord_conformance.harness.process_end import exit_error
from accord_conformance.judges.observer import Observer
from accord_conformance.traffic.frame import Frame, Side, other
from accord_conformance.traffic.message import Notification, RawMessage, Request, parse_frame

# Handles a request of the peer with `respond` or `respond_error`, at once, later or never.
RequestHandler: TypeAlias = Callable[[Request], None]

RESPONSE_S = 10.0
_LAST = 5  # frames to show before a disconnect
_MOMENT_S = 0.5  # for a message that should come at once
_MIN_S = 3.0  # for a response, after another request got none
_SLOWER = 10  # times its slowest response


class NoResponse(Exception):
    """A message did not arrive in time, or the peer disconnected."""


class NoSessionResponse(NoResponse):
    """A request that opens a session got no response."""


class RawConnection:
    """One connection, in which this program is the `side`.

    Nothing is validated: `send` takes any bytes. Requests of the peer are passed to `on_request`,
    its notifications to `on_notification`. The observer judges only the peer: this program breaks
    rules on purpose.

    A response may take `answer_s` seconds, and `start_s` before the first message of the peer: its
    program may still be loading. After a request without a response, the limit is lower and depends
    on the slowest response so far.

    `kit_errors` has the tracebacks of errors in the kit, which are not the fault of the peer.
    """

    def __init__(
        self,
        transport: Transport,
        side: Side,
        *,
        answer_s: float = RESPONSE_S,
        start_s: float = 0.0,
    ) -> None:
        self.side: Side = side
        self.observer = Observer(only=other(side))
        self.requests: list[Request] = []  # of the peer
        self.notifications: list[Notification] = []  # of the peer
        self.noise: list[str] = []  # lines of the peer that are not JSON
        self.is_closed = False
        self.close_error: Exception | None = None
        self.kit_errors: list[str] = []
        self.on_request: RequestHandler = lambda call: self.respond_error(
            call, -32601, "Method not found"
        )
        self.on_notification: Callable[[Notification], None] = lambda _: None
        self.answer_s = answer_s
        self._start_s = start_s
        self._transport = transport
        self._began = time.monotonic()
        self._last_id = 0
        self._slowest_s = 0.0  # of all responses
        self._timeouts = 0
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Start the transport; raise `TransportError`."""
        await self._transport.start(self)

    async def aclose(self) -> None:
        """Disconnect, which stops a program that was started for this connection."""
        self.observer.end(self.side)
        await self._transport.aclose()

    async def exit_error(self) -> Exception | None:
        """Return how the peer exited, after a disconnect; takes about a second at most."""
        return await exit_error(self._transport)

    # Sending.

    def send(self, frame: bytes) -> Frame:
        """Send a frame as it is; return it for reports."""
        self._observe(self.side, frame)
        self._transport.write([frame])
        return self.observer.state.frames[-1]

    def send_message(self, **fields: Any) -> Frame:
        """Send a message with these fields."""
        return self.send(msgspec.json.encode({"jsonrpc": "2.0", **fields}))

    def send_notification(self, method: str, params: Any = None) -> Frame:
        """Send a notification."""
        return self.send_message(method=method, **({} if params is None else {"params": params}))

    def send_request(self, method: str, params: Any = None, *, ident: Any = None) -> Request:
        """Send a request; its `response` is set when it arrives."""
        if ident is None:
            self._last_id += 1
            ident = self._last_id
        self.send_message(id=ident, method=method, **({} if params is None else {"params": params}))
        call = self.observer.state.find_request(self.side, ident)
        assert call is not None
        return call

    def respond(self, call: Request, result: Any) -> None:
        """Send a result for a request of the peer."""
        self.send_message(id=call.id, result=result)

    def respond_error(self, call: Request, code: int, message: str, data: Any = None) -> None:
        """Send an error for a request of the peer."""
        error = {"code": code, "message": message}
        self.send_message(id=call.id, error=error if data is None else {**error, "data": data})

    # Waiting.

    async def call(self, method: str, params: Any = None, *, ident: Any = None) -> Request:
        """Send a request and return it with its response; raise `NoResponse`."""
        call = self.send_request(method, params, ident=ident)
        await self.wait_for_response(call)
        return call

    async def wait_for_response(self, call: Request, *, within_s: float | None = None) -> None:
        """Wait for the response to a request; raise `NoResponse`."""
        began = time.monotonic()
        try:
            await self.wait_until(
                lambda: call.response is not None, f"response to {call.method}", within_s=within_s
            )
        except NoResponse:
            self._timeouts += 1
            raise
        self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    async def wait_soon(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition that has to hold at once; raise `NoResponse`.

        The response to a second request shows that the peer has read the first; then little time
        is left.
        """
        began = time.monotonic()
        after = self.send_request("_accord/settle", {})
        await self.wait_until(lambda: holds() or after.response is not None, what)
        if not holds():
            took_s = time.monotonic() - began
            await self.wait_until(
                holds, what, within_s=min(self.answer_s, max(_MOMENT_S, 4 * took_s))
            )

    async def wait_until(
        self, holds: Callable[[], bool], what: str, *, within_s: float | None = None
    ) -> None:
        """Wait for a condition, which only a message can make true; raise `NoResponse`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s() if within_s is None else within_s):
                while not holds():
                    if self.is_closed:
                        break
                    self._changed.clear()
                    await self._changed.wait()
        if not holds():
            raise NoResponse(f"no {what}" + (": the peer disconnected" if self.is_closed else ""))

    def _timeout_s(self) -> float:
        silent = not any(frame.sender != self.side for frame in self.observer.state.frames)
        if silent:
            return max(self.answer_s, self._start_s)
        if self._timeouts:
            return min(self.answer_s, max(_MIN_S, _SLOWER * self._slowest_s))
        return self.answer_s

    def unread(self, first: int = 0) -> tuple[Frame, ...]:
        """Return the frames sent since the last request that the peer answered, without requests
        that only ask for a sign of life.

        The peer has read all earlier ones and survived them. `first` is the number of frames that
        are left out at the beginning.
        """
        frames = self.observer.state.frames
        answered = [
            call.frame.number
            for call in self.observer.state.requests
            if call.sender == self.side and call.response is not None
        ]
        since = max(answered, default=0)
        probes = (b'"_accord/', b'"$/')
        return tuple(
            frame
            for frame in frames[first:]
            if frame.sender == self.side
            and frame.number > since
            and not any(frame.text.find(b'"method":' + name) > 0 for name in probes)
        )

    def last_sent(self) -> tuple[Frame, ...]:
        """Return the frames sent since the peer's last frame, or the last one."""
        frames = self.observer.state.frames
        since = max((frame.number for frame in frames if frame.sender != self.side), default=0)
        sent = [frame for frame in frames if frame.sender == self.side]
        return tuple([frame for frame in sent if frame.number > since][-_LAST:] or sent[-1:])

    async def sync(self) -> None:
        """Wait for the response to a harmless request: then the peer has read all earlier messages.

        For messages that must not be answered. An agent rejects the method, which is not judged.
        """
        with suppress(NoResponse):
            await self.call("_accord/settle", {})

    # Calls of the transport.

    def frames_received(self, frames: Sequence[Bytes]) -> None:
        for frame in frames:
            self._received(bytes(frame))
        self._changed.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.noise.append(f"a frame of more than {limit} bytes")
        self._changed.set()

    def eof_received(self, error: Exception | None) -> None:
        self.is_closed = True
        self.close_error = error
        self.observer.end(other(self.side))
        self._changed.set()

    def writable(self) -> None:
        return

    def noise_received(self, text: str) -> None:
        """The peer wrote a line that is not JSON."""
        self.noise.append(text)
        self._observe(other(self.side), text.encode())
        self._changed.set()

    def _observe(self, side: Side, text: bytes) -> None:
        self.observer.receive(side, text, self._now())

    def record_kit_error(self) -> None:
        """Record the exception that is being handled as an error in the kit."""
        self.kit_errors.append(traceback.format_exc())

    def _received(self, text: bytes) -> None:
        try:
            self._dispatch(text)
        except Exception:  # noqa: BLE001  # an error in a handler
            self.record_kit_error()

    def _dispatch(self, text: bytes) -> None:
        peer: Side = other(self.side)
        self._observe(peer, text)
        match parse_frame(Frame(0, 0.0, peer, text)):
            case RawMessage(fields=fields) as raw if not raw.is_response:
                if "id" in fields:
                    if (call := self.observer.state.find_request(peer, fields["id"])) is not None:
                        self.requests.append(call)
                        self._serve(call)
                else:
                    params = fields.get("params")
                    frame = self.observer.state.frames[-1]
                    params = params if lenient_json.is_object(params) else {}
                    note = Notification(frame, peer, fields["method"], params)
                    self.notifications.append(note)
                    self.on_notification(note)
            case _:
                pass

    def _serve(self, call: Request) -> None:
        try:
            self.on_request(call)
        except Exception:  # noqa: BLE001  # the peer gets a response in any case
            self.record_kit_error()
            if call.response is None:
                self.respond_error(call, -32603, "Error in the conformance kit")

    def _now(self) -> float:
        return time.monotonic() - self._began
