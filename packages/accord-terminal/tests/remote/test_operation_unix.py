"""Servers on a Unix socket, and on sockets that the parent process passes."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import accord
from remote.commands import run
from requirement import requirement

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Unix sockets")

AGENT = """
from accord import Agent, Turn


class Gardener(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Planted: {turn.text}.")
"""
ACCORD = [sys.executable, "-m", "accord"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gardener.py").write_text(AGENT)
    return tmp_path


@contextmanager
def serving(
    folder: Path, *words: str, fds: tuple[int, ...] = ()
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Run `accord serve` without a token; give the address and the process."""
    environment = {**os.environ, "ACCORD_TOKEN": ""}
    command = [*ACCORD, "serve", *words, "gardener:Gardener"]
    if fds:  # as systemd does: the variable names the process that is to use them
        script = 'LISTEN_PID=$$ exec "$@"'
        command = ["/bin/sh", "-c", script, "sh", *command]
        environment["LISTEN_FDS"] = str(len(fds))
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_move_fds(fds) if fds else None,
        close_fds=not fds,
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert first.startswith("Serving on "), first + process.stderr.read()
            yield first.split()[2], process
        finally:
            process.kill()


def _move_fds(fds: tuple[int, ...]) -> Callable[[], None]:
    def move() -> None:
        kept = [os.dup(fd) for fd in fds]
        for number, fd in enumerate(kept, 3):
            os.dup2(fd, number, inheritable=True)

    return move


def ask(agent: str | Sequence[str], token: str | None = None) -> str:
    return accord.ask(agent, "a rose", token=token).text


@requirement("R-SEC-13")
def test_own_processes_are_served_on_a_unix_socket_without_a_token(folder: Path) -> None:
    path = folder / "agent.sock"
    with serving(folder, "--unix", str(path)) as (address, process):
        assert address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert ask(f"unix:{path}") == "Planted: a rose."
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert "Token" not in process.stderr.read()
    assert not path.exists()


@pytest.fixture(scope="module")
def served_socket(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Return the socket of a server for several tests."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "gardener.py").write_text(AGENT)
    path = folder / "agent.sock"
    with serving(folder, "--unix", str(path)):
        yield path


def test_programs_connect_to_a_unix_socket(served_socket: Path) -> None:
    agent = f"unix:{served_socket}"
    asked = run(["ask", "a tulip", "--quiet", "--agent", agent])
    assert (asked.returncode, asked.stdout) == (0, "Planted: a tulip.\n"), asked.stderr
    assert ask([*ACCORD, "bridge", agent]) == "Planted: a rose."


@requirement("R-SEC-13")
def test_host_and_origin_are_not_checked_on_a_unix_socket(served_socket: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        client.connect(str(served_socket))
        client.sendall(
            b"GET /acp HTTP/1.1\r\nHost: other.example\r\nOrigin: http://other.example\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 101 ")


def test_socket_that_a_killed_server_has_left_is_replaced(folder: Path) -> None:
    path = folder / "agent.sock"
    with serving(folder, "--unix", str(path)) as (_address, process):
        process.kill()
        process.wait(20)
    assert path.exists()
    with serving(folder, "--unix", str(path)):
        assert ask(f"unix:{path}") == "Planted: a rose."


def _start(folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return run(["serve", "--unix", str(path), "gardener:Gardener"], folder=folder)


def test_socket_of_another_server_and_other_files_are_not_replaced(
    folder: Path, served_socket: Path
) -> None:
    second = _start(folder, served_socket)
    assert second.returncode == 1
    assert f"Another server listens on {served_socket}" in second.stderr
    assert ask(f"unix:{served_socket}") == "Planted: a rose."
    file = folder / "file"
    file.write_text("text")
    third = _start(folder, file)
    assert third.returncode == 1
    assert "is not a socket" in third.stderr
    assert file.read_text() == "text"


@requirement("R-SEC-13")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="SO_PEERCRED")
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="becoming another user needs root")
def test_process_of_another_user_is_disconnected(folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as entered,  # others cannot enter `tmp_path`
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening,
    ):
        Path(entered).chmod(0o755)
        path = Path(entered) / "agent.sock"
        listening.bind(str(path))
        path.chmod(0o666)  # as a socket unit of systemd may do
        listening.listen()
        with serving(folder, fds=(listening.fileno(),)):
            assert _health_for(65534, path) == b""
            assert _health_for(os.geteuid(), path).startswith(b"HTTP/1.1 200")


def _health_for(uid: int, path: Path) -> bytes:
    """Return the server's answer to a process of another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.settimeout(20)
            client.connect(str(path))
            with suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                os.write(writing, client.recv(100))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        received = answer.read()
    os.waitpid(child, 0)
    return received


@pytest.mark.skipif(os.name == "nt", reason="file descriptors of POSIX")
def test_sockets_that_systemd_passes_are_used(folder: Path) -> None:
    path = folder / "passed.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix,
    ):
        port = tcp.getsockname()[1]
        unix.bind(str(path))
        unix.listen()
        with serving(folder, fds=(tcp.fileno(), unix.fileno())) as (address, process):
            assert address == f"ws://127.0.0.1:{port}/acp"
            assert process.stderr is not None
            assert process.stderr.readline() == f"Serving on unix:{path}\n"
            token = process.stderr.readline().rpartition(" ")[2].strip()
            assert ask(address, token=token) == "Planted: a rose."
            assert ask(f"unix:{path}") == "Planted: a rose."
            process.terminate()
            assert process.wait(20) == 0
    assert path.exists()  # it is systemd's


DIGGER = """
import asyncio

from accord import Agent, Turn


class Digger(Agent):
    async def prompt(self, turn: Turn) -> None:
        while True:
            async with turn.tool("Dig a hole"):
                await asyncio.sleep(0)
"""


def test_clients_of_a_server_are_kept_within_limits(folder: Path) -> None:
    script = ("cost=0.1/session", "--", *ACCORD, "agent", "script")
    said = said_by_server(folder, script, "usage")
    assert "Limit of the session reached: 0.25 USD of 0.10 USD" in said
    (folder / "digger.py").write_text(DIGGER)
    said = said_by_server(folder, ("tool_calls=1/session", "digger:Digger"), "beans")
    assert "Limit of the session reached: 2 tool calls of 1 tool call" in said


def said_by_server(folder: Path, words: Sequence[str], prompt: str) -> str:
    """Serve with `--budget WORDS`; return what the agent answers to a prompt."""
    with tempfile.TemporaryDirectory() as short:
        at = Path(short) / "s"
        command = [*ACCORD, "serve", "--unix", str(at), "--budget", *words]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                address = process.stderr.readline().split()[2]
                return accord.ask(address, prompt).text
            finally:
                process.kill()
