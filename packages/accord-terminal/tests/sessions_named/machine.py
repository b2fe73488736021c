"""Runs `accord session` and `accord ask` as real programs, and reads what they store."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from accord.program import main
from accord_terminal.sessions.journal import Entry, JournalReader, Started, Updated
from accord_terminal.sessions.records import Record, Store
from forked import STARTS, forked_starts

T = TypeVar("T")

PROGRAM = [sys.executable, "-m", "accord"]
OWNER = "accord_terminal.sessions.owner.program"
WAIT_S = 30.0


@contextmanager
def new_machine(patch: pytest.MonkeyPatch) -> Generator[Machine]:
    """Give the sessions of a user, with short paths for the sockets; end their owners after it."""
    base = Path(tempfile.mkdtemp(prefix="acc-", dir="/tmp")).resolve()
    for name in ("work", "run", "state", "config", "starts"):
        (base / name).mkdir()
    patch.setenv("ACCORD_STATE", str(base / "state"))
    patch.setenv("ACCORD_CONFIG", str(base / "config"))
    patch.setenv("XDG_RUNTIME_DIR", str(base / "run"))
    patch.setenv(STARTS, str(base / "starts"))
    patch.chdir(base / "work")
    found = Machine(base)
    try:
        yield found
    finally:
        for process in found.started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for pid in found.owners():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(base, ignore_errors=True)


class Machine:
    """The sessions of one user in a folder of their own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.work = base / "work"
        self.starts_interpreters = False  # also
        self.started: list[subprocess.Popen[str]] = []

    @property
    def store(self) -> Store:
        return Store()

    def run(self, *words: str, cwd: Path | None = None, stdin: str = "") -> Any:
        """Run `accord` to its end; in this process, unless it runs a loop or starts interpreters.

        `start` is for tests of the process itself: its signals, its terminal, and its death.
        """
        if self.starts_interpreters or asyncio._get_running_loop() is not None:
            return subprocess.run(
                [*PROGRAM, *words],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=50,
                cwd=cwd or self.work,
                check=False,
            )
        with chdir(cwd or self.work), ExitStack() as streams, pytest.MonkeyPatch.context() as patch:
            for name in ("stdin", "stdout", "stderr"):
                file = streams.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
                patch.setattr(sys, name, file)
            sys.stdin.write(stdin)
            sys.stdin.seek(0)
            status = main(words)
            for stream in (sys.stdout, sys.stderr):
                stream.seek(0)
            said = sys.stdout.read(), sys.stderr.read()
        return subprocess.CompletedProcess([*PROGRAM, *words], status, *said)

    def ok(self, *words: str, cwd: Path | None = None) -> str:
        """Run `accord`, which must succeed; return its output."""
        ended = self.run(*words, cwd=cwd)
        assert ended.returncode == 0, (words, ended.returncode, ended.stdout, ended.stderr)
        return ended.stdout

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Start `accord` and do not wait for it."""
        process = subprocess.Popen(
            [*PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.work,
            **more,
        )
        self.started.append(process)
        return process

    def run_program(self, words: list[str]) -> Any:
        """Run another program to its end."""
        return subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)

    def start_program(self, words: list[str]) -> subprocess.Popen[str]:
        """Start another program; it ends when its stdin is closed."""
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )
        self.started.append(process)
        return process

    def record(self, name: str | None = "fix") -> Record:
        """Return the newest record of a name."""
        return [record for record in self.store if record.name == name][-1]

    def entries(self, name: str | None = "fix") -> list[Entry]:
        """Return the journal of a session."""
        return [*JournalReader(self.store.journal_path(self.record(name).id)).new_entries()]

    def texts(self, name: str | None = "fix") -> list[str]:
        """Return the texts of the agent in the journal, by message."""
        found: dict[str, str] = {}
        for entry in self.entries(name):
            if isinstance(entry, Updated):
                update = json.loads(bytes(entry.update))
                if update["sessionUpdate"] == "agent_message_chunk":
                    key = update.get("messageId") or str(entry.prompt)
                    found[key] = found.get(key, "") + update["content"]["text"]
        return [*found.values()]

    def wait_started(self, text: str, name: str | None = "fix") -> None:
        """Wait until the turn of a prompt with this text has begun."""

        def has_started() -> bool:
            with_text = {e.prompt for e in self.entries(name) if getattr(e, "text", "") == text}
            return any(isinstance(e, Started) and e.prompt in with_text for e in self.entries(name))

        eventually(has_started)

    def owner(self) -> int:
        """Return the only owner; programs that ended without becoming one may still exit."""
        eventually(lambda: len(self.owners()) == 1)
        (found,) = self.owners()
        return found

    def owners(self) -> list[int]:
        """Return the processes that own a session of this machine, or try to."""
        return [pid for pid, words in self.programs().items() if OWNER in words]

    def programs(self) -> dict[int, list[str]]:
        """Return the command lines of the running Python programs of this machine."""
        found = forked_starts(self.base / "starts")
        if self.starts_interpreters:
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    try:
                        words = (folder / "cmdline").read_bytes().decode().split("\0")
                        environ = (folder / "environ").read_bytes()
                    except OSError:
                        continue
                    if f"ACCORD_STATE={self.base}/state".encode() in environ:
                        found[int(folder.name)] = words
        return found


def eventually(condition: Callable[[], T], within_s: float = WAIT_S) -> T:
    """Wait until a condition holds; return its value."""
    until = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < until, "the condition did not become true"
        time.sleep(0.02)
    return value


def hold_lock(path: Path) -> int:
    """Take a lock as an owner does; return the descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd
