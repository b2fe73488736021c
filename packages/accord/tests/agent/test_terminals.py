"""Commands run in the client's terminals if it has them, else on this machine, with live output."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Turn, v1
from accord.agent.files_and_terminals import CommandResult
from accord.errors import RequestError, StartError
from agent.harness import BOTH, V1, V2, AgentHarness, ClientV1, FunctionAgent, connect_client
from requirement import requirement

HELLO = "import os; print('hello', os.environ.get('A')); print(os.getcwd())"
SLOW = "import time; print('begun', flush=True); time.sleep(60)"


class Terminal(ClientV1):
    """Simulates running commands."""

    def __init__(self, harness: AgentHarness) -> None:
        super().__init__(harness)
        self.calls: list[Any] = []
        self.exits = asyncio.Event()
        harness.terminal = self  # type: ignore[attr-defined]  # for the test to look at

    def create_terminal(
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        self.calls.append(params)
        if params.args:
            self.exits.set()
        return v1.CreateTerminalResponse(terminal_id="t-1")

    def terminal_output(
        self, params: v1.TerminalOutputRequest, context: v1.ClientContext
    ) -> v1.TerminalOutputResponse:
        return v1.TerminalOutputResponse(output="there", truncated=True)

    async def wait_for_terminal_exit(
        self, params: v1.WaitForTerminalExitRequest, context: v1.ClientContext
    ) -> v1.WaitForTerminalExitResponse:
        await self.exits.wait()
        return v1.WaitForTerminalExitResponse(exit_code=3)

    def kill_terminal(
        self, params: v1.KillTerminalRequest, context: v1.ClientContext
    ) -> v1.KillTerminalResponse:
        self.calls.append("kill")
        self.exits.set()
        return v1.KillTerminalResponse()

    def release_terminal(
        self, params: v1.ReleaseTerminalRequest, context: v1.ClientContext
    ) -> v1.ReleaseTerminalResponse:
        self.calls.append("release")
        self.harness.changed.set()
        return v1.ReleaseTerminalResponse()


@requirement("R-TERM-01", "R-TERM-09", "R-TOOL-18", "R-TOOL-19")
async def test_v1_terminal_of_the_client_runs_the_command(tmp_path: Path) -> None:
    ran: list[CommandResult] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Test", kind="execute"):
            ran.append(
                await turn.terminals.run(
                    "pytest", "-q", env={"A": "b", "HOME": None}, output_bytes=99
                )
            )

    async with connect_client(
        FunctionAgent(work), V1, cwd=str(tmp_path), client=Terminal
    ) as client:
        assert await client.prompt("go") == "end_turn"
        assert ran == [CommandResult(3, None, "there", truncated=True)]
        assert not ran[0].ok
        calls = client.terminal.calls  # type: ignore[attr-defined]  # set by the client
        assert calls[0] == v1.CreateTerminalRequest(
            session_id=client.session_id,
            command="pytest",
            args=["-q"],
            env=[v1.EnvVariable(name="A", value="b")],
            cwd=str(tmp_path),
            output_byte_limit=99,
        )
        await client.until(lambda: "release" in calls)
        assert client.tool()["content"] == [v1.Terminal(terminal_id="t-1")]


@requirement("R-TERM-09", "R-TERM-12")
async def test_v1_terminal_of_the_client_is_killed_on_timeout_and_released(tmp_path: Path) -> None:
    ran: list[CommandResult] = []

    async def work(turn: Turn) -> None:
        ran.append(await turn.terminals.run("sleep", timeout_s=0.01))

    async with connect_client(
        FunctionAgent(work), V1, cwd=str(tmp_path), client=Terminal
    ) as client:
        assert await client.prompt("go") == "end_turn"
        assert ran[0].timed_out
        calls = client.terminal.calls  # type: ignore[attr-defined]  # set by the client
        await client.until(lambda: calls[1:] == ["kill", "release"])
        assert client.tool()["status"] == "failed"


async def test_v1_terminal_of_a_cancelled_turn_is_released(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        await turn.terminals.run("sleep")

    async with connect_client(
        FunctionAgent(work), V1, cwd=str(tmp_path), client=Terminal
    ) as client:
        sent = client.send("go")
        await client.until(lambda: client.of("ToolCallUpdate")[1:])
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        calls = client.terminal.calls  # type: ignore[attr-defined]  # set by the client
        await client.until(lambda: "release" in calls)


class ClosingTerminal(Terminal):
    """FunctionAgent not respond to a release."""

    def release_terminal(
        self, params: v1.ReleaseTerminalRequest, context: v1.ClientContext
    ) -> v1.ReleaseTerminalResponse:
        super().release_terminal(params, context)
        raise RequestError("The client is closing")


async def test_v1_terminal_that_the_client_does_not_release_is_not_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(turn: Turn) -> None:
        await turn.terminals.run("pytest", "-q")

    async with connect_client(
        FunctionAgent(work), V1, cwd=str(tmp_path), client=ClosingTerminal
    ) as client:
        assert await client.prompt("go") == "end_turn"
        calls = client.terminal.calls  # type: ignore[attr-defined]  # set by the client
        await client.until(lambda: "release" in calls)
        assert await client.prompt("again") == "end_turn"  # the response has arrived
    assert [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")] == []


class SlowTerminal(Terminal):
    """Creates a terminal only when the test allows it."""

    async def create_terminal(  # type: ignore[override]  # awaited, here
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        self.calls.append(params)
        self.harness.changed.set()
        await self.exits.wait()
        return v1.CreateTerminalResponse(terminal_id="t-1")


@requirement("R-TERM-09")
async def test_v1_terminal_created_during_a_cancel_is_released(
    tmp_path: Path,
) -> None:
    async def work(turn: Turn) -> None:
        await turn.terminals.run("sleep")

    async with connect_client(
        FunctionAgent(work), V1, cwd=str(tmp_path), client=SlowTerminal
    ) as client:
        sent = client.send("go")
        calls = client.terminal.calls  # type: ignore[attr-defined]  # set by the client
        await client.until(lambda: bool(calls))
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        client.terminal.exits.set()  # type: ignore[attr-defined]  # as above
        await client.until(lambda: "release" in calls)


@BOTH
@requirement("R-TERM-13", "R-DTERM-01", "R-DTERM-04", "R-DTERM-10")
async def test_local_command_is_shown_with_its_output(version: int, tmp_path: Path) -> None:
    ran: list[CommandResult] = []
    here = str(tmp_path)

    async def work(turn: Turn) -> None:
        async with turn.tool("Say hello", kind="execute"):
            ran.append(await turn.terminals.run(sys.executable, "-c", HELLO, env={"A": "b"}))

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        (result,) = ran
        assert result.ok
        assert result.output.split() == ["hello", "b", here]
        if version == V1:
            (shown,) = client.tool()["content"]
            assert shown.content.text == result.output
            return
        (item,) = client.tool()["content"]
        begun, *_, ended = client.of("TerminalUpdate")
        assert begun.terminal_id == ended.terminal_id == item.terminal_id
        assert begun.command.startswith(sys.executable)
        assert begun.cwd == str(tmp_path)
        assert ended.exit_status.exit_code == 0
        chunks = client.of("TerminalOutputChunk")
        output = b"".join(base64.b64decode(chunk.data) for chunk in chunks)
        assert output.decode() == result.output


@BOTH
async def test_command_outside_of_a_tool_call_starts_one(version: int, tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        await turn.terminals.run(sys.executable, "-c", "raise SystemExit(1)")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        call = client.tool()
        assert call["kind"] == "execute"
        assert "SystemExit" in call["title"]
        assert call["status"] == "failed"


@requirement("R-CANCEL-04")
@BOTH
async def test_cancel_kills_the_local_command(version: int, tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        await turn.terminals.run(sys.executable, "-c", SLOW)

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        sent = client.send("go")
        if version == V1:
            await client.until(lambda: client.of("ToolCallUpdate")[1:])
        else:
            await client.until(lambda: client.of("TerminalOutputChunk"))
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        assert client.tool()["status"] == ("failed" if version == V1 else "cancelled")
        if version == V2:
            assert client.of("TerminalUpdate")[-1].exit_status is not None


async def test_local_command_is_killed_on_timeout(tmp_path: Path) -> None:
    ran: list[CommandResult] = []

    async def work(turn: Turn) -> None:
        ran.append(await turn.terminals.run(sys.executable, "-c", SLOW, timeout_s=0.3))

    async with connect_client(FunctionAgent(work), V2, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        assert ran[0].timed_out
        assert not ran[0].ok


async def test_missing_command_fails(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        with pytest.raises(StartError):
            await turn.terminals.run("no-such-command")

    async with connect_client(FunctionAgent(work), V2, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.tool()["status"] == "failed"


async def test_command_outside_of_the_roots_is_rejected(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        with pytest.raises(PermissionError):
            await turn.terminals.run(sys.executable, "-c", HELLO, cwd="..")

    async with connect_client(FunctionAgent(work), V2, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
