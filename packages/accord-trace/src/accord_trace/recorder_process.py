"""Records an agent in a process of its own, which writes what it receives, however the sender ends.

The sender (`run_tee`) only copies a message and passes it on, so that messages are hardly delayed.
It hands over blocks: what was read from one side at one time. The process (`recorder_program`)
looks at them when a processor has nothing else to do. Up to 64 MB wait; then the sender waits. On
Linux they are in memory that both have (`ring`), elsewhere in a pipe.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from accord.transports.base import READ_BYTES
from accord.transports.command_line import find_program, why_not_started
from accord_trace.records import Direction
from accord_trace.trace_file import packer_of

# Blocks in a pipe.

_HEAD = struct.Struct("<BdI")  # direction, time, size of what follows; size 0 is the end
_READ_BYTES = 1024 * 1024
_QUEUE_BYTES = 64 * 1024 * 1024  # that wait in memory
_FEW_BYTES = 64 * 1024
_PAUSE_S = 0.002


def packed_block(direction: int, ts: float, data: bytes) -> bytes:
    """Return a block as it is written to the pipe."""
    return _HEAD.pack(direction, ts, len(data)) + data


class PipeBlocks:
    """Reads blocks from the pipe; a burst waits in memory, so that its sender need not wait."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._rest = b""  # of a block that is incomplete
        self._is_open = True
        self._is_ready: Callable[[], bool] = lambda: False
        if sys.platform != "win32":
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            self._is_ready = lambda: bool(poll.poll(0))

    def next(self) -> list[tuple[int, float, bytes]] | None:
        """Return the next blocks: the number of their direction, time, data; None at the end.

        After the death of the sender the last block may be shorter than it was.
        """
        while self._is_open and self._waiting_bytes < _QUEUE_BYTES:
            if self._waiting and not self._is_ready():
                break
            data = os.read(self._fd, _READ_BYTES)
            self._is_open = bool(data)
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        if not self._waiting:
            return None
        data = self._waiting.popleft()
        self._waiting_bytes -= len(data)
        if 0 < len(data) < _FEW_BYTES and not self._waiting:
            time.sleep(_PAUSE_S)  # messages of a dialogue are written together
        return self._split(data)

    def _split(self, data: bytes) -> list[tuple[int, float, bytes]]:
        is_last = not data
        data, at = self._rest + data, 0
        blocks: list[tuple[int, float, bytes]] = []
        while len(data) - at >= _HEAD.size:
            number, ts, size = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + size
            if end > len(data) and not is_last:
                break
            if size == 0 or end - size < len(data):
                blocks.append((number, ts, data[at + _HEAD.size : end]))
            at = end
        self._rest = data[at:]
        return blocks


if sys.platform == "linux":
    from accord_trace.ring import HURRY, WAKE, BlockRing


DIRECTIONS: tuple[Direction, Direction] = ("to_agent", "to_client")
_PROGRAM = "accord_trace.recorder_program"
_FULL_S = 0.005  # between two looks at a ring that is full
_NEW_GROUP = 0x200  # of Windows


class Settings(Struct, frozen=True):
    """What is recorded where; `zero` is the time of the blocks that is second 0.

    If `ring_fd` is None, the blocks come through stdin.
    """

    path: str
    argv: list[str]
    redact: bool = True
    max_bytes: int | None = None
    zero: float = 0.0
    ring_fd: int | None = None


class RecorderProcess:
    """Starts the process; its methods may be called in any thread."""

    def __init__(self, settings: Settings) -> None:
        """Create the file and start the process; raise `OSError` if that is not possible."""
        os.close(os.open(settings.path, os.O_WRONLY | os.O_CREAT, 0o600))
        packer_of(Path(settings.path))  # whether it is installed
        self._lock = threading.Lock()
        self._is_lost = False
        self._is_in_a_hurry = False
        self._ring: BlockRing | None = None
        shared: tuple[int, ...] = ()
        if sys.platform == "linux":
            self._ring = BlockRing()
            shared = (self._ring.fd,)
        # Signals to the group of this process do not end it: it ends when the pipe does. It stays
        # in the session, because Linux may share out the processors by session first.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM],  # nothing of the working directory is imported
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=shared,
            process_group=0 if sys.platform != "win32" else None,
            creationflags=_NEW_GROUP if sys.platform == "win32" else 0,
        )
        assert self._process.stdin is not None
        self._fd = self._process.stdin.fileno()
        text = msgspec.json.encode(
            msgspec.structs.replace(
                settings, zero=time.perf_counter(), ring_fd=shared[0] if shared else None
            )
        )
        self._send(len(text).to_bytes(4, "little") + text)

    def data(self, direction: Direction, data: bytes) -> None:
        """Record what was read from one side."""
        with self._lock:
            self._hand_over(DIRECTIONS.index(direction), time.perf_counter(), data)

    def end(self, direction: Direction) -> None:
        """Record the end of the side that sends in this direction."""
        self.data(direction, b"")

    def close(self) -> None:
        """Wait until everything is written."""
        assert self._process.stdin is not None
        with self._lock:
            is_lost, self._is_lost = self._is_lost, True  # the other direction may still send
            with suppress(OSError):
                self._process.stdin.close()
        if self._process.wait() < 0 and not is_lost:
            self._lost()

    def _hand_over(self, direction: int, ts: float, data: bytes) -> None:
        ring = self._ring
        if self._is_lost:
            return
        if ring is None:
            self._send(packed_block(direction, ts, data))
            return
        while not ring.write(direction, ts, data):
            if self._process.poll() is not None:
                self._lost()
                return
            time.sleep(_FULL_S)
        if ring.is_asleep():
            self._send(WAKE)
        if ring.is_more_than_half_full is not self._is_in_a_hurry:
            self._is_in_a_hurry = not self._is_in_a_hurry
            if self._is_in_a_hurry:
                self._send(HURRY)

    def _send(self, data: bytes) -> None:
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                data = data[written:]
                written = os.write(self._fd, data)
        except OSError:
            self._lost()

    def _lost(self) -> None:
        self._is_lost = True
        sys.stderr.write("accord trace: the recorder ended: the rest is lost\n")


_SWITCH_S = 0.0005  # the other direction waits at most this long for the interpreter
_STDIN, _STDOUT = 0, 1


def run_tee(argv: Sequence[str], open_recorder: Callable[[], RecorderProcess]) -> int:
    """Run a command between stdin and stdout; return its exit status.

    Bytes pass as they are, also those that are not protocol; stderr is inherited. They are given to
    the recorder first, so that no response is recorded before its request. If one side does not
    read, the other one stops, as in a pipe. Signals that end this process go to the agent.
    Raise `StartError`, and record nothing, if the agent cannot be started; raise what
    `open_recorder` raises, after the agent was killed.
    """
    program = find_program(argv[0], None, dict(os.environ))
    try:
        agent = subprocess.Popen(
            [program, *argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as exc:
        raise why_not_started(argv[0], program, exc) from exc
    assert agent.stdin is not None
    assert agent.stdout is not None
    try:
        recorder = open_recorder()
    except BaseException:
        with agent:  # closes its pipes
            agent.kill()
        raise
    try:
        return _pass_all(agent, recorder)
    finally:
        recorder.close()


def _pass_all(agent: subprocess.Popen[bytes], recorder: RecorderProcess) -> int:
    assert agent.stdin is not None
    assert agent.stdout is not None
    sys.setswitchinterval(_SWITCH_S)
    _pass_signals(agent)
    to_agent = _Pass(_STDIN, agent.stdin.fileno(), recorder, "to_agent")
    to_client = _Pass(agent.stdout.fileno(), _STDOUT, recorder, "to_client")
    # A daemon: it may wait for a client that stays connected after the agent has exited.
    reader = threading.Thread(target=_pass_input, args=(to_agent, agent.stdin.close), daemon=True)
    reader.start()
    to_client.run()
    if to_client.target_is_closed:
        agent.stdout.close()  # the agent gets the same error as without this process
    status = agent.wait()
    return status if status >= 0 else 128 - status


def _pass_input(to_agent: _Pass, close: Callable[[], None]) -> None:
    to_agent.run()
    with suppress(OSError):
        close()


def _pass_signals(agent: subprocess.Popen[bytes]) -> None:
    def stop(number: int, _frame: object) -> None:
        agent.send_signal(number)

    for name in ("SIGTERM", "SIGHUP"):
        if sys.platform != "win32":
            signal.signal(getattr(signal, name), stop)
    if sys.platform != "win32":
        # At a terminal the agent receives it, too, and decides what it does.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Pass:
    """One direction."""

    def __init__(
        self, source: int, target: int, recorder: RecorderProcess, direction: Direction
    ) -> None:
        self.target_is_closed: bool = False
        self._source = source
        self._target = target
        self._recorder = recorder
        self._direction: Direction = direction

    def run(self) -> None:
        """Pass everything on, until the end of the source or of the target."""
        while data := self._read():
            self._recorder.data(self._direction, data)
            if not self._write(data):
                break
        self._recorder.end(self._direction)

    def _read(self) -> bytes:
        try:
            return os.read(self._source, READ_BYTES)
        except OSError:
            return b""

    def _write(self, data: bytes) -> bool:
        try:
            written = os.write(self._target, data)
            while written < len(data):
                data = data[written:]
                written = os.write(self._target, data)
        except OSError:
            self.target_is_closed = True
            return False
        return True
