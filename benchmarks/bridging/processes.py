"""The processes of one gateway: they are known by a variable of their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import machine
from bridging.environments import variables

_MARK = "ACCORD_BENCHMARK"
_START_S = 60.0


class Processes:
    """Starts the programs of a gateway in `folder`, and finds all that they have started."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._mark = f"{_MARK}={name}-{os.getpid()}".encode()
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, argv: Sequence[str], port: int, **more: str) -> None:
        """Start a program, and wait until it listens."""
        log = self.folder / f"{len(self._started)}.log"
        key, _, value = self._mark.decode().partition("=")
        with log.open("wb") as file:
            self._started.append(
                subprocess.Popen(
                    argv,
                    stdout=file,
                    stderr=file,
                    cwd=self.folder,
                    env=variables(**{key: value}, **more),
                )
            )
        until = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                if time.monotonic() > until or self._started[-1].poll() is not None:
                    raise RuntimeError(f"{self.name}: {log.read_text()[-1500:]}") from None
                time.sleep(0.05)

    @property
    def pids(self) -> list[int]:
        """All processes, those in the background included."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def cpu(self) -> dict[str, float]:
        """Return the seconds of the processor so far, by what a process is."""
        found: dict[str, float] = defaultdict(float)
        for pid in self.pids:
            found[self._kind(pid)] += machine.cpu_s(pid)
        return found

    def memory_mb(self) -> float:
        """Return the resident memory of the gateway itself, which was started last."""
        return machine.memory_mb(self._started[-1].pid)

    def _kind(self, pid: int) -> str:
        if pid == self._started[-1].pid:
            return "gateway"
        if pid in (one.pid for one in self._started):
            return "server"
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(b"owner.program" in word for word in words):
                return "owner"
            return "agent" if any(word.endswith(b"agent.py") for word in words) else "guardian"
        return "gone"

    def go_first(self) -> None:
        """Let these processes have a processor before those of others, if this is root."""
        for pid in (*self.pids, os.getpid()):
            try:
                Path(f"/proc/{pid}/autogroup").write_text("-20")
                os.setpriority(os.PRIO_PROCESS, pid, -15)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            except OSError:
                sys.stderr.write("Other programs delay what is measured: root could prevent it\n")
                return

    def stop(self) -> None:
        """End all of them."""
        for process in self._started:
            process.terminate()
        for process in self._started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
