"""What a transport is: frames both ways, without knowledge of what they say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

__all__ = (
    "FRAME_BYTES",
    "HIGH_BYTES",
    "LOW_BYTES",
    "READ_BYTES",
    "Frame",
    "NullReceiver",
    "Receiver",
    "Transport",
    "TransportFactory",
    "opened",
)

# One JSON text without line breaks; blank ones may come and mean nothing.
Frame: TypeAlias = bytes | bytearray
FRAME_BYTES = 64 * 1024 * 1024  # the largest frame accepted unless told otherwise

# What may wait to be sent: congested above the one, free again below the other.
HIGH_BYTES = 256 * 1024
LOW_BYTES = 64 * 1024
# More in one read would make malloc map and unmap memory each time.
READ_BYTES = 64 * 1024


class Receiver(Protocol):
    """Who gets what a transport reads.

    Called on the event loop, never from within a call to the transport; must not raise. Hears
    nothing more once the transport's `aclose` has been called.
    """

    def frames_received(self, frames: Sequence[Frame]) -> None:
        """Frames came, in this order."""
        ...

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        """A frame over the limit came and was dropped; `head` is how it began."""
        ...

    def eof_received(self, error: Exception | None) -> None:
        """Nothing more will come; `error` says why unless the end was orderly. Called once."""
        ...

    def writable(self) -> None:
        """The transport is no longer congested, or will never take anything again."""
        ...


class NullReceiver:
    """The receiver before `start` and after `aclose`: it drops everything."""

    def frames_received(self, frames: Sequence[Frame]) -> None:
        pass

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        pass

    def eof_received(self, error: Exception | None) -> None:
        pass

    def writable(self) -> None:
        pass


class Transport(ABC):
    """A way to one peer.

    `start` once, then `write` what the other side shall get; `aclose` in any state, any number
    of times. Frames arrive whole and in order. After the end of input `write` may still work:
    the two directions end apart. When the peer stops reading, that is an end of input too, with
    an error, after what it had sent before. `frame_bytes` is the size of the largest frame that
    is accepted, and sent.
    """

    frame_bytes: int = FRAME_BYTES

    @abstractmethod
    async def start(self, receiver: Receiver) -> None:
        """Begin; raise `TransportError` when there is no way to the peer."""

    @abstractmethod
    def write(self, frames: Sequence[Frame]) -> None:
        """Take frames to send, as one write if they fit; dropped when the way is closed."""

    @property
    @abstractmethod
    def congested(self) -> bool:
        """Whether the peer reads slower than we write; `Receiver.writable` tells when it ends."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Let the peer wait; may be called again."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Go on reading; may be called without a pause."""

    @abstractmethod
    async def aclose(self) -> None:
        """End both directions and free everything, in bounded time.

        What was written still goes out if the peer reads it.
        """

    async def exit_error(self) -> Exception | None:
        """After the end of input: say how the peer ended, if there is more to say."""
        return None


TransportFactory: TypeAlias = Callable[[], Transport | Awaitable[Transport]]


async def opened(transport: TransportFactory | Transport) -> Transport:
    """Return a transport, or the one that a factory returns."""
    if isinstance(transport, Transport):
        return transport
    made = transport()
    return made if isinstance(made, Transport) else await made
