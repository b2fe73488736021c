"""An agent program that is ended by a signal: it leaves no process behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import accord

AGENT = """
import os, sys
from accord import Agent, Turn

class Runs(Agent):
    async def prompt(self, turn: Turn) -> None:
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        async with turn.tool(f"{os.getpid()}"):
            await turn.terminals.run(sys.executable, "-c", code)

Runs().run()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
async def test_terminated_agent_stops_its_commands(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    commands: list[int] = []

    async def end_once_it_runs(session: accord.ClientSession) -> None:
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, accord.TerminalOutputChunk):
                    commands.append(int(event.data))
                    os.kill(int(session.transcript.tool_calls[0].title), number)

    async with accord.connect([sys.executable, str(tmp_path / "agent.py")], versions=[2]) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(accord.ConnectionLost) as lost:
            await end_once_it_runs(session)
    assert lost.value.exit_status == -number
    until = time.monotonic() + 5
    while _runs(commands[0]):
        assert time.monotonic() < until, "the command goes on"


LEAVES = """
import sys
from accord import Agent, Turn

class Leaves(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say("Bye.")
        raise {error}

Leaves().run()
"""


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
@pytest.mark.parametrize(("error", "status"), [("SystemExit(3)", 3), ("KeyboardInterrupt", None)])
async def test_turn_that_exits_the_program_is_answered_first(
    version: Any, error: str, status: int | None, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(LEAVES.format(error=error))
    command = [sys.executable, str(tmp_path / "agent.py")]
    async with accord.connect(command, versions=[version]) as agent:
        session = await agent.new_session(tmp_path)
        turn = session.prompt("go")
        with pytest.raises(accord.InternalError):
            async with turn:
                await turn.wait()
        assert turn.text == "Bye."
        with pytest.raises(accord.ConnectionLost) as lost:
            await agent.new_session(tmp_path)
    assert lost.value.exit_status == status if status is not None else lost.value.exit_status != 0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or (
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    )
