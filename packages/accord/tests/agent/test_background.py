"""Background work: it outlives its turn and can be cancelled individually."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, InvalidParams, TokenUsage, Turn, v1, v2
from accord.agent import ToolCallHandle, WorkCancelled
from agent.harness import BOTH, V1, V2, AgentHarness, connect_client
from event_loop import drain_event_loop
from requirement import requirement

FOREVER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


class Builder(Agent):
    """Starts the background work that the prompt names."""

    unstable = True

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.calls: list[ToolCallHandle] = []
        self.ended: list[str] = []

    async def prompt(self, turn: Turn) -> None:
        match turn.text.split():
            case ["build"]:
                await turn.run_in_background("Build", self.build, kind="execute")
                await turn.say("I am building.")
            case ["build", "and", "wait"]:
                await turn.run_in_background("Build", self.build)
                await asyncio.Event().wait()
            case ["serve"]:
                await turn.run_in_background("Serve", self.serve)
            case ["fail"]:
                await turn.run_in_background("Fail", self.fail)
            case ["ask"]:
                await turn.run_in_background("Ask", self.ask)
            case ["leave"]:
                self.left = asyncio.ensure_future(self.leave(turn))
                await drain_event_loop()
            case ["alone"]:
                await self.alone(turn, cancellable=True)
            case ["together"]:
                await self.alone(turn, cancellable=False)
            case ["run"]:
                ran = await turn.terminals.run(*FOREVER)
                await turn.say("killed" if ran.signal or ran.exit_code else "done")
            case _:
                await turn.say("Yes?")

    async def build(self, call: ToolCallHandle) -> None:
        self.calls.append(call)
        try:
            await call.append_text("building\n")
            await self.gate.wait()
            await call.append_text("built\n")
        finally:
            self.ended.append(call.status)

    async def serve(self, call: ToolCallHandle) -> None:
        ran = await call.session.terminals.run(*FOREVER)
        await call.set_raw_output({"ok": ran.ok})
        await self.gate.wait()

    async def fail(self, _: ToolCallHandle) -> None:
        raise RuntimeError("a secret of this machine")

    async def ask(self, call: ToolCallHandle) -> None:
        if await call.permission():
            await call.add_content("It may.")

    async def leave(self, turn: Turn) -> None:
        async with turn.tool("Left behind") as call:
            await call.start()
            await self.gate.wait()

    async def alone(self, turn: Turn, *, cancellable: bool) -> None:
        try:
            async with turn.tool("Search", cancellable=cancellable) as call:
                await call.start()
                await asyncio.Event().wait()
        except WorkCancelled:
            await turn.say("I go on without it.")


def background(client: AgentHarness) -> list[list[tuple[str, str]]]:
    """Return the background work that each state lists."""
    found: list[list[tuple[str, str]]] = []
    for state in client.of("RunningStateUpdate", "IdleStateUpdate", "RequiresActionStateUpdate"):
        assert state.background is not None  # R-BGW-02
        found.append(
            [
                ("tool", work.tool_call_id)
                if isinstance(work, v2.BackgroundToolCall)
                else ("terminal", work.terminal_id)
                for work in state.background
            ]
        )
    return found


def final(client: AgentHarness, tool_id: str | None = None) -> bool:
    return client.tool(tool_id).get("status") in ("completed", "failed", "cancelled")


async def cancel_tool(client: AgentHarness, tool_id: str) -> Any:
    request = v2.CancelToolCallRequest(session_id=client.session_id, tool_call_id=tool_id)
    return await client.remote.cancel_tool_call(request)


async def cancel_terminal(client: AgentHarness, terminal_id: str) -> Any:
    request = v2.CancelTerminalRequest(session_id=client.session_id, terminal_id=terminal_id)
    return await client.remote.cancel_terminal(request)


async def close(client: AgentHarness) -> None:
    request = client.types.CloseSessionRequest(session_id=client.session_id)
    await client.remote.close_session(request)


@BOTH
@requirement("R-PROMPT-16", "R-TOOL-11")
async def test_background_work_continues_after_its_turn(version: int) -> None:
    agent = Builder()
    async with connect_client(agent, version) as client:
        assert await client.prompt("build") == "end_turn"
        assert client.tool()["status"] == "in_progress"
        agent.gate.set()
        await client.until(lambda: final(client))
        assert client.tool()["status"] == "completed"


@requirement("R-BGW-01", "R-BGW-02", "R-BGW-03")
async def test_v2_background_work_is_listed_while_it_runs() -> None:
    agent = Builder()
    async with connect_client(agent, V2) as client:
        await client.prompt("build")
        tool_id = client.tool()["tool_call_id"]
        assert client.tool()["capabilities"].cancel is not None
        item = [("tool", tool_id)]
        assert background(client) == [[], item, item]
        await client.prompt("hello")
        assert background(client)[3:] == [item, item]
        agent.gate.set()
        await client.until(lambda: len(background(client)) == 6)
        assert background(client)[5] == []
        assert client.tool(tool_id)["capabilities"] is None  # R-TCAN-03
        # Its end is reported before the list without it.
        names = [type(update).__name__ for update in client.updates]
        assert names[-2:] == ["ToolCallUpdate", "IdleStateUpdate"]
        assert client.ends()[-1].stop_reason is None  # The turn does not end a second time.


@requirement("R-BGW-03")
async def test_v2_background_work_is_reported_before_it_is_listed() -> None:
    async with connect_client(Builder(), V2) as client:
        await client.prompt("build")
        tool_id = client.tool()["tool_call_id"]
        listed = next(
            index
            for index, update in enumerate(client.updates)
            if getattr(update, "background", None)
        )
        told = next(
            index
            for index, update in enumerate(client.updates)
            if getattr(update, "tool_call_id", None) == tool_id
        )
        assert told < listed


@requirement("R-BGW-04", "R-TCAN-04", "R-TCAN-06")
async def test_v2_background_work_with_a_process_is_listed_as_its_terminal(tmp_path: Path) -> None:
    agent = Builder()
    async with connect_client(agent, V2, cwd=str(tmp_path)) as client:
        await client.prompt("serve")
        await client.until(lambda: client.of("TerminalOutputChunk"))
        terminal_id = client.of("TerminalUpdate")[0].terminal_id
        assert client.of("TerminalUpdate")[0].capabilities.cancel is not None
        assert background(client)[-1] == [("terminal", terminal_id)]
        await cancel_terminal(client, terminal_id)
        tool = ("tool", client.tool()["tool_call_id"])
        await client.until(lambda: background(client)[-1] == [tool])
        ended = client.of("TerminalUpdate")[-1]
        assert ended.exit_status is not None
        assert ended.capabilities is None
        assert client.tool()["status"] == "in_progress"
        with pytest.raises(InvalidParams):
            await cancel_terminal(client, terminal_id)


@requirement("R-BGW-08", "R-CANCEL-13")
async def test_v2_cancel_does_not_stop_background_work() -> None:
    agent = Builder()
    async with connect_client(agent, V2) as client:
        sent = client.send("build and wait")
        await client.until(lambda: client.of("ToolCallContentChunk"))
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        assert client.tool()["status"] == "in_progress"
        assert background(client)[-1] == [("tool", client.tool()["tool_call_id"])]
        agent.gate.set()
        await client.until(lambda: final(client))
        assert client.tool()["status"] == "completed"


async def test_v1_cancel_stops_background_work() -> None:
    agent = Builder()
    async with connect_client(agent, V1) as client:
        await client.prompt("build")
        await client.cancel()
        await client.until(lambda: final(client))
        assert client.tool()["status"] == "failed"  # v1 reports a cancelled call as failed
        assert agent.ended == ["in_progress"]


@BOTH
@requirement("R-SESS-33")
async def test_close_stops_background_work_first(version: int) -> None:
    agent = Builder()
    async with connect_client(agent, version) as client:
        await client.prompt("build")
        await close(client)
        assert final(client)
        assert agent.ended == ["in_progress"]
        heard = len(client.updates)
        agent.gate.set()
        await drain_event_loop()
        assert len(client.updates) == heard


@BOTH
async def test_background_work_ends_when_the_connection_ends(version: int) -> None:
    agent = Builder()
    async with connect_client(agent, version) as client:
        await client.prompt("build")
    assert agent.ended == ["in_progress"]
    assert not agent.sessions


@BOTH
async def test_failed_background_work_is_reported_without_the_exception(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_client(Builder(), version) as client:
        await client.prompt("fail")
        await client.until(lambda: final(client))
        assert client.tool()["status"] == "failed"
        assert "secret" not in str([client.json(update) for update in client.updates])
    assert "background work failed: Fail" in caplog.text
    caplog.clear()


@BOTH
async def test_agent_cancels_its_background_work(version: int) -> None:
    agent = Builder()
    async with connect_client(agent, version) as client:
        await client.prompt("build")
        agent.calls[0].cancel()
        agent.calls[0].cancel()
        await client.until(lambda: final(client))
        assert client.tool()["status"] == ("failed" if version == V1 else "cancelled")
        agent.calls[0].cancel()
        assert await client.prompt("hello") == "end_turn"


@BOTH
async def test_background_work_asks_the_user_while_no_turn_waits(version: int) -> None:
    async with connect_client(Builder(), version) as client:
        await client.prompt("ask")
        await client.until(lambda: final(client))
        assert len(client.asked) == 1
        assert client.tool()["status"] == "completed"
        assert client.of("RequiresActionStateUpdate") == []


@requirement("R-BGW-01")
async def test_v2_tool_call_left_open_by_a_turn_is_background_work() -> None:
    agent = Builder()
    async with connect_client(agent, V2) as client:
        await client.prompt("leave")
        item = [("tool", client.tool()["tool_call_id"])]
        assert background(client) == [[], item]
        agent.gate.set()
        await client.until(lambda: background(client)[-1] == [])
        assert client.tool()["status"] == "completed"
        await agent.left


@requirement("R-TCAN-04", "R-TCAN-06")
async def test_v2_background_work_is_cancelled_individually() -> None:
    agent = Builder()
    async with connect_client(agent, V2) as client:
        await client.prompt("build")
        tool_id = client.tool()["tool_call_id"]
        assert await cancel_tool(client, tool_id) == v2.CancelToolCallResponse()
        await client.until(lambda: final(client))
        assert client.tool()["status"] == "cancelled"
        await client.until(lambda: background(client)[-1] == [])


@requirement("R-TCAN-03", "R-TCAN-04")
async def test_v2_tool_call_is_cancelled_while_its_turn_continues() -> None:
    async with connect_client(Builder(), V2) as client:
        sent = client.send("alone")
        await client.until(lambda: "in_progress" in client.statuses())
        await cancel_tool(client, client.tool()["tool_call_id"])
        assert await client.stopped(sent) == "end_turn"
        assert client.said() == "I go on without it."
        assert client.tool()["status"] == "cancelled"
        assert client.tool()["capabilities"] is None


@BOTH
async def test_cancelling_a_turn_is_not_cancelling_one_tool_call(version: int) -> None:
    async with connect_client(Builder(), version) as client:
        sent = client.send("alone")
        await client.until(lambda: "in_progress" in client.statuses())
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        assert client.said() == ""


@requirement("R-TCAN-01", "R-TCAN-05")
async def test_v2_tool_call_that_is_not_cancellable_is_not_cancelled() -> None:
    agent = Builder()
    async with connect_client(agent, V2) as client:
        sent = client.send("together")
        await client.until(lambda: "in_progress" in client.statuses())
        assert "capabilities" not in client.tool()
        for tool_id in (client.tool()["tool_call_id"], "unknown"):
            with pytest.raises(InvalidParams):
                await cancel_tool(client, tool_id)
        await client.cancel()
        await client.stopped(sent)


@requirement("R-TCAN-05")
async def test_v2_tool_call_that_has_ended_is_not_cancelled() -> None:
    agent = Builder()
    async with connect_client(agent, V2) as client:
        agent.gate.set()
        await client.prompt("build")
        await client.until(lambda: final(client))
        with pytest.raises(InvalidParams):
            await cancel_tool(client, client.tool()["tool_call_id"])


async def test_v2_command_of_a_turn_is_cancelled_individually(tmp_path: Path) -> None:
    async with connect_client(Builder(), V2, cwd=str(tmp_path)) as client:
        sent = client.send("run")
        await client.until(lambda: client.of("TerminalOutputChunk"))
        await cancel_terminal(client, client.of("TerminalUpdate")[0].terminal_id)
        assert await client.stopped(sent) == "end_turn"
        assert client.said() == "killed"


class Counts(Agent):
    """Reports the tokens of its turns."""

    async def prompt(self, turn: Turn) -> None:
        turn.token_usage = TokenUsage(total=30, input=20, output=10, thought=5)


class UnstableCounts(Counts):
    unstable = True


@BOTH
@requirement("R-PROMPT-23")
@pytest.mark.parametrize("agent", [Counts, UnstableCounts])
async def test_unstable_agent_reports_token_usage_at_the_end_of_a_turn(
    version: int, agent: type[Counts]
) -> None:
    async with connect_client(agent(), version) as client:
        answer = await client.send("count")
        if version == V2:
            await client.until(client.ends)
            answer = client.ends()[-1]
        usage: v1.Usage | v2.Usage | None = answer.usage
        if not agent.unstable:
            assert usage is None
        else:
            assert usage is not None
            assert (usage.total_tokens, usage.input_tokens, usage.thought_tokens) == (30, 20, 5)


@BOTH
async def test_command_that_cannot_start_in_the_background_is_logged(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Starts(Agent):
        async def prompt(self, turn: Turn) -> None:
            call = await turn.run_in_background("Serve", self.serve)
            while not call.final_status_sent:
                await asyncio.sleep(0)

        async def serve(self, call: ToolCallHandle) -> None:
            await call.session.terminals.run("no-such-command")

    async with connect_client(Starts(), version) as client:
        await client.prompt("go")
    assert "background work failed: Serve" in caplog.text
