"""A connection made of commands fulfils the contract of transports, and says how an agent ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import accord
from accord.errors import ConnectionLost, TransportError
from accord.testing import TransportContract
from accord.transports.base import Frame, Transport
from accord_bridges.command_transport import CommandResult, CommandTransport
from project import ROOT
from transports.accepted import Accepted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for a POSIX shell"),
]
RELAY = ROOT / "packages" / "accord" / "tests" / "transports" / "programs" / "relay.py"
SCRIPT_AGENT = (sys.executable, "-m", "accord", "agent", "script")


async def run(script: str, env: Mapping[str, str]) -> CommandResult:
    """Run a script here, as a sandbox does: only its output comes back."""
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", script, env=os.environ | dict(env), stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await shell.communicate()
    except asyncio.CancelledError:
        os.killpg(shell.pid, signal.SIGKILL)  # a pipe that is full blocks a child
        await shell.wait()
        raise
    return CommandResult(shell.returncode or 0, out.decode(), err.decode())


class TestContract(TransportContract):
    burst = 40  # each round trip is two commands

    @pytest.fixture(autouse=True)
    def _listen(self, tmp_path: Path) -> Iterator[None]:
        with socket.socket(socket.AF_UNIX) as self.listener:
            self.listener.bind(str(tmp_path / "s"))
            self.listener.listen()
            yield

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        argv = (sys.executable, str(RELAY), self.listener.getsockname())
        here = CommandTransport(run, argv, frame_bytes=frame_bytes)
        return here, Accepted(self.listener, frame_bytes)


async def test_agent_works_as_over_pipes(tmp_path: Path):
    transport = CommandTransport(run, SCRIPT_AGENT, cwd=str(tmp_path), env={"NAME": "a 'b' ü"})
    async with accord.connect(transport) as agent:
        session = await agent.new_session(cwd=tmp_path)
        async with session.prompt("echo Grüße, 世界 " + "x" * 200_000) as turn:
            assert await turn.wait() == "end_turn"
        assert turn.text == "Grüße, 世界 " + "x" * 200_000
        folder = transport.folder
    assert not await asyncio.to_thread(Path(folder or "").exists)


async def test_end_of_the_agent_is_told_with_its_status_and_stderr():
    argv = ("sh", "-c", "echo 'no key' >&2; exit 3")
    with pytest.raises(ConnectionLost, match="sh ended with status 3: no key") as caught:
        async with accord.connect(CommandTransport(run, argv)):
            pass
    assert caught.value.exit_status == 3
    with pytest.raises(ConnectionLost, match=r"status 127.*no-such-program"):
        async with accord.connect(CommandTransport(run, ("no-such-program",))):
            pass
    with pytest.raises(TransportError, match="/no/such/folder"):
        async with accord.connect(CommandTransport(run, SCRIPT_AGENT, cwd="/no/such/folder")):
            pass


async def test_sandbox_that_fails_ends_the_connection(tmp_path: Path):
    calls = 0

    async def fails_later(script: str, env: Mapping[str, str]) -> CommandResult:
        nonlocal calls
        calls += 1
        if calls > 8 and "kill" not in script:
            raise OSError("the container is gone")
        return await run(script, env)

    async with accord.connect(CommandTransport(fails_later, SCRIPT_AGENT)) as agent:
        session = await agent.new_session(cwd=tmp_path)
        turn = session.prompt("wait forever")
        with pytest.raises(ConnectionLost, match="out of reach: the container is gone"):
            async with turn:
                await turn.wait()


class Received:
    """Keeps what a transport delivers."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.lost: Exception | None = None
        self.changed = asyncio.Event()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.frames += map(bytes, frames)
        self.changed.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None: ...

    def writable(self) -> None: ...

    def eof_received(self, error: Exception | None) -> None:
        self.lost = error
        self.changed.set()


async def test_agent_that_does_not_read_for_long_blocks_no_command():
    async def bounded(script: str, env: Mapping[str, str]) -> CommandResult:
        async with asyncio.timeout(5 if "base64 -d" in script else 30):
            return await run(script, env)

    program = "import time; time.sleep(6); print('{%d' % len(input()), flush=True)"
    received = Received()
    transport = CommandTransport(bounded, (sys.executable, "-c", program))
    async with asyncio.timeout(60):
        await transport.start(received)
        transport.write([b"x" * 300_000])
        await received.changed.wait()
        assert (received.frames, received.lost) == ([b"{300000"], None)
        await transport.aclose()


async def test_output_is_read_although_input_could_not_be_written():
    async def fails(script: str, env: Mapping[str, str]) -> CommandResult:
        if "base64 -d" in script:
            raise OSError("no room")
        return await run(script, env)

    received = Received()
    transport = CommandTransport(fails, ("sh", "-c", "sleep 0.3; echo '{1'; exit 3"))
    async with asyncio.timeout(60):
        await transport.start(received)
        transport.write([b"{}"])
        while received.lost is None:
            received.changed.clear()
            await received.changed.wait()
        await transport.aclose()
    assert received.frames == [b"{1"]
    assert isinstance(received.lost, ConnectionLost)
    assert received.lost.exit_status == 3


async def test_agent_ends_when_its_evaluator_was_killed(tmp_path: Path):
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from bridges.test_command_transport import SCRIPT_AGENT, run
import accord
from accord_bridges.command_transport import CommandTransport

async def main():
    transport = CommandTransport(run, SCRIPT_AGENT, cwd={str(tmp_path)!r}, abandoned_s=2)
    async with accord.connect(transport) as agent:
        session = await agent.new_session(cwd={str(tmp_path)!r})
        async with session.prompt("wait forever") as turn:
            async for event in turn:
                print(transport.folder, flush=True)

asyncio.run(main())
"""
    evaluator = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert evaluator.stdout is not None
    async with asyncio.timeout(60):
        folder = Path((await evaluator.stdout.readline()).decode().strip())
        pid = int(await asyncio.to_thread((folder / "pid").read_text))
        shell = int(await asyncio.to_thread((folder / "shell").read_text))
        await asyncio.sleep(3)  # it is not abandoned while a command waits for output
        os.kill(pid, 0)
        evaluator.kill()
        await evaluator.wait()
        while await asyncio.to_thread(folder.exists) or _group_lives(shell):
            await asyncio.sleep(0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


async def test_closing_ends_the_agent_and_what_it_has_started(tmp_path: Path):
    transport = CommandTransport(run, SCRIPT_AGENT, cwd=str(tmp_path))
    async with accord.connect(transport) as agent:
        await agent.new_session(cwd=tmp_path)
        pid = int(await asyncio.to_thread((Path(transport.folder or "") / "pid").read_text))
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
