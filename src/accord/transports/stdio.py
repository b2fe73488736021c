"""The agent's way to its client: this process' own stdin and stdout."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import TextIO

from accord.errors import TransportError
from accord.transports.base import FRAME_BYTES, Transport
from accord.transports.pipes import PipeTransport

__all__ = ("stdio",)

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def stdio(*, frame_bytes: int = FRAME_BYTES, give_back: bool = True) -> Transport:
    """Take stdin and stdout for the wire, at once.

    From now on file descriptor 1 is stderr and 0 is empty, so that neither a `print` nor a
    library nor a child process can write into the wire or read from it (R-STDIO-04). `aclose`
    gives both back; a program that does nothing but serve says no to that, then its last
    prints are kept from the wire as well.

    Raises `TransportError` when another transport has them.
    """
    if _Standard.taken:
        raise TransportError("stdin and stdout are the wire of another transport")
    return _StdioTransport(frame_bytes, give_back=give_back)


class _StdioTransport(PipeTransport):
    def __init__(self, frame_bytes: int, *, give_back: bool) -> None:
        self._standard = _Standard()
        self._give_back = give_back
        super().__init__(self._standard.wire_in, self._standard.wire_out, frame_bytes=frame_bytes)

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            if self._give_back:
                self._standard.give_back()
            else:
                self._standard.forget()


class _Standard:
    """Stdin and stdout, moved out of everybody's reach."""

    taken = False

    def __init__(self) -> None:
        type(self).taken = True
        self._saved_err = None if _is_open(_STDERR) else _STDERR
        if self._saved_err is not None:
            # Otherwise the next file opened would be where C libraries write their warnings.
            _put_null(_STDERR, os.O_WRONLY)
        self._saved_in = _copy(_STDIN)
        self._saved_out = _copy(_STDOUT)
        self.wire_in = _private(self._saved_in, os.O_RDONLY)
        self.wire_out = _private(self._saved_out, os.O_WRONLY)
        _put_null(_STDIN, os.O_RDONLY)
        os.dup2(_STDERR, _STDOUT)
        self._undo_prints = _redirect_prints()

    def give_back(self) -> None:
        """Make them what they were."""
        self._undo_prints()
        _put_back(self._saved_in, _STDIN)
        _put_back(self._saved_out, _STDOUT)
        if self._saved_err is not None:
            os.close(self._saved_err)
        type(self).taken = False

    def forget(self) -> None:
        """Close the real ones."""
        for saved in (self._saved_in, self._saved_out):
            if saved is not None:
                os.close(saved)


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


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _copy(fd: int) -> int | None:
    """Return a copy of a standard file descriptor above them; None when it is closed."""
    if not _is_open(fd):
        return None
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(fd, os.O_BINARY)
        return _above(os.dup(fd))
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)


def _above(fd: int) -> int:
    """Return the same file with a number that is not one of the standard three."""
    if fd > _STDERR:
        return fd
    higher = _above(os.dup(fd))
    os.close(fd)
    return higher


def _private(saved: int | None, mode: int) -> int:
    """Return the wire's own way to the file.

    Being non-blocking is a property of the open file, which may be shared: with stderr, with
    the shell, with the parent's other children. So it is opened once more where Linux lets us.
    """
    if saved is None:
        return _above(os.open(os.devnull, mode))
    if sys.platform == "linux" and _can_open_again(saved):
        try:
            flags = mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{saved}", flags)
        except OSError:
            pass  # no /proc, not ours, or nobody at the other end
    return _above(os.dup(saved))


def _can_open_again(fd: int) -> bool:
    return stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd)


def _put_null(fd: int, mode: int) -> None:
    null = os.open(os.devnull, mode)
    if null == fd:
        os.set_inheritable(fd, True)
    else:
        os.dup2(null, fd)
        os.close(null)


def _put_back(saved: int | None, fd: int) -> None:
    if saved is None:
        os.close(fd)
    else:
        os.dup2(saved, fd)
        os.close(saved)
