"""Records what passes connections into a file: one connection, or every hop of a chain."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.jsonrpc.message import HEAD_BYTES
from accord.text.secrets import redacted_argv
from accord.transports.base import Frame
from accord.version import __version__
from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.records import Direction, Header
from accord_trace.redaction import with_possible_secrets
from accord_trace.trace_file import TraceFile

if TYPE_CHECKING:
    from accord.proxy.conductor import Component

log: logging.Logger = logging.getLogger("accord_trace")

_BATCH_BYTES = 64 * 1024  # of frames that wait for the end of the loop's iteration


_Waiting: TypeAlias = "tuple[HopRecorder, float, Direction, Frame]"


class _Observable(Protocol):
    def observe(self, observer: Callable[[Literal["received", "sent"], Frame], None]) -> None: ...


class LineFile(Protocol):
    """Where a recording writes whole lines; raises `OSError` if it cannot."""

    def write(self, lines: bytes) -> None:
        """Write whole lines."""
        ...

    def close(self) -> None:
        """Write the end."""
        ...


class Recording:
    """A file to which the messages of one or more connections are recorded.

    The file has mode 0600. Secrets are replaced unless `redact` is False (R-TRACE-05): values of
    environment variables, headers and logins. If the path ends in `.gz`, or in `.zst` with the
    extra `zstd`, it is compressed; with `max_bytes`, parts `r.2.acp.jsonl`, … follow. Second 0 was
    `age_s` seconds ago. Nothing is dropped: recording happens before the caller continues. If the
    file cannot be written any more, `error` is set and logged, and the connections continue. Raise
    `OSError` if the file cannot be created. Lines go to `file` instead, if it is given.

    A context manager, which closes the file. Its methods may be called in any thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        redact: bool = True,
        max_bytes: int | None = None,
        argv: Sequence[str] = (),
        age_s: float = 0.0,
        file: LineFile | None = None,
    ) -> None:
        self.path: Path = Path(path)
        self.error: OSError | None = None
        self._redact = redact
        self._argv = redacted_argv(argv) if redact else list(argv)
        self._lock = threading.Lock()
        self._started = datetime.now(UTC) - timedelta(seconds=age_s)
        self._zero = time.perf_counter() - age_s
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._is_flush_due = False
        self._hops = 0
        self._is_closed = False
        self._file: LineFile
        if file is None:
            self._file = TraceFile(self.path, self._header, max_bytes=max_bytes)
        else:
            self._file = file
            file.write(self._header(1))

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def hop(
        self, client: str = "Client", agent: str = "Agent", *, conn: str | None = None
    ) -> HopRecorder:
        """Return what records one connection; the names are those of its two ends.

        The components of a chain are `Client`, `Proxy(0)`, `Proxy(1)`, …, `Agent`.
        """
        with self._lock:
            self._hops += 1
            number = str(self._hops)
        return HopRecorder(self, Hop(client, agent, conn or number), redact=self._redact)

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._zero

    def add(
        self, hop: HopRecorder, frames: Iterable[tuple[Direction, Frame]], ts: float | None = None
    ) -> None:
        """Write frames now, after those that wait; `ts` is their time, if not now."""
        if ts is None:
            ts = self.now()
        with self._lock:
            for direction, frame in frames:
                self._waiting.append((hop, ts, direction, frame))
            self._write()

    def queue(self, frames: Iterable[tuple[HopRecorder, float, Direction, Frame]]) -> None:
        """Let frames, each with its second, wait for the next write, or for `flush`."""
        with self._lock:
            self._waiting.extend(frames)

    def add_soon(self, hop: HopRecorder, direction: Direction, frame: Frame) -> None:
        """Write a frame in this iteration of the event loop, together with others.

        Without a running event loop it is written now.
        """
        with self._lock:
            self._waiting.append((hop, self.now(), direction, frame))
            self._waiting_bytes += len(frame)
            if self._waiting_bytes < _BATCH_BYTES and (self._is_flush_due or self._call_flush()):
                return
            self._write()

    def add_end(
        self, hop: HopRecorder, direction: Direction, reason: str, ts: float | None = None
    ) -> None:
        """Write the end of a side now; `ts` is its time, if not now."""
        with self._lock:
            self._write(hop.lines.end(self.now() if ts is None else ts, direction, reason))

    def flush(self) -> None:
        """Write the frames that wait."""
        with self._lock:
            self._is_flush_due = False
            self._write()

    def close(self) -> None:
        """Write the frames that wait, and close the file; may be called repeatedly."""
        with self._lock:
            if self._is_closed:
                return
            self._write()
            self._is_closed = True
            try:
                self._file.close()
            except OSError as exc:
                self._failed(exc)

    def _call_flush(self) -> bool:
        """Call `flush` in this iteration of the event loop; return False if none is running."""
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            return False
        self._is_flush_due = True
        return True

    def _write(self, more: bytes = b"") -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if self._is_closed or self.error is not None:
            return
        lines = b"".join(_lines(waiting, redact=self._redact))
        if not lines and not more:
            return
        try:
            self._file.write(lines + more)
        except OSError as exc:
            self._failed(exc)

    def _failed(self, error: OSError) -> None:
        if self.error is None:
            self.error = error
            log.error("! cannot write %s: %s; the rest is not recorded", self.path, error.strerror)

    def _header(self, part: int) -> bytes:
        header = Header(
            t=self._started.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            program=f"accord {__version__}",
            argv=self._argv,
            versions={"accord": __version__, "python": sys.version.split()[0]},
            redacted=self._redact,
            part=part,
        )
        # `version` is written although it has its default: readers decide by it.
        fields = {"type": "header", "version": header.version, **msgspec.to_builtins(header)}
        return msgspec.json.encode(fields) + b"\n"


def _lines(waiting: list[_Waiting], *, redact: bool) -> list[bytes]:
    lines = [hop.lines.repeated(ts, direction, frame) for hop, ts, direction, frame in waiting]
    if None not in lines:
        return lines  # type: ignore[return-value]  # has no None
    others = [number for number, line in enumerate(lines) if line is None]
    found = with_possible_secrets([waiting[number][3] for number in others]) if redact else ()
    for place, number in enumerate(others):
        hop, ts, direction, frame = waiting[number]
        # It may repeat a frame whose line was made since.
        line = hop.lines.repeated(ts, direction, frame) if place else None
        lines[number] = line or hop.lines.line(
            ts, direction, frame, may_have_secrets=place in found
        )
    return [line for line in lines if line]


class HopRecorder:
    """Records the frames of one connection; made by `Recording.hop`."""

    def __init__(self, recording: Recording, hop: Hop, *, redact: bool) -> None:
        self.recording: Recording = recording
        self.lines: LineBuilder = LineBuilder(hop, redact=redact)  # used by the recording

    def frame(self, direction: Direction, frame: Frame) -> None:
        """Record a frame; it is written in this iteration of the event loop."""
        self.recording.add_soon(self, direction, frame)

    def frames(
        self, direction: Direction, frames: Sequence[Frame], *, ts: float | None = None
    ) -> None:
        """Record frames that were read together, now or at second `ts`, and write them now."""
        self.recording.add(self, [(direction, frame) for frame in frames], ts)

    def refused(self, direction: Direction, head: bytes) -> None:
        """Record the beginning of a frame that exceeds the limit of a transport."""
        self.frames(direction, [head[:HEAD_BYTES]])

    def end(self, direction: Direction, reason: str = "", *, ts: float | None = None) -> None:
        """Record that the side that sends in this direction has ended, now or at second `ts`."""
        self.recording.add_end(self, direction, reason, ts)

    def observer(
        self, side: Literal["client", "agent"]
    ) -> Callable[[Literal["received", "sent"], Frame], None]:
        """Return an observer for a connection of Accord that is the client's, or the agent's."""
        sent: Direction = "to_agent" if side == "client" else "to_client"
        received: Direction = "to_client" if side == "client" else "to_agent"

        def observe(direction: Literal["received", "sent"], frame: Frame) -> None:
            self.frame(sent if direction == "sent" else received, frame)

        return observe


def record(
    connection: _Observable,
    path: str | os.PathLike[str],
    *,
    side: Literal["client", "agent"] = "client",
    redact: bool = True,
    max_bytes: int | None = None,
) -> Recording:
    """Record every message of a connection from now on; return the recording, to be closed.

    `side` is this program's end of the connection. See `Recording` for the rest. To record the
    handshake of `accord.connect` too, use `observers=[recording.hop().observer("client")]`.
    """
    recording = Recording(path, redact=redact, max_bytes=max_bytes, argv=sys.argv)
    connection.observe(recording.hop().observer(side))
    return recording


# Chains: each message on each connection of two neighbours. What knows the messages of proxies is
# imported when a chain is recorded.

CLIENT = "client"  # the name of the hop to the client


class _Message(Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Message).decode


class ProxyRecorder:
    """Records one connection to a proxy, which carries the messages of two hops.

    Plain messages are those of `left`, the hop towards the client. Wrapped ones are those of
    `right`; they are recorded as the messages inside, with the id of the connection. Without a
    recorder for a hop, its messages are skipped.
    """

    def __init__(self, left: HopRecorder | None, right: HopRecorder | None) -> None:
        from accord.proxy.hop import SUCCESSOR

        self._successor = SUCCESSOR
        self._left = left
        self._right = right
        # Ids of wrapped requests without a response, by whether they went to the proxy.
        self._wrapped: dict[bool, set[bytes]] = {True: set(), False: set()}

    def frame(self, frame: Frame, *, to_proxy: bool) -> None:
        """Record a frame."""
        try:
            message = _decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = _Message()
        if message.method is UNSET:
            waiting = self._wrapped[not to_proxy]
            number = b"" if message.id is UNSET else bytes(message.id)
            is_wrapped = number in waiting
            waiting.discard(number)
        else:
            is_wrapped = message.method in self._successor
            if is_wrapped and message.id is not UNSET:
                self._wrapped[to_proxy].add(bytes(message.id))
        if is_wrapped:
            self._record(
                self._right, "to_client" if to_proxy else "to_agent", _inner(message, frame)
            )
        else:
            self._record(self._left, "to_agent" if to_proxy else "to_client", frame)

    @staticmethod
    def _record(hop: HopRecorder | None, direction: Direction, frame: Frame) -> None:
        if hop is not None:
            hop.frame(direction, frame)


class ChainRecorder:
    """An observer of one chain, for `Chain.observed`: it records every hop.

    The hops are those between `Client`, `Proxy(0)`, …, `Agent`. The hop between two proxies of
    this process has no messages of its own. The names of the components must be unique; see
    `with_unique_names`.
    """

    def __init__(self, recording: Recording, components: Sequence[Component]) -> None:
        self._recording = recording
        self._components = components
        self._connections: dict[str, ProxyRecorder] = {}

    def __call__(self, hop: str, direction: Literal["received", "sent"], frame: Frame) -> None:
        """Record a frame of a connection of the chain."""
        if not self._connections:
            from accord.proxy.hop import PROXY_INITIALIZE

            is_proxy = any(name.encode() in frame for name in PROXY_INITIALIZE)
            self._connections = self._open(is_proxy=is_proxy)
        connection = self._connections.get(hop)
        if connection is not None:
            # What the client sends arrives here; what a component receives is sent from here.
            connection.frame(frame, to_proxy=(direction == "received") is (hop == CLIENT))

    def _open(self, *, is_proxy: bool) -> dict[str, ProxyRecorder]:
        """Return the recorders; a chain that is a proxy itself has a successor after the last."""
        parts = self._components
        proxies = len(parts) if is_proxy else len(parts) - 1
        names = ["Client", *(f"Proxy({number})" for number in range(proxies)), "Agent"]
        hops = [
            self._recording.hop(names[number], names[number + 1], conn=str(number))
            for number in range(len(names) - 1)
        ]
        has_connection = [part.make_stage is None for part in parts]
        first = None if has_connection[0] else hops[0]
        last = hops[-1] if is_proxy and not has_connection[-1] else None
        found = {CLIENT: ProxyRecorder(first, last)}
        for number, part in enumerate(parts):
            if not has_connection[number]:
                continue
            # A hop is recorded at its right end, or at the left one if the right is an object.
            is_last = number == len(parts) - 1
            is_seen_right = not is_last and has_connection[number + 1]
            right = hops[number + 1] if number + 1 < len(hops) and not is_seen_right else None
            found[part.name] = ProxyRecorder(hops[number], right)
        return found


def proxy_recorder(recording: Recording) -> ProxyRecorder:
    """Return the recorder of a program that is a proxy: it sees the hops on both its sides."""
    return ProxyRecorder(
        recording.hop("Client", "Proxy(0)", conn="0"), recording.hop("Proxy(0)", "Agent", conn="1")
    )


def _inner(message: _Message, frame: Frame) -> Frame:
    """Return the frame of a wrapped message; a response is not wrapped."""
    if message.method is UNSET or message.params is UNSET:
        return frame
    from accord.errors import InvalidParams
    from accord.proxy.hop import unwrap

    try:
        method, params = unwrap(message.params)
    except InvalidParams:
        return frame
    number = b"" if message.id is UNSET else b',"id":%b' % message.id
    shown = b"" if params is UNSET else b',"params":%b' % params
    return b'{"jsonrpc":"2.0"%b,"method":%b%b}' % (number, msgspec.json.encode(method), shown)
