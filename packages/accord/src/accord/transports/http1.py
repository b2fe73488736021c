"""One HTTP/1.1 connection, by h11: one request at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import h11

from accord.transports.base import HIGH_BYTES
from accord.transports.http_body import ResponseBody
from accord.transports.http_codec import Codec, Headers, RawResponse

_HEAD_BYTES = 64 * 1024


class Http1(Codec):
    """Sends a request when the response to the one before was read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._head: asyncio.Future[RawResponse] | None = None
        self._body: ResponseBody | None = None
        self._is_paused = False

    @property
    def has_room(self) -> bool:
        return not self.is_over and self.requests == 0

    async def ready(self) -> None:
        pass

    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> RawResponse:
        self._head = asyncio.get_running_loop().create_future()
        self._body = ResponseBody(self._body_taken)
        request = h11.Request(method=method, target=target, headers=headers)
        data = self._http.send(request) or b""
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self.transport.write(data)
        try:
            return await self._head
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        finally:
            self._head = None

    def release(self, response: RawResponse) -> None:
        """Keep the connection if the response is complete, else close it."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._body = None
        elif not self.is_over:
            self.is_over = True
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._next_event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as exc:
            self.lost(ConnectionError(f"the response is not valid HTTP: {exc}"))
            self.transport.abort()

    def _next_event(self, event: Any) -> bool:
        """Handle an event; return whether another may follow."""
        if isinstance(event, h11.Data):
            if self._body is not None:
                self._body.add(bytes(event.data))
                if self._body.size > HIGH_BYTES and not self._is_paused:
                    self._is_paused = True
                    self.transport.pause_reading()
            return True
        if isinstance(event, h11.Response):
            assert self._body is not None
            if self._head is not None and not self._head.done():
                fields = list(event.headers)
                response = RawResponse(event.status_code, fields, self._body, self)
                response.reason = bytes(event.reason).decode("latin-1")
                self._head.set_result(response)
            return True
        if isinstance(event, h11.EndOfMessage):
            if self._body is not None:
                self._body.end()
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                self.is_over = True
            return False
        return isinstance(event, h11.InformationalResponse)

    def eof_received(self) -> None:
        self.is_over = True
        if self._body is not None and not self._body.has_ended:
            self.data_received(b"")

    def lost(self, error: Exception | None) -> None:
        self.is_over: bool = True
        why = error or ConnectionError("the server has closed it")
        if self._head is not None and not self._head.done():
            self._head.set_exception(why)
        if self._body is not None:
            self._body.end(why)

    def _body_taken(self, _size: int) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
