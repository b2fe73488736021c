"""The interface of transports: they carry frames in both directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

# One JSON text without line breaks. Blank frames are ignored.
Frame: TypeAlias = bytes | bytearray
FRAME_BYTES = 64 * 1024 * 1024  # default size of the largest accepted frame

# Unsent bytes: a transport is congested above the first, and free again below the second.
HIGH_BYTES = 256 * 1024
LOW_BYTES = 64 * 1024
# For larger reads, malloc would map and unmap memory each time.
READ_BYTES = 64 * 1024


class Receiver(Protocol):
    """Receives the frames that a transport reads.

    The transport calls these methods on the event loop, never from within a call to itself, and
    not after `aclose` has been called. They must not raise.
    """

    def frames_received(self, frames: Sequence[Frame]) -> None:
        """Called with received frames, in order."""
        ...

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        """Called when a frame over the limit was dropped; `head` is its beginning."""
        ...

    def eof_received(self, error: Exception | None) -> None:
        """Called once at the end of input; `error` is None if the end was orderly."""
        ...

    def writable(self) -> None:
        """Called when the transport is no longer congested, or can no longer send."""
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
    """Carries frames to and from one peer.

    Call `start` once, then `write`; `aclose` may be called in any state and repeatedly. Frames
    arrive whole and in order. The two directions end independently: after the end of input,
    `write` may still work. When the peer stops reading, the input ends with an error, after the
    frames that the peer had sent. `frame_bytes` is the size of the largest frame that is accepted
    and sent.
    """

    frame_bytes: int = FRAME_BYTES

    @abstractmethod
    async def start(self, receiver: Receiver) -> None:
        """Start; raise `TransportError` if the peer cannot be reached."""

    @abstractmethod
    def write(self, frames: Sequence[Frame]) -> None:
        """Send frames, in one write if they fit. They are dropped if the transport is closed."""

    @property
    @abstractmethod
    def congested(self) -> bool:
        """Whether the peer reads slower than we write, until `Receiver.writable` is called."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Stop reading; may be called repeatedly."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Continue reading; may be called without a pause."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close both directions and release all resources, in bounded time.

        Frames that were written are still sent if the peer reads them.
        """

    async def exit_error(self) -> Exception | None:
        """Return how the peer ended, after the end of input; None if it is not known."""
        return None

    async def explain(self, error: BaseException) -> None:  # noqa: B027  # most have no process
        """Add to an error of the peer what its process wrote last, if it is a process."""


TransportFactory: TypeAlias = Callable[[], Transport | Awaitable[Transport]]


async def opened(transport: TransportFactory | Transport) -> Transport:
    """Return a transport, or the one that a factory returns."""
    if isinstance(transport, Transport):
        return transport
    made = transport()
    return made if isinstance(made, Transport) else await made
