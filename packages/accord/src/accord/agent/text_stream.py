"""The text chunks of one message: what is equal in all of them is encoded once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from os import urandom
from typing import TYPE_CHECKING, Any

import msgspec

from accord.connection.routes import trace
from accord.errors import FrameTooLarge
from accord.wire.codec import encode

if TYPE_CHECKING:
    from accord.agent.updates import MessageRole
    from accord.connection.connection import Connection


_METHOD = "session/update"

_encode = msgspec.json.Encoder().encode  # of `encode`, without its treatment of odd texts


class TextStream:
    """Sends chunks of one message as frames, the same that `send_message_chunk` makes.

    `params_for` returns the params for a text. Sessions in `blocked` have content that must be
    sent first.
    """

    __slots__ = ("_blocked", "_flow", "_head", "_outbox", "_peer", "_session_id", "_tail", "role")

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        role: MessageRole,
        params_for: Callable[[str], Any],
        blocked: Collection[str],
    ) -> None:
        self.role = role
        self._peer = connection.peer
        self._outbox = connection.outbox
        self._flow = connection.flow
        self._session_id = session_id
        self._blocked = blocked
        mark = urandom(16).hex()  # occurs nowhere else
        params = encode(params_for(mark))
        head, _, tail = params.partition(b'"%b"' % mark.encode())
        self._head = b'{"jsonrpc":"2.0","method":"session/update","params":' + head
        self._tail = tail + b"}"

    def send(self, text: str) -> bool | None:
        """Send a chunk; return whether the sender must wait, None if the chunk was not sent.

        All in one place, and not by calls of the objects below: agents stream many chunks.
        """
        if trace() is not None or (self._blocked and self._session_id in self._blocked):
            return None
        try:
            frame = self._head + _encode(text) + self._tail
        except UnicodeEncodeError:  # a lone surrogate
            return None
        outbox, peer = self._outbox, self._peer
        size = len(frame)
        if outbox.closed is not None:
            raise outbox.closed
        if size > peer.frame_bytes:
            raise FrameTooLarge(_METHOD, size, peer.frame_bytes)
        peer.frames.append(frame)
        return outbox.frames_added(size)

    async def wait(self) -> None:
        """Wait while the client reads slower."""
        with self._flow.sending():
            await self._outbox.wait_for_room()
