"""One HTTP/2 connection, by h2: many requests at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from accord.transports.http_messages import Codec, Headers, RawResponse, ResponseBody

_MOST_STREAMS = 90  # servers often allow 100 (R-HTTP-38)
_MOST_REQUESTS = 900  # in all: some servers close a connection after 1000
_FRAME_BYTES = 64 * 1024
_KEEP_S = 60.0
_STREAM_WINDOW = 1024 * 1024
_CONNECTION_WINDOW = 16 * 1024 * 1024
_CONFIG = H2Configuration(client_side=True, header_encoding=None)
_SETTINGS = {
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
    SettingCodes.MAX_HEADER_LIST_SIZE: 64 * 1024,
    SettingCodes.MAX_CONCURRENT_STREAMS: 0,
}


class _Stream:
    """A request and its response."""

    def __init__(self, body: ResponseBody) -> None:
        self.head: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        self.body = body
        self.window_changed = asyncio.Event()

    def end(self, error: Exception | None = None) -> None:
        if not self.head.done():
            self.head.set_exception(error or ConnectionError("the response has no head"))
        self.body.end(error)
        self.window_changed.set()


class Http2(Codec):
    """Gives each request a stream. What is not taken holds back its stream only."""

    keep_s = _KEEP_S

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._http = H2Connection(_CONFIG)
        self._http.local_settings = Settings(client=True, initial_values=_SETTINGS)
        self._http.max_inbound_frame_size = _FRAME_BYTES
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_CONNECTION_WINDOW)
        self._streams: dict[int, _Stream] = {}
        self._sent = 0
        self._settings: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flush()

    @property
    def has_room(self) -> bool:
        most = min(_MOST_STREAMS, self._http.remote_settings.max_concurrent_streams)
        return not self.is_over and self.requests < most and self._sent < _MOST_REQUESTS

    async def ready(self) -> None:
        """Wait for the server's settings: they say how many streams it allows."""
        await asyncio.shield(self._settings)

    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> RawResponse:
        number = self._http.get_next_available_stream_id()
        self._sent += 1
        stream = _Stream(ResponseBody(lambda size: self._taken(number, size)))
        self._streams[number] = stream
        fields = [(b":method", method.encode()), (b":path", target.encode())]
        fields += [(b":scheme", self._scheme), (b":authority", headers[0][1])]
        fields += [(name.lower(), value) for name, value in headers[1:]]
        try:
            self._http.send_headers(number, fields, end_stream=not body)
            self._flush()
            await self._send_body(number, stream, body)
            response = await stream.head
        except ProtocolError as exc:
            self._close(number)
            raise ConnectionError(f"HTTP/2: {exc}") from exc
        except BaseException:
            self._close(number)
            raise
        response.stream = number
        return response

    @property
    def _scheme(self) -> bytes:
        return b"https" if self.transport.get_extra_info("ssl_object") is not None else b"http"

    async def _send_body(self, number: int, stream: _Stream, body: bytes) -> None:
        at = 0
        while at < len(body) and not stream.head.done():
            room = self._http.local_flow_control_window(number)
            size = min(room, self._http.max_outbound_frame_size, len(body) - at)
            if size <= 0:
                stream.window_changed.clear()
                await stream.window_changed.wait()
                continue
            at += size
            self._http.send_data(number, body[at - size : at], end_stream=at == len(body))
            self._flush()

    def release(self, response: RawResponse) -> None:
        self._close(response.stream)
        if not self._streams and self._sent >= _MOST_REQUESTS:
            self.is_over = True
            self.transport.close()

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        try:
            if owed := stream.body.drop():
                self._http.acknowledge_received_data(owed, number)
            if not stream.body.has_ended:
                self._http.reset_stream(number, ErrorCodes.CANCEL)
        except ProtocolError:
            return  # the connection has ended, or the stream before
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._http.receive_data(data):
                self._handle(event)
            self._flush()
        except ProtocolError as exc:
            self._flush()
            self.lost(ConnectionError(f"HTTP/2: {exc}"))
            self.transport.close()

    def _handle(self, event: Any) -> None:
        if isinstance(event, DataReceived):
            if (stream := self._streams.get(event.stream_id or 0)) is not None:
                stream.body.add(event.data or b"", event.flow_controlled_length)
            else:  # it is not wanted any more
                size = event.flow_controlled_length or 0
                self._http.acknowledge_received_data(size, event.stream_id or 0)
        elif isinstance(event, ResponseReceived):
            self._begin(event)
        elif isinstance(event, StreamEnded):
            if (stream := self._streams.get(event.stream_id or 0)) is not None:
                stream.end()
        elif isinstance(event, StreamReset):
            if (stream := self._streams.get(event.stream_id or 0)) is not None:
                stream.end(ConnectionError(f"the server has reset it, code {event.error_code}"))
        elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
            if isinstance(event, RemoteSettingsChanged) and not self._settings.done():
                self._settings.set_result(None)
            for stream in self._streams.values():
                stream.window_changed.set()
        elif isinstance(event, ConnectionTerminated):
            self.is_over = True  # for further requests
            last = event.last_stream_id or 0
            for number, stream in self._streams.items():
                if number > last:
                    stream.end(ConnectionError("the server has closed it"))

    def _begin(self, event: ResponseReceived) -> None:
        stream = self._streams.get(event.stream_id or 0)
        if stream is None or stream.head.done():
            return
        fields = [(bytes(name), bytes(value)) for name, value in event.headers or ()]
        status = next((value for name, value in fields if name == b":status"), b"")
        if not status.isdigit():
            stream.end(ConnectionError("the response has no status"))
            return
        fields = [field for field in fields if not field[0].startswith(b":")]
        stream.head.set_result(RawResponse(int(status), fields, stream.body, self))

    def eof_received(self) -> None:
        self.is_over = True

    def lost(self, error: Exception | None) -> None:
        self.is_over: bool = True
        why = error or ConnectionError("the server has closed it")
        if not self._settings.done():
            self._settings.set_exception(why)
            self._settings.exception()  # it may be that nothing waits
        for stream in self._streams.values():
            stream.end(why)

    def _taken(self, number: int, size: int) -> None:
        if size and not self.is_over:
            self._http.acknowledge_received_data(size, number)
            self._flush()

    def _flush(self) -> None:
        if data := self._http.data_to_send():
            self.transport.write(data)
