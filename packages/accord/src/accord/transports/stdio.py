"""Frames as lines over two file descriptors: of a process, and stdin and stdout of this one.

`stdio` is the transport of agents; `PipeTransport` carries frames over any two descriptors. Below
them are readers and writers of bytes: `open_reader` and `open_writer` choose those that the event
loop polls (`PolledReader`), or those with a thread (`ThreadedReader`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import islice
from typing import Any, Protocol, TextIO, TypeAlias

from accord.errors import ConnectionClosed, ConnectionLost, TransportError
from accord.jsonrpc.message import LineReader
from accord.transports.base import (
    FRAME_BYTES,
    HIGH_BYTES,
    LOW_BYTES,
    READ_BYTES,
    Frame,
    NullReceiver,
    Receiver,
    Transport,
)

# Carries frames as lines over two file descriptors.

log: logging.Logger = logging.getLogger("accord.transports")

FLUSH_S = 2.0  # for the peer to read what was written before `aclose`
LINGER_S = 1.0  # for the peer to close after it stopped reading
_LARGE_BYTES = 256 * 1024  # frames that are not copied to join them with others


class PipeTransport(Transport):
    """Reads one file descriptor and writes another; it owns both.

    They may be the same, such as that of a socket.
    """

    def __init__(self, read_fd: int, write_fd: int, *, frame_bytes: int = FRAME_BYTES) -> None:
        self._fds: set[int] = {read_fd, write_fd}  # not owned by the reader or the writer yet
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._lines = LineReader(frame_bytes)
        self._feed = self._lines.feed
        self.frame_bytes = frame_bytes
        self._receiver: Receiver = NullReceiver()
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._lost: ConnectionLost | None = None
        self._closed: asyncio.Future[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        self._begin(receiver)

    def _begin(self, receiver: Receiver) -> None:
        loop = asyncio.get_running_loop()
        self._receiver = receiver
        try:
            for fd in self._fds:
                os.fstat(fd)
            if self._read_fd == self._write_fd:
                self._write_fd = os.dup(self._read_fd)
            self._writer = open_writer(loop, self._write_fd, self._writable, self._broken)
            self._fds.discard(self._write_fd)
            self._reader = open_reader(loop, self._read_fd, self._received, self._ended)
            self._fds.discard(self._read_fd)
        except OSError as exc:
            raise TransportError(f"Cannot use the pipes: {exc.strerror}") from exc

    def write(self, frames: Sequence[Frame]) -> None:
        writer = self._writer
        if writer is None or not frames:
            return
        if max(map(len, frames)) < _LARGE_BYTES:
            writer.write(b"\n".join((*frames, b"")))
            return
        for frame in frames:
            writer.write(frame)
            writer.write(b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Send bytes as they are, also malformed and unfinished lines: to test the peer."""
        if self._writer is not None and data:
            self._writer.write(data)

    @property
    def congested(self) -> bool:
        return self._writer is not None and self._writer.congested

    def pause_reading(self) -> None:
        if self._reader is not None:
            self._reader.pause()

    def resume_reading(self) -> None:
        if self._reader is not None:
            self._reader.resume()

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._receiver = NullReceiver()
        try:
            await self._close()
        finally:
            self._closed.set_result(None)

    async def _close(self) -> None:
        self.pause_reading()
        try:
            await self._close_writer(FLUSH_S)
        finally:
            await self._close_reader()

    async def _close_writer(self, flush_s: float) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.aclose(flush_s)

    async def _close_reader(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()
        for fd in self._fds:
            with suppress(OSError):  # it may not be open
                os.close(fd)
        self._fds.clear()

    def _received(self, data: bytes) -> None:
        frames = self._feed(data)
        if frames:
            self._receiver.frames_received(frames)
        if self._lines.refused:
            self._report_refused()

    def _report_refused(self) -> None:
        refused, self._lines.refused = self._lines.refused, []
        for head in refused:
            self._receiver.frame_refused(self.frame_bytes, head)

    def _ended(self, error: OSError | None) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if frames := self._lines.finish():
            self._receiver.frames_received(frames)
        if error is not None and self._lost is None:
            self._lost = ConnectionLost(f"The connection broke: {error.strerror}")
        log.debug("= end of input")
        self._receiver.eof_received(self._lost)

    def _writable(self) -> None:
        self._receiver.writable()

    def _broken(self, error: OSError) -> None:
        """Handle a failed write: read what the peer has sent, then end."""
        log.debug("! cannot write: %s", error.strerror)
        self._lost = ConnectionLost("The peer stopped reading")
        if self._reader is not None:
            loop = asyncio.get_running_loop()
            self._lingering = loop.call_later(LINGER_S, self._reader.end_when_empty)


if sys.platform == "win32":
    import msvcrt


_STDIN, _STDOUT, _STDERR = 0, 1, 2


def stdio(*, frame_bytes: int = FRAME_BYTES, restore: bool = True) -> Transport:
    """Return a transport over stdin and stdout, and take them immediately.

    From now on file descriptor 1 is stderr and 0 is empty. So neither a `print` nor a library nor
    a child process can write to the wire or read from it (R-STDIO-04). `aclose` restores both. A
    program that only serves sets `restore` to False: then its last prints cannot reach the wire
    either.

    Raise `TransportError` if another transport has them.
    """
    if _StandardStreams.taken:
        raise TransportError("stdin and stdout are used by another transport")
    return _StdioTransport(frame_bytes, restore=restore)


def take_stdio() -> tuple[int, int]:
    """Take stdin and stdout as `stdio(restore=False)` does; return file descriptors for them."""
    if _StandardStreams.taken:
        raise TransportError("stdin and stdout are used by another transport")
    taken = _StandardStreams()
    taken.close()
    return taken.wire_in, taken.wire_out


class _StdioTransport(PipeTransport):
    def __init__(self, frame_bytes: int, *, restore: bool) -> None:
        self._standard = _StandardStreams()
        self._restore = restore
        super().__init__(self._standard.wire_in, self._standard.wire_out, frame_bytes=frame_bytes)

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            if self._restore:
                self._standard.restore()
            else:
                self._standard.close()


class _StandardStreams:
    """Stdin and stdout, moved to private file descriptors."""

    taken = False

    def __init__(self) -> None:
        type(self).taken = True
        # Otherwise the next opened file could get the number that C libraries write warnings to.
        self._were_closed = [fd for fd in (_STDIN, _STDOUT, _STDERR) if _fill(fd)]
        self._saved = _copy(_STDIN), _copy(_STDOUT)
        self.wire_in = _private(self._saved[0], os.O_RDONLY)
        self.wire_out = _private(self._saved[1], os.O_WRONLY)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, _STDIN)
        os.close(null)
        os.dup2(_STDERR, _STDOUT)
        self._undo_prints = _redirect_prints()

    def restore(self) -> None:
        """Restore stdin and stdout."""
        self._undo_prints()
        for saved, fd in zip(self._saved, (_STDIN, _STDOUT), strict=True):
            os.dup2(saved, fd)
        for fd in (*self._saved, *self._were_closed):
            os.close(fd)
        type(self).taken = False

    def close(self) -> None:
        """Close the saved stdin and stdout."""
        for fd in self._saved:
            os.close(fd)


def _redirect_prints() -> Callable[[], None]:
    """Set `sys.stdout` to `sys.stderr`; return a function that undoes it."""
    stdout: TextIO | None = sys.stdout
    if stdout is None or not _writes_to(stdout, _STDOUT):
        return _nothing  # captured, or closed: it cannot reach the wire
    # Buffered prints go to stderr as well.
    _flush(stdout)
    stderr: TextIO | None = sys.stderr
    if stderr is not None:
        sys.stdout = stderr
    # The order is right also for those that hold the old stream, such as logging handlers.
    was_lined = getattr(stdout, "line_buffering", True)
    _buffer_lines(stdout, True)

    def undo() -> None:
        if sys.stdout is stderr:
            sys.stdout = stdout
        _flush(stdout)
        _buffer_lines(stdout, was_lined)

    return undo


def _buffer_lines(stream: TextIO, lined: bool) -> None:
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(line_buffering=lined)


def _nothing() -> None:
    pass


def _writes_to(stream: TextIO, fd: int) -> bool:
    try:
        return stream.fileno() == fd
    except (OSError, ValueError):
        return False


def _flush(stream: TextIO | None) -> None:
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        pass  # stderr has no reader, or the stream was closed


def _fill(fd: int) -> bool:
    """Open the null device if a file descriptor is closed; return whether it was."""
    try:
        os.fstat(fd)
    except OSError:
        # The lowest free number is assigned; those below are in use.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        return True
    return False


def _copy(fd: int) -> int:
    if sys.platform == "win32":
        msvcrt.setmode(fd, os.O_BINARY)
    return os.dup(fd)


def _private(saved: int, mode: int) -> int:
    """Return a private descriptor of a file.

    Non-blocking mode is a property of the open file, which may be shared: with stderr, the shell,
    or other children of the parent. So the file is opened again if Linux allows it.
    """
    if sys.platform == "linux":
        path = f"/proc/self/fd/{saved}"
        try:
            # Not a named pipe: if it is opened again, the end of its writer goes unnoticed.
            target = os.readlink(path)  # noqa: PTH115  # pathlib would cost the start 3 ms
            if os.isatty(saved) or target.startswith("pipe:"):
                return os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            pass  # no /proc, no permission, or no reader at the other end
    return os.dup(saved)


class Reader(Protocol):
    """Reads: calls `received` with bytes, and `ended` once. Owns its file descriptor."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def end_when_empty(self) -> None:
        """Read the available bytes, then end, although other processes could still write."""
        ...

    async def aclose(self) -> None: ...


class Writer(Protocol):
    """Writes: calls `writable` after a congestion, `broken` once. Owns its file descriptor."""

    congested: bool

    def write(self, data: Bytes) -> None: ...

    async def aclose(self, flush_s: float) -> None:
        """Write the waiting bytes, for at most `flush_s` seconds, and close."""
        ...


def open_reader(
    loop: asyncio.AbstractEventLoop,
    fd: int,
    received: Callable[[bytes], None],
    ended: Callable[[OSError | None], None],
) -> Reader:
    """Return a reader, which has started."""
    if sys.platform != "win32" and not _needs_thread(fd):
        try:
            return PolledReader(loop, fd, received, ended)
        except (OSError, NotImplementedError):
            pass  # /dev/null, or a loop without readers
    return ThreadedReader(loop, fd, received, ended)


def open_writer(
    loop: asyncio.AbstractEventLoop,
    fd: int,
    writable: Callable[[], None],
    broken: Callable[[OSError], None],
) -> Writer:
    """Return a writer."""
    if sys.platform != "win32" and not _needs_thread(fd):
        try:
            return PolledWriter(loop, fd, writable, broken)
        except (OSError, NotImplementedError):
            pass
    return ThreadedWriter(loop, fd, writable, broken)


def _needs_thread(fd: int) -> bool:
    """Whether polling has no effect, or would make a shared terminal non-blocking."""
    if sys.platform == "win32" or stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    return os.isatty(fd) and os.get_blocking(fd)


# Reads and writes file descriptors that the event loop polls: pipes, sockets, terminals.

_AT_ONCE = 64  # buffers in one system call


class PolledReader:
    """Reads when the descriptor is readable; raises `OSError` if it cannot be polled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        received: Callable[[bytes], None],
        ended: Callable[[OSError | None], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._received = received
        self._ended = ended
        self._over = False
        self._watched = False
        self._emptying = False
        self._was_blocking = os.get_blocking(fd)
        self.resume()
        os.set_blocking(fd, False)

    def pause(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not self._watched and not self._over:
            self._loop.add_reader(self._fd, self._ready)
            self._watched = True
            if self._emptying:
                self._loop.call_soon(self._empty)

    def end_when_empty(self) -> None:
        """Read the available bytes, then end, although other processes could still write."""
        if not self._emptying:
            self._emptying = True
            self._loop.call_soon(self._empty)

    async def aclose(self) -> None:
        self.pause()
        if self._fd >= 0:
            self._over = True
            _free(self._fd, self._was_blocking)
            self._fd = -1

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            if self._emptying:
                self._end(None)
        except OSError as exc:
            self._end(exc)
        else:
            if data:
                self._received(data)
            else:
                self._end(None)

    def _empty(self) -> None:
        for _ in range(LAST_READS):
            if not self._watched:
                return  # ended, or paused: `resume` continues
            self._ready()
        if self._watched:
            self._end(None)

    def _end(self, error: OSError | None) -> None:
        self.pause()
        self._over = True
        self._ended(error)


class PolledWriter:
    """Writes immediately what fits, and the rest when the descriptor is writable."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        writable: Callable[[], None],
        broken: Callable[[OSError], None],
    ) -> None:
        self.congested = False
        self._loop = loop
        self._fd = fd
        self._writable = writable
        self._broken = broken
        self._over = False
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._all_written: asyncio.Future[None] | None = None
        self._was_blocking = os.get_blocking(fd)
        loop.add_writer(fd, self._ready)  # raises if it cannot be polled
        loop.remove_writer(fd)
        os.set_blocking(fd, False)

    def write(self, data: Bytes) -> None:
        if self._over:
            return
        sent = 0
        if not self._waiting:
            try:
                sent = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as exc:
                self._break(exc)
                return
            if sent == len(data):
                return
            self._loop.add_writer(self._fd, self._ready)
        self._waiting.append(memoryview(data)[sent:])
        self._waiting_bytes += len(data) - sent
        if self._waiting_bytes > HIGH_BYTES:
            self.congested = True

    async def aclose(self, flush_s: float) -> None:
        """Write the waiting bytes, for at most `flush_s` seconds, and close."""
        try:
            if self._waiting and not self._over:
                self._all_written = self._loop.create_future()
                async with asyncio.timeout(flush_s):
                    await self._all_written
        except TimeoutError:
            pass  # the peer does not read
        finally:
            if self._waiting:
                self._loop.remove_writer(self._fd)
                self._waiting.clear()
            self._over = True
            if self._fd >= 0:
                _free(self._fd, self._was_blocking)
                self._fd = -1

    def _ready(self) -> None:
        waiting = self._waiting
        try:
            sent = os.writev(self._fd, list(islice(waiting, _AT_ONCE)))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._break(exc)
            return
        self._waiting_bytes -= sent
        while sent:
            first = waiting[0]
            if sent < len(first):
                waiting[0] = first[sent:]
                break
            sent -= len(first)
            waiting.popleft()
        if not waiting:
            self._done()
        if self.congested and self._waiting_bytes < LOW_BYTES:
            self.congested = False
            self._writable()

    def _done(self) -> None:
        self._loop.remove_writer(self._fd)
        if self._all_written is not None and not self._all_written.done():
            self._all_written.set_result(None)

    def _break(self, error: OSError) -> None:
        if self._waiting:
            self._waiting.clear()
            self._done()
        self._over = True
        self.congested: bool = False
        # Not from within `write`.
        self._loop.call_soon(self._writable)
        self._loop.call_soon(self._broken, error)


def _free(fd: int, was_blocking: bool) -> None:
    if was_blocking:
        # Other processes may share the open file, as a shell shares its terminal.
        os.set_blocking(fd, True)
    os.close(fd)


# Reads and writes file descriptors that no event loop polls: files, and all on Windows.
#
# Each reader and writer has a thread. The threads are daemons: one that blocks in a system call
# does not delay the end of the program. On POSIX they never block, since they poll first, together
# with a pipe that wakes them. On Windows a read ends when the other side closes the pipe.

Bytes: TypeAlias = bytes | bytearray | memoryview

LAST_READS = 16  # a pipe holds 64 KiB, or up to 1 MiB on request

_AHEAD = 4  # reads that the event loop has not handled yet
_GONE_S = 0.5  # for a thread to notice that it must stop


class _Worker:
    """A thread that works on one file descriptor and closes it at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, name: str) -> None:
        self._loop = loop
        self._fd = fd
        self._stopped = False
        self._gone: asyncio.Future[None] = loop.create_future()
        self._wake: tuple[int, ...] = () if sys.platform == "win32" else os.pipe()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._work()
        finally:
            os.close(self._fd)
            if not self._call_in_loop(self._leave):
                self._forget_wake()

    def _call_in_loop(self, callback: Callable[..., None], *args: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            self._stopped = True  # the event loop has been closed
            return False
        return True

    def _leave(self) -> None:
        self._forget_wake()
        self._gone.set_result(None)

    def _forget_wake(self) -> None:
        for fd in self._wake:
            os.close(fd)
        self._wake = ()

    def _stop(self) -> None:
        self._stopped = True
        if self._wake:
            os.write(self._wake[1], b"x")

    def _wait(self, *, writing: bool = False, forever: bool = True) -> bool:
        """Wait; return True if a system call will not block, False if stopped."""
        if sys.platform == "win32":
            return not self._stopped and forever
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT if writing else select.POLLIN)
        poll.register(self._wake[0], select.POLLIN)
        ready = poll.poll(None if forever else 0)
        return not self._stopped and any(fd == self._fd for fd, _ in ready)

    async def _wait_gone(self, timeout_s: float) -> bool:
        done, _ = await asyncio.wait([self._gone], timeout=timeout_s)
        return bool(done)


class ThreadedReader(_Worker):
    """Reads ahead a little, and calls `received` on the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        received: Callable[[bytes], None],
        ended: Callable[[OSError | None], None],
    ) -> None:
        self._received = received
        self._ended = ended
        self._slots = threading.Semaphore(_AHEAD)
        self._held: deque[bytes | OSError | None] = deque()
        self._paused = False
        self._over = False
        self._emptying = False
        super().__init__(loop, fd, "accord reader")

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._hand_over)

    def end_when_empty(self) -> None:
        """Read the available bytes, then end, although other processes could still write."""
        self._emptying = True
        if self._wake:
            os.write(self._wake[1], b"x")
        elif not self._over:
            # On Windows the thread stays blocked in a read.
            self._loop.call_soon(self._came, None)

    async def aclose(self) -> None:
        self._over = True
        self._held.clear()
        if not self._gone.done():
            self._stop()
            self._slots.release()
            await self._wait_gone(_GONE_S)

    def _work(self) -> None:
        error: OSError | None = None
        last_reads = 0
        try:
            while last_reads < LAST_READS:
                emptying = self._emptying
                if not self._wait(forever=not emptying):
                    if self._stopped:
                        return
                    if emptying:
                        break
                    continue  # woken for the last reads
                last_reads += emptying
                data = os.read(self._fd, READ_BYTES)
                if not data:
                    break
                self._slots.acquire()
                if self._stopped:
                    return
                self._call_in_loop(self._came, data)
        except OSError as exc:
            error = exc
        self._call_in_loop(self._came, error)

    def _came(self, item: bytes | OSError | None) -> None:
        self._held.append(item)
        self._hand_over()

    def _hand_over(self) -> None:
        while self._held and not self._paused and not self._over:
            item = self._held.popleft()
            if isinstance(item, bytes):
                self._slots.release()
                self._received(item)
            else:
                self._over = True
                self._ended(item)


class ThreadedWriter(_Worker):
    """Queues bytes and writes them in its thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        writable: Callable[[], None],
        broken: Callable[[OSError], None],
    ) -> None:
        self.congested = False
        self._writable = writable
        self._broken = broken
        self._over = False
        self._closing = False
        self._changed = threading.Condition()
        self._waiting: deque[Bytes] = deque()
        self._waiting_bytes = 0
        # A poll guarantees room for PIPE_BUF bytes; files always have room.
        if sys.platform == "win32" or stat.S_ISREG(os.fstat(fd).st_mode):
            self._max_piece = READ_BYTES
        else:
            self._max_piece = select.PIPE_BUF
        super().__init__(loop, fd, "accord writer")

    def write(self, data: Bytes) -> None:
        if self._over:
            return
        with self._changed:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self.congested = self._waiting_bytes > HIGH_BYTES or self.congested
            self._changed.notify()

    async def aclose(self, flush_s: float) -> None:
        """Write the waiting bytes, for at most `flush_s` seconds, and close."""
        self._over = True
        if self._gone.done():
            return
        try:
            with self._changed:
                self._closing = True
                self._changed.notify()
            if await self._wait_gone(flush_s):
                return
        finally:
            if not self._gone.done():
                self._stop()
        await self._wait_gone(_GONE_S)

    def _work(self) -> None:
        try:
            while data := self._next():
                view = memoryview(data)
                while view:
                    if not self._wait(writing=True):
                        return
                    sent = os.write(self._fd, view[: self._max_piece])
                    view = view[sent:]
                self._written(len(data))
        except OSError as exc:
            self._call_in_loop(self._break, exc)

    def _next(self) -> Bytes:
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else b""

    def _written(self, size: int) -> None:
        with self._changed:
            self._waiting_bytes -= size
            relieved = self.congested and self._waiting_bytes < LOW_BYTES
        if relieved:
            self._call_in_loop(self._relieve)

    def _relieve(self) -> None:
        with self._changed:
            relieved = self.congested and self._waiting_bytes < LOW_BYTES
            if relieved:
                self.congested = False
        if relieved and not self._over:
            self._writable()

    def _break(self, error: OSError) -> None:
        self._waiting.clear()
        self.congested: bool = False
        if not self._over:
            self._over = True
            self._writable()
            self._broken(error)
