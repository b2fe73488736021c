"""SIGKILL at any moment: no process keeps running, and no stored update is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from accord import Text, connect
from accord.errors import AccordError
from accord.local.files import Roots
from accord.transports.process import process

__all__ = ("attack",)

_HERE = Path(__file__).parent
_FAMILY = str(_HERE.parent / "transports" / "programs" / "family.py")
_LONGEST_S = 30.0


def attack(seed: int) -> int:
    """Kill an agent, a client with all its processes, or a writer of files."""
    rng = random.Random(seed)
    match rng.randrange(3):
        case 0:
            asyncio.run(_agent(rng))
        case 1:
            _client(rng)
        case _:
            _writer(rng)
    return 1


async def _agent(rng: random.Random) -> None:
    """Check that all updates of the client are stored, however the agent ends."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "sessions.db")
        command = [sys.executable, str(_HERE / "agent_with_store.py"), path]
        transport = process(*command)()
        seen = ""
        most = rng.choice((1, 10, 100, 1000))
        session_id = ""
        async with asyncio.timeout(_LONGEST_S):
            with suppress(AccordError):
                async with connect(transport, versions=(rng.choice((1, 2)),)) as agent:
                    session = await agent.new_session("/")
                    session_id = session.id
                    async with session.prompt("go") as turn:
                        async for event in turn:
                            seen += event.text if isinstance(event, Text) else ""
                            most -= 1
                            if most == 0:
                                assert transport.pid is not None
                                os.kill(transport.pid, signal.SIGKILL)
        kept = await _kept(path, session_id)
        words = [word for word in seen.split() if word.isdigit()]
        assert kept[: len(words)] == words, f"seen {words[-3:]}, kept {kept[-3:]}"


async def _kept(path: str, session_id: str) -> list[str]:
    """Return the numbers that another agent reads from the store."""
    command = [sys.executable, str(_HERE / "agent_with_store.py"), path]
    async with asyncio.timeout(_LONGEST_S), connect(command) as agent:
        session = await agent.load_session(session_id, "/")
        texts = [getattr(item, "text", "") for item in session.transcript.items]
    return [word for text in texts for word in text.split() if word.isdigit()]


def _client(rng: random.Random) -> None:
    """Check that the agent and all commands end with the client."""
    with tempfile.TemporaryDirectory() as folder:
        how = rng.choice(["1", "2"])
        agent = [sys.executable, str(_HERE / "agent_with_store.py"), f"{folder}/a.db", _FAMILY]
        command = [sys.executable, str(_HERE / "client_that_owns.py"), how, *agent]
        owner = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert owner.stdout is not None
        watched: dict[int, int] = {}
        try:
            # Sometimes before any process runs, sometimes when all run.
            if rng.random() < 0.7:
                line = owner.stdout.readline()
                if line:
                    pids = [*json.loads(line)["pids"], *_children(owner.pid)]
                    watched = {pid: os.pidfd_open(pid) for pid in pids}
            else:
                select.select([owner.stdout], [], [], rng.uniform(0.0, 0.5))
                for pid in _children(owner.pid):
                    with suppress(OSError):
                        watched[pid] = os.pidfd_open(pid)
            owner.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
            owner.wait(_LONGEST_S)
            until = time.monotonic() + _LONGEST_S
            for pid, fd in watched.items():
                left = max(until - time.monotonic(), 0.0)
                assert select.select([fd], [], [], left)[0], f"{pid} outlives its owner"
        finally:
            owner.kill()
            owner.wait(_LONGEST_S)
            owner.stdout.close()
            for fd in watched.values():
                with suppress(OSError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                os.close(fd)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for word in (task / "children").read_text().split():
                found += [int(word), *_children(int(word))]
    return found


def _writer(rng: random.Random) -> None:
    """Check that a file being written has the old text or the new."""
    code = (
        "import sys\nfrom accord.local.files import Roots\nroots = Roots([sys.argv[1]])\n"
        "print(flush=True)\n"
        "while True:\n    for letter in 'ab':\n"
        "        roots.write('a', letter * int(sys.argv[2]))\n"
    )
    size = rng.choice((1, 5000, 3_000_000))
    with tempfile.TemporaryDirectory() as folder:
        Roots([folder]).write("a", "a" * size)
        command = [sys.executable, "-c", code, folder, str(size)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        try:
            writer.stdout.readline()
            select.select([writer.stdout], [], [], rng.uniform(0.0, 0.05))
        finally:
            writer.kill()
            writer.wait(_LONGEST_S)
            writer.stdout.close()
        text = (Path(folder) / "a").read_bytes()
        assert len(text) == size
        assert len(set(text)) == 1
