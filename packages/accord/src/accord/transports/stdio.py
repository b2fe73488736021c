"""The transport of agents: stdin and stdout of this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import TextIO

from accord.errors import TransportError
from accord.transports.base import FRAME_BYTES, Transport
from accord.transports.pipes import PipeTransport

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
