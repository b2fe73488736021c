"""A program at the other end of real pipes, to which a test writes raw bytes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bad_input.client import run_in_thread

HERE = Path(__file__).parent
LIMIT_S = 20.0  # for each wait
MIB = 1024 * 1024
_PIECE = 64 * 1024


class Program:
    """A process under test. Every wait is limited; exceeding a limit fails the test."""

    def __init__(self, script: str, *arguments: str, stderr: int = subprocess.PIPE) -> None:
        command = [sys.executable, str(HERE / script), *arguments]
        self._open(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
            )
        )

    def _open(self, process: Any) -> None:
        self._process = process
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._partial_line = bytearray()  # of a line
        self._lines: list[bytes] = []
        self._err_read = b""
        self._start_mib = self._peak_mib()  # of a fork: that of its parent

    # What the process reads.

    def send(self, *messages: object) -> None:
        """Send messages, one per line."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def write(self, data: bytes, *, reading: bool = False) -> None:
        """Write all bytes, reading the output at the same time if `reading`."""
        rest = memoryview(data)
        while rest:
            reads = [self._out] if reading else []
            readable, writable, _ = select.select(reads, [self._in], [], LIMIT_S)
            assert readable or writable, f"{self} does not read"
            if readable:
                self._fill()
            if writable:
                rest = rest[self._write_some(rest) :]

    def write_until_full(self, pieces: Sequence[bytes], *, still_s: float = 1.0) -> int:
        """Write pieces until the program has not read for a while.

        Return the number of written pieces. The last one can be incomplete: `finish_piece` writes
        the rest.
        """
        self._rest = memoryview(b"")
        for count, piece in enumerate(pieces, 1):
            self._rest = memoryview(piece)
            while self._rest:
                if not select.select([], [self._in], [], still_s)[1]:
                    return count
                self._rest = self._rest[self._write_some(self._rest) :]
        return len(pieces)

    def write_until_refused(self, pieces: Iterable[bytes]) -> None:
        """Write until the program closes its input or writes to stderr."""
        assert self._process.stderr is not None
        fd = self._process.stderr.fileno()
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                said, writable, _ = select.select([fd], [self._in], [], LIMIT_S)
                assert said or writable, f"{self} does not read"
                if said:
                    return
                try:
                    rest = rest[self._write_some(rest) :]
                except BrokenPipeError:
                    return
        raise AssertionError(f"{self} has taken it all")

    def finish_piece(self) -> None:
        """Write the rest of the last piece of `write_until_full`."""
        self.write(bytes(self._rest), reading=True)

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self._in, data[:_PIECE])
        except BlockingIOError:
            return 0

    def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    # What the process writes.

    def line(self) -> bytes:
        """Return the next line."""
        while not self._lines:
            assert self._wait_readable(), f"{self} writes nothing"
            assert self._fill(), f"{self} ended\n{self.stderr()}"
        return self._lines.pop(0)

    def receive(self) -> Any:
        """Return the next message."""
        return json.loads(self.line())

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request and return the next message."""
        self.send(request)
        return self.receive()

    def rest(self) -> list[Any]:
        """Return all messages until the end of the output."""
        while self._wait_readable() and self._fill():
            pass
        lines, self._lines = self._lines, []
        return [json.loads(line) for line in lines]

    def count_lines(self, wanted: bytes) -> int:
        """Read until a line contains a text; return the number of lines before it."""
        count = 0
        while True:
            for number, line in enumerate(self._lines):
                if wanted in line:
                    del self._lines[: number + 1]
                    return count + number
            count += len(self._lines)
            self._lines.clear()
            assert self._wait_readable(), f"{self} writes nothing"
            assert self._fill(), f"{self} ended\n{self.stderr()}"

    def close_output(self) -> None:
        """Stop reading permanently."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _wait_readable(self) -> bool:
        return bool(select.select([self._out], [], [], LIMIT_S)[0])

    def _fill(self) -> bool:
        data = os.read(self._out, 16 * _PIECE)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._partial_line += line
            self._lines.append(bytes(self._partial_line))
            self._partial_line.clear()
        self._partial_line += rest
        return bool(data)

    def err_line(self) -> str:
        """Return the next line of stderr, where the test programs report what they receive."""
        assert self._process.stderr is not None
        fd = self._process.stderr.fileno()
        while b"\n" not in self._err_read:
            assert select.select([fd], [], [], LIMIT_S)[0], f"{self} says nothing"
            data = os.read(fd, _PIECE)
            assert data, f"{self} ended\n{self._err_read.decode()}"
            self._err_read += data
        line, _, self._err_read = self._err_read.partition(b"\n")
        return line.decode()

    def stderr(self) -> str:
        """Return the rest of stderr."""
        assert self._process.stderr is not None
        fd = self._process.stderr.fileno()
        while select.select([fd], [], [], LIMIT_S)[0] and (data := os.read(fd, _PIECE)):
            self._err_read += data
        text, self._err_read = self._err_read.decode(), b""
        return text

    # How the process ends.

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Return the exit status."""
        return self._process.wait(limit_s)

    def grown_mib(self) -> float:
        """Return the peak memory of the process, without that of its start."""
        return self._peak_mib() - self._start_mib

    def _peak_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 1024

    def cpu_s(self) -> float:
        """Wait for the exit; return the CPU time."""
        _, _, used = self._wait_usage()
        return used.ru_utime + used.ru_stime

    def _wait_usage(self) -> Any:
        end = time.monotonic() + LIMIT_S
        pidfd = os.pidfd_open(self.pid)
        try:
            exited = select.select([pidfd], [], [], max(0.0, end - time.monotonic()))[0]
        finally:
            os.close(pidfd)
        assert exited, f"{self} does not exit"
        ended = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(ended[1])
        return ended

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait(LIMIT_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __repr__(self) -> str:
        return f"process {self.pid}"


@contextlib.contextmanager
def program(script: str, *arguments: str, **how: Any) -> Iterator[Program]:
    """Run a program of this directory; it is killed at the end of the block."""
    running = Program(script, *arguments, **how)
    try:
        yield running
    finally:
        running.kill()


class _Thread:
    """Accord's client of `client.py` in a thread, for `Program`: quicker than a process."""

    pid = os.getpid()
    returncode: int | None = None

    def __init__(self, kind: str, count: int) -> None:
        reads, stdin = os.pipe()
        stdout, writes = os.pipe()
        stderr, reports = os.pipe()
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(fd, mode, buffering=0)
            for fd, mode in ((stdin, "wb"), (stdout, "rb"), (stderr, "rb"))
        )

        def run() -> None:
            run_in_thread(kind, count, reads, writes, reports)
            self.returncode = 0

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def wait(self, limit_s: float) -> int:
        self._thread.join(limit_s)
        assert self.returncode is not None, f"{self} does not end, or has failed"
        return self.returncode

    def kill(self) -> None:
        """Disconnect from the client, which ends then."""
        self.stdin.close()
        self.stdout.close()


class ThreadedClient(Program):
    """Accord's client in a thread."""

    def __init__(self, kind: str, count: int) -> None:
        self._open(_Thread(kind, count))


@contextlib.contextmanager
def threaded_client(kind: str, count: int) -> Iterator[Program]:
    """Run Accord's client in a thread; it is disconnected at the end of the block."""
    running = ThreadedClient(kind, count)
    try:
        yield running
    finally:
        running.kill()


# Messages.


def request(request_id: object, method: str, params: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def answer(request_id: object, result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def initialize(version: int = 1) -> dict[str, Any]:
    about = {"name": "test", "version": "0"}
    params: dict[str, Any] = {"protocolVersion": version}
    return request("init", "initialize", {**params, "info": about} if version > 1 else params)


def prompt(request_id: object, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return request(request_id, "session/prompt", {"sessionId": "s", "prompt": content})


@contextlib.contextmanager
def agent(*arguments: str, version: int = 1, **how: Any) -> Iterator[Program]:
    """Run Accord's agent, initialized."""
    with program("agent.py", *arguments, **how) as running:
        assert running.ask(initialize(version))["result"]["protocolVersion"] == version
        yield running


def still_answers(running: Program) -> bool:
    """Return whether the next message is the response to a new request."""
    return running.ask(request("next", "_echo", {"a": 1})) == answer("next", {"a": 1})
