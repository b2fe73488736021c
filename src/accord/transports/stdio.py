"""The agent's way to its client: this process' own stdin and stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import TextIO

from accord.errors import TransportError
from accord.transports.base import FRAME_BYTES, Transport
from accord.transports.pipes import PipeTransport

__all__ = ("stdio",)

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def stdio(*, frame_bytes: int = FRAME_BYTES, restore: bool = True) -> Transport:
    """Take stdin and stdout for the wire, at once.

    From now on file descriptor 1 is stderr and 0 is empty, so that neither a `print` nor a
    library nor a child process can write into the wire or read from it (R-STDIO-04). `aclose`
    gives both back; a program that does nothing but serve says no to that, then its last
    prints are kept from the wire as well.

    Raises `TransportError` when another transport has them.
    """
    if _StandardStreams.taken:
        raise TransportError("stdin and stdout are the wire of another transport")
    return _StdioTransport(frame_bytes, restore=restore)


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
    """Stdin and stdout, moved out of everybody's reach."""

    taken = False

    def __init__(self) -> None:
        type(self).taken = True
        # Else the next file opened would be where C libraries write their warnings.
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
        """Make them what they were."""
        self._undo_prints()
        for saved, fd in zip(self._saved, (_STDIN, _STDOUT), strict=True):
            os.dup2(saved, fd)
        for fd in (*self._saved, *self._were_closed):
            os.close(fd)
        type(self).taken = False

    def close(self) -> None:
        """Close the real ones."""
        for fd in self._saved:
            os.close(fd)


def _redirect_prints() -> Callable[[], None]:
    """Let `sys.stdout` be `sys.stderr`; return what undoes it."""
    stdout: TextIO | None = sys.stdout
    if stdout is None or not _writes_to(stdout, _STDOUT):
        return _nothing  # captured by somebody, or closed: it cannot reach the wire
    # What was printed before belongs to stderr as well.
    _flush(stdout)
    stderr: TextIO | None = sys.stderr
    if stderr is not None:
        sys.stdout = stderr
    # Who holds the old stream, as logging handlers do, gets the order right, too.
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
    """Put the null device where nothing is; return whether that was so."""
    try:
        os.fstat(fd)
    except OSError:
        # The lowest free number is given out, and those below are taken.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        return True
    return False


def _copy(fd: int) -> int:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(fd, os.O_BINARY)
    return os.dup(fd)


def _private(saved: int, mode: int) -> int:
    """Return the wire's own way to the file.

    Being non-blocking is a property of the open file, which may be shared: with stderr, with
    the shell, with the parent's other children. So it is opened once more where Linux lets us.
    """
    if sys.platform == "linux":
        path = f"/proc/self/fd/{saved}"
        try:
            # Not a named pipe: opened once more it would not tell that its writer has gone.
            target = os.readlink(path)  # noqa: PTH115  # pathlib would cost the start 3 ms
            if os.isatty(saved) or target.startswith("pipe:"):
                return os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            pass  # no /proc, not ours, or nobody at the other end
    return os.dup(saved)
