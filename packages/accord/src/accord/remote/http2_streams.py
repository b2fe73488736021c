"""What Accord changes in how hypercorn serves the streams of HTTP/2: memory, number, their ends.

`adapt_hypercorn` changes hypercorn in this process, and `goaway` ends a connection whose client
sends what hypercorn cannot handle.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hypercorn.protocol as _protocol
import hypercorn.protocol.h2 as _h2
import priority
from h2.errors import ErrorCodes
from h2.exceptions import H2Error, ProtocolError
from priority.priority import PriorityTree, TooManyStreamsError

HTTP2_STREAMS = 1024  # of a connection at the same time (R-HTTP-39)


class _StreamBuffer(_h2.StreamBuffer):
    """The bytes of a response that wait for the client; the application waits while it is full.

    hypercorn 0.18 lets the application continue as soon as less than a frame was removed, also if
    nothing was removed because the client reads nothing. The buffer then grows with each message.
    """

    async def pop(self, max_length: int) -> bytes:
        length = min(len(self.buffer), max_length)
        data = bytes(self.buffer[:length])
        del self.buffer[:length]
        if len(self.buffer) < _h2.BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


class _PriorityTree(PriorityTree):
    """The streams of a connection, in the order in which they are sent.

    By default it fails at the 1,000th, and hypercorn 0.18 then ends the connection. Streams that
    others depend on also count.
    """

    def __init__(self) -> None:
        super().__init__(maximum_streams=2 * HTTP2_STREAMS)


class _Streams(dict[int, Any]):
    """The open streams of a connection; one that has ended ignores the rest of its request.

    hypercorn 0.18 ends the whole connection if the body of a request arrives after its response,
    such as a refusal.
    """

    def __missing__(self, stream_id: int) -> _EndedStream:
        return _EndedStream()


class _EndedStream:
    async def handle(self, event: object) -> None:
        pass


class _H2Protocol(_h2.H2Protocol):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.streams = _Streams()


def adapt_hypercorn() -> None:
    """Replace them in hypercorn, in this process (T11, R-HTTP-39)."""
    _h2.StreamBuffer = _StreamBuffer
    protocol: Any = _protocol
    protocol.H2Protocol = _H2Protocol
    changed = {**vars(priority), "PriorityTree": _PriorityTree}
    module: Any = _h2
    module.priority = SimpleNamespace(**changed)


def goaway(wrapper: _protocol.ProtocolWrapper, error: Exception) -> bytes:
    """Return the GOAWAY frame that tells the client why its connection ends (RFC 9113, 7).

    It is empty for HTTP/1.1, and after an error of h2, which has sent its own. A request that
    hypercorn could not start is dropped: it cannot be told that the connection is closed.
    """
    protocol = wrapper.protocol
    if not isinstance(protocol, _h2.H2Protocol):
        return b""
    for number, stream in list(protocol.streams.items()):
        if not hasattr(stream, "scope") or not hasattr(stream, "app_put"):
            del protocol.streams[number]
    if isinstance(error, H2Error):
        return b""
    floods = isinstance(error, TooManyStreamsError)
    code = ErrorCodes.ENHANCE_YOUR_CALM if floods else ErrorCodes.PROTOCOL_ERROR
    try:
        protocol.connection.close_connection(code)
    except ProtocolError:  # the client has ended it
        return b""
    return protocol.connection.data_to_send()
