"""What a process writes in addition to messages, and how errors report it.

The end of its stderr and the last lines on its stdout that are not messages are remembered in one
place. Errors get them as lines without escape sequences and secrets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from accord.errors import (
    AuthRequired,
    InvalidParams,
    MethodNotFound,
    RequestCancelled,
    ResourceNotFound,
    VersionNotOffered,
)
from accord.text.excerpt import output_lines
from accord.text.redact import SHORTEST, redactor, secret_variables
from accord.text.secrets import redacted_text
from accord.transports.base import Frame
from accord.transports.fd import Reader, open_reader

log: logging.Logger = logging.getLogger("accord.transports")

STDERR_BYTES = 64 * 1024  # kept
_NOISE_BYTES = 4096  # of a line that is not JSON
MAX_LINES = 20  # of stderr and of stdout, in an error
MAX_LINE_CHARACTERS = 500
_LATE_S = 0.25  # for a line of stderr that is written after the response about which it is
_QUIET_S = 0.05  # between two lines that belong together
_SETTLE_S = 0.5  # for all of them

# These say what is wrong, and do not come from a failure of the agent.
_CLEAR = (MethodNotFound, RequestCancelled, VersionNotOffered)
_DELIBERATE = (AuthRequired, InvalidParams, ResourceNotFound)

_MARK = "_has_last_lines"  # of errors that were explained


class LastLines(Struct, frozen=True):
    """The last lines of a process, without escape sequences, control characters and secrets.

    `stdout` has lines that are not messages, and only if the process has sent no message yet.
    """

    stderr: tuple[str, ...] = ()
    stdout: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """The last line; that of stdout if there is none on stderr."""
        lines = self.stderr or self.stdout
        return lines[-1] if lines else ""

    def note(self) -> str:
        """Return the lines as the note of an error; empty if there are none."""
        parts: list[str] = []
        if self.stdout:
            parts.append("The last lines on the agent's stdout, which must contain only JSON:")
            parts += (f"  {line}" for line in self.stdout)
        if self.stderr:
            parts.append("The last lines of the agent's stderr:")
            parts += (f"  {line}" for line in self.stderr)
        return "\n".join(parts)

    def add_to(self, error: BaseException) -> None:
        """Add the lines to an error: as its note, and as `stderr` and `stdout`."""
        of_error: Any = error
        if self.stderr:
            of_error.stderr = "\n".join(self.stderr)
        if self.stdout:
            of_error.stdout = "\n".join(self.stdout)
        if note := self.note():
            error.add_note(note)

    @classmethod
    def of(cls, error: BaseException) -> LastLines:
        """Return the lines that were added to an error."""
        texts = (vars(error).get(name) for name in ("stderr", "stdout"))
        return cls(*(tuple(text.split("\n")) if text else () for text in texts))


class ProcessOutput:
    """Reads stderr continuously, so that the process never blocks on it; remembers the end."""

    def __init__(
        self,
        on_stderr: Callable[[str], None] | None,
        on_noise: Callable[[str], None] | None,
        on_output: Callable[[int], None] | None,
    ) -> None:
        self.env: Mapping[str, str] | None = None  # of the process; None: that of this one
        self.has_sent: bool = False  # a message
        self._on_stderr = on_stderr
        self._on_noise = on_noise
        self._on_output = on_output
        self._kept = bytearray()
        self._was_cut = False
        self.stderr_bytes: int = 0  # read so far
        self._noise: deque[bytes] = deque(maxlen=MAX_LINES)
        self._partial_line = b""
        self._reader: Reader | None = None
        self._over: asyncio.Future[None] | None = None
        self._more: asyncio.Future[None] | None = None  # set while a caller waits for more
        self._read_at = 0.0

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of stderr, as the process wrote them."""
        return self._kept[-STDERR_BYTES:].decode("utf-8", "replace")

    # Reading.

    def begin(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        """Read stderr from now on."""
        self._over = loop.create_future()
        self._reader = open_reader(loop, fd, self._received, self._ended)

    def end_when_empty(self) -> None:
        """Read what the pipe holds, and not more."""
        if self._reader is not None:
            self._reader.end_when_empty()

    async def wait_until_read(self, timeout_s: float) -> None:
        """Wait for the end of stderr."""
        if self._over is not None:
            await asyncio.wait([self._over], timeout=timeout_s)

    async def aclose(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            await self._reader.aclose()
            self._ended(None)

    def add_noise(self, line: Frame) -> None:
        """Add a line of stdout that is not JSON."""
        if self._on_noise is not None:
            _show(self._on_noise, bytes(line[:_NOISE_BYTES]))
        if not self.has_sent:
            self._noise.append(bytes(line[:_NOISE_BYTES]))

    def _received(self, data: bytes) -> None:
        if self._on_output is not None:
            self._on_output(len(data))
        self._kept += data
        self.stderr_bytes += len(data)
        if len(self._kept) > 2 * STDERR_BYTES:
            del self._kept[:-STDERR_BYTES]
            self._was_cut = True
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
        self._read_at = time.monotonic()
        if self._on_stderr is None:
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if len(self._partial_line) > STDERR_BYTES:
            lines.append(self._partial_line)
            self._partial_line = b""
        for line in lines:
            _show(self._on_stderr, line)

    def _ended(self, _: OSError | None) -> None:
        if self._partial_line and self._on_stderr is not None:
            _show(self._on_stderr, self._partial_line)
            self._partial_line = b""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    # Errors.

    async def lines_after(self, stderr_bytes: int) -> LastLines:
        """Return the last lines of stderr after its first bytes; wait a short time for more."""
        await self._settle()
        return LastLines(self.last_lines(after=stderr_bytes).stderr)

    def last_lines(self, *, unseen: bool = False, after: int = 0) -> LastLines:
        """Return the last lines; with `unseen` only those that no callback has received.

        Those of stderr have something that came `after` so many bytes.
        """
        secrets = _parts(secret_variables(os.environ if self.env is None else self.env).values())
        stderr = stdout = ()
        if not (unseen and self._on_stderr is not None):
            data, was_cut = self._stderr_after(after)
            stderr = _lines(data, secrets, was_cut=was_cut)
        if not self.has_sent and not (unseen and self._on_noise is not None):
            stdout = _lines(b"\n".join(self._noise), secrets)
        return LastLines(stderr, stdout)

    def _stderr_after(self, count: int) -> tuple[bytes, bool]:
        """Return what is kept, in whole lines, and whether it lost its beginning."""
        if count == self.stderr_bytes:
            return b"", False
        start = max(0, len(self._kept) - (self.stderr_bytes - count))
        start = self._kept.rfind(b"\n", 0, start) + 1
        return bytes(self._kept[start:]), self._was_cut and start == 0

    async def explain(self, error: BaseException) -> None:
        """Add the last lines to an error, once: as its note, and as `stderr` and `stdout`."""
        if isinstance(error, _CLEAR) or _MARK in vars(error):
            return
        if not isinstance(error, _DELIBERATE) and self._on_stderr is None:
            await self._settle()
        self.add_to(error)

    def add_to(self, error: BaseException) -> None:
        """Do the same without waiting for a line that is just being written."""
        if _MARK in vars(error):
            return
        self.last_lines(unseen=True).add_to(error)
        vars(error)[_MARK] = True

    async def _settle(self) -> None:
        """Wait a short time for lines that are just being written."""
        if self._over is None:
            return
        deadline = time.monotonic() + _SETTLE_S
        quiet_s = _QUIET_S if time.monotonic() - self._read_at < _LATE_S else _LATE_S
        while not self._over.done() and (left_s := deadline - time.monotonic()) > 0:
            if self._more is None or self._more.done():
                self._more = asyncio.get_running_loop().create_future()
            await asyncio.wait(
                [self._more, self._over],
                timeout=min(quiet_s, left_s),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not self._more.done():
                return
            quiet_s = _QUIET_S


def _lines(data: bytes, secrets: tuple[str, ...], *, was_cut: bool = False) -> tuple[str, ...]:
    """Return the last lines of an output, cleaned, and then without secrets."""
    text = data[-STDERR_BYTES:].decode("utf-8", "replace")
    if was_cut or len(data) > STDERR_BYTES:  # a line, and perhaps a secret, lost its beginning
        head, _, rest = text.partition("\n")
        text = rest or head[_secret_end(head, secrets) :]
    text = "\n".join(line for line in output_lines(text) if line.strip())
    # Before lines are shortened: a part of a secret would not be found.
    text = redacted_text(redactor(secrets).text(text))
    lines = text.split("\n")[-MAX_LINES:] if text else ()
    return tuple(_shortened(redacted_text(line)) for line in lines)  # a line can be JSON


def _secret_end(text: str, secrets: tuple[str, ...]) -> int:
    """Return how many characters at the beginning can be the end of a secret."""
    ends = (n for secret in secrets for n in range(1, len(secret)) if text.startswith(secret[-n:]))
    return max(ends, default=0)


def _shortened(line: str) -> str:
    """Return a line with both ends: what failed can be at either."""
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    half = (MAX_LINE_CHARACTERS - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def _parts(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return secrets, and the lines of those that have several."""
    lines = (line for secret in secrets for line in (secret, *secret.split()))
    return tuple(dict.fromkeys(line for line in lines if len(line) >= SHORTEST))


def _show(callback: Callable[[str], None], line: bytes) -> None:
    try:
        callback(line.decode("utf-8", "replace").rstrip("\r"))
    except Exception:  # an error in a callback must not end the connection
        log.exception("! %s failed", getattr(callback, "__name__", "an observer"))
