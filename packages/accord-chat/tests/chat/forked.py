"""Python programs that are forked from a process which has imported Accord already.

They are processes like others, with their own terminal, signals and exit status; only their start
takes no time. `command` is for those that the program under test starts itself.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

__all__ = ("Forked", "command", "started_command")

# What the programs of the tests import. The server has one thread, also after it.
PRELOADED = (
    "accord.agent",
    "accord.program",
    "accord.script_agent.agent",
    "accord_chat.command",
    "accord_chat.lines.program",
    "accord_chat.view.app",
)
FORWARD = Path(__file__).with_name("forward.py")
SOCKET = str(Path(tempfile.gettempdir(), f"accord-{uuid4().hex}"))


class Forked:
    """A program `python WORDS`, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        words: Sequence[str],
        descriptors: Sequence[int],
        *,
        cwd: Path,
        env: Mapping[str, str],
        takes_terminal: bool = False,
    ) -> None:
        _start_server()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(SOCKET)
        wanted = marshal.dumps([list(words), str(cwd), dict(env), takes_terminal, True])
        socket.send_fds(self._server, [len(wanted).to_bytes(4, "big")], list(descriptors))
        self._server.sendall(wanted)
        self.pid = _number(self._server)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, if the program has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._status

    def wait(self, timeout_s: float) -> int:
        """Wait for the end; return the exit status."""
        if self._status is None:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._server, selectors.EVENT_READ)
                if not waiting.select(timeout_s):
                    raise subprocess.TimeoutExpired("a forked program", timeout_s)
            self._status = _number(self._server)
            self._server.close()
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, if the program has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def command(*words: str) -> list[str]:
    """Return a command that runs `python WORDS` quickly, below a program that was forked."""
    return [sys.executable, "-I", "-S", str(FORWARD), SOCKET, *words]


def started_command(*words: str) -> list[str]:
    """Return a command that runs `python WORDS` quickly, also below this process."""
    _start_server()
    return command(*words)


@cache
def _start_server() -> None:
    """Start the server, which ends with this process."""
    words = [sys.executable, __file__, SOCKET]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)


def _receive(server: socket.socket, size: int) -> bytes:
    data = server.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise EOFError
    return data


def _number(server: socket.socket) -> int:
    return int.from_bytes(_receive(server, 4), "big", signed=True)


def _serve(path: str) -> NoReturn:
    sys.path[0] = ""  # as `python -m` has it
    for name in PRELOADED:
        __import__(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(100)
    waking, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    assert threading.active_count() == 1
    os.write(1, b"ready\n")
    waiting = selectors.DefaultSelector()
    for one in (0, listener, waking):
        waiting.register(one, selectors.EVENT_READ)
    clients: dict[int, socket.socket] = {}
    while True:
        for key, _ in waiting.select():
            if key.fileobj == 0:  # the process that started this one has ended
                for pid in clients:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                Path(path).unlink()
                os._exit(0)
            if key.fileobj is waking:
                waking.recv(4096)
                _reap(clients)
                continue
            client, _ = listener.accept()
            try:
                wanted, descriptors = _wanted(client)
            except (EOFError, OSError):
                client.close()
                continue
            pid = os.fork()
            if pid == 0:
                _run(wanted, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            clients[pid] = client
            _tell(client, pid)


def _wanted(client: socket.socket) -> tuple[list[Any], list[int]]:
    size, descriptors, _, _ = socket.recv_fds(client, 4, 3)
    return marshal.loads(_receive(client, int.from_bytes(size, "big"))), descriptors


def _tell(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits any more
        client.sendall(number.to_bytes(4, "big", signed=True))


def _reap(clients: dict[int, socket.socket]) -> None:
    while clients:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with clients.pop(pid) as client:
            _tell(client, os.waitstatus_to_exitcode(status))


def _run(wanted: list[Any], descriptors: list[int]) -> NoReturn:
    """Become the program."""
    words, cwd, env, takes_terminal, is_leader = wanted
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if is_leader:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    if takes_terminal:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)
    how = 1 if os.isatty(1) else -1
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", how, encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
    status = 1
    try:
        _run_main(words)
        status = 0
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            status = ended.code or 0
        else:
            print(ended.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001  # as the interpreter does
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _run_main(words: list[str]) -> None:
    import random
    import runpy

    random.seed()
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = words
        sys.path[0] = str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1])
