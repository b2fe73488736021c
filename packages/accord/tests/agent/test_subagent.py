"""Subagents: shown as sessions of their own, or as a tool call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import Agent, InvalidParams, MemoryStore, PermissionOption, TokenUsage, Turn, v1, v2
from accord.agent import WorkCancelled
from accord.errors import ResourceNotFound
from agent.harness import BOTH, V1, V2, AgentHarness, ClientV1, ClientV2, connect_client
from event_loop import drain_event_loop
from requirement import requirement

ONE = (PermissionOption("allow_once", "Allow", "allow_once"),)


class Boss(Agent):
    """Starts subagents."""

    unstable = True

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.chosen: list[Any] = []
        self.cancelled = 0

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "review":
                async with turn.subagent("Reviewer", description="Reads the change") as child:
                    await turn.send_session_message(child, "Review this.")
                    await child.say("Looks ")
                    await child.say("good.")
                    async with child.tool("Read", kind="read") as call:
                        await call.add_content("text")
                    await child.send_session_message(turn.session, "Done.")
                    child.token_usage = TokenUsage(total=3, input=2, output=1)
                await turn.say("Reviewed.")
            case "ask":
                async with turn.subagent("Asker") as child, child.tool("Edit") as call:
                    self.chosen.append(await call.request_choice(ONE))
            case "fail":
                async with turn.subagent("Failing"):
                    raise RuntimeError
            case "elsewhere":
                async with turn.subagent(
                    "Far", cwd="/else", additional_directories=["/more"]
                ) as child:
                    await child.say(" ".join(child.directories))
            case "beside":
                self.left = asyncio.ensure_future(self.continue_after(turn))
                await drain_event_loop()
            case _:
                await self.wait(turn, cancellable=turn.text == "alone")

    async def wait(self, turn: Turn, *, cancellable: bool) -> None:
        try:
            async with turn.subagent("Waiter", cancellable=cancellable) as child:
                await child.say("I wait.")
                await asyncio.Event().wait()
        except WorkCancelled:
            self.cancelled += 1
            await turn.say("I go on without it.")

    async def continue_after(self, turn: Turn) -> None:
        async with turn.subagent("Left") as child:
            await self.gate.wait()
            await child.say("late")


class Stable(Boss):
    unstable = False


def client_with_subagents(harness: AgentHarness) -> Any:
    """Return a client that supports subagents and keeps their updates apart."""
    base: Any = ClientV1 if harness.version == V1 else ClientV2
    family: Any = harness
    family.by_session = {}

    class Showing(base):
        def capabilities(self) -> Any:
            if harness.version == V1:
                return v1.ClientCapabilities(subagents=v1.SubagentCapabilities())
            return super().capabilities()

        def session_update(self, params: Any, context: Any) -> None:
            family.by_session.setdefault(params.session_id, []).append(params.update)
            self.harness.heard(params.update)

    return Showing(harness)


def child_of(client: Any) -> str:
    """Return the id of the only subagent."""
    (found,) = {update.session_id for update in client.of("SubagentUpdate")}
    assert found != client.session_id
    return found


def states(client: Any) -> list[str]:
    return [type(update.state).__name__ for update in client.of("SubagentUpdate")]


def names(updates: list[Any]) -> list[str]:
    return [type(update).__name__ for update in updates]


@BOTH
@requirement("R-SUBAG-01", "R-SUBAG-02", "R-SUBAG-03", "R-SUBAG-08")
async def test_subagent_is_announced_before_its_own_updates(version: int) -> None:
    async with connect_client(Boss(), version, client=client_with_subagents) as client:
        family: Any = client
        assert await client.prompt("review") == "end_turn"
        child = child_of(client)
        first, *_, last = client.of("SubagentUpdate")
        assert (first.title, first.description) == ("Reviewer", "Reads the change")
        assert type(first.state).__name__ == "RunningState"
        assert type(last.state).__name__ == "IdleState"
        assert last.state.stop_reason == "end_turn"
        assert last.state.usage.total_tokens == 3
        said = [u.content.text for u in family.by_session[child] if "AgentMessage" in str(type(u))]
        assert "".join(said) == "Looks good."
        assert "ToolCallUpdate" in names(family.by_session[child])
        assert "ToolCallUpdate" not in names(family.by_session[client.session_id])
        # No update names it before it is announced.
        order = [id(update) for update in client.updates]
        assert order.index(id(first)) < order.index(id(family.by_session[child][0]))


@BOTH
@requirement("R-SUBAG-11")
async def test_messages_between_sessions_are_sent_to_both(version: int) -> None:
    async with connect_client(Boss(), version, client=client_with_subagents) as client:
        family: Any = client
        await client.prompt("review")
        parent, child = client.session_id, child_of(client)
        (sent, got), (received, answered) = (
            [
                update
                for update in family.by_session[session]
                if type(update).__name__ == "SessionMessage"
            ]
            for session in (parent, child)
        )
        assert (sent.sender_session_id, sent.recipient_session_id) == (parent, child)
        assert sent.recipient_message_id == received.message_id
        assert received.sender_message_id == sent.message_id
        assert received.content[0].text == "Review this."
        assert (answered.sender_session_id, got.recipient_session_id) == (child, parent)
        assert got.sender_message_id == answered.message_id


@requirement("R-SUBAG-07")
async def test_v2_state_of_a_subagent_is_sent_to_both_sessions() -> None:
    async with connect_client(Boss(), V2, client=client_with_subagents) as client:
        family: Any = client
        await client.prompt("ask")
        child = child_of(client)
        own = [u for u in family.by_session[child] if type(u).__name__.endswith("StateUpdate")]
        assert [u.state for u in own] == ["running", "requires_action", "running", "idle"]
        assert states(client) == [
            "RunningState",
            "RequiresActionState",
            "RunningState",
            "IdleState",
        ]
        mine = [
            u.state
            for u in family.by_session[client.session_id]
            if type(u).__name__.endswith("StateUpdate")
        ]
        assert mine == ["running", "requires_action", "running", "idle"]
        assert client.asked[0].session_id == child


@BOTH
@pytest.mark.parametrize("client", [client_with_subagents, None], ids=["shown", "in a call"])
async def test_subagent_asks_the_user(version: int, client: Any) -> None:
    agent = Boss() if client else Stable()
    async with connect_client(agent, version, client=client) as side:
        assert await side.prompt("ask") == "end_turn"
        assert len(side.asked) == 1
        assert agent.chosen == [ONE[0]]
        assert (side.asked[0].session_id == side.session_id) is (client is None)


@BOTH
async def test_failed_subagent_is_reported(version: int, caplog: pytest.LogCaptureFixture) -> None:
    async with connect_client(Boss(), version, client=client_with_subagents) as client:
        sent = client.send("fail")
        await asyncio.gather(sent, return_exceptions=True)
        await client.until(lambda: "IdleState" in states(client))
        assert client.of("SubagentUpdate")[-1].state.stop_reason == "error"
    assert "the turn failed" in caplog.text
    caplog.clear()


@BOTH
@requirement("R-SUBAG-09")
async def test_subagent_works_in_its_own_directory(version: int) -> None:
    async with connect_client(Boss(), version, client=client_with_subagents) as client:
        await client.prompt("elsewhere")
        update = client.of("SubagentUpdate")[0]
        assert (update.cwd, update.additional_directories) == ("/else", ["/more"])
        assert client.said() == "/else /more"


@BOTH
@requirement("R-SUBAG-05")
async def test_subagent_is_cancelled_individually(version: int) -> None:
    agent = Boss()
    async with connect_client(agent, version, client=client_with_subagents) as client:
        parent = client.session_id
        sent = client.send("alone")
        await client.until(lambda: client.said() == "I wait.")
        assert client.of("SubagentUpdate")[0].capabilities.cancel is not None
        ended = len(client.ends())
        client.session_id = child_of(client)
        await client.cancel()
        client.session_id = parent
        await client.stopped(sent, before=ended + (version == V2))
        assert agent.cancelled == 1
        assert client.said().endswith("I go on without it.")
        last = client.of("SubagentUpdate")[-1]
        assert last.state.stop_reason == "cancelled"


@BOTH
async def test_subagent_that_is_not_cancellable_is_not_cancelled(version: int) -> None:
    agent = Boss()
    async with connect_client(agent, version, client=client_with_subagents) as client:
        parent = client.session_id
        sent = client.send("together")
        await client.until(lambda: client.said() == "I wait.")
        client.session_id = child_of(client)
        await client.cancel()
        await drain_event_loop()
        assert not sent.done() or version == V2
        assert "IdleState" not in states(client)
        with pytest.raises(ResourceNotFound):
            await client.send("You there")  # it accepts no prompts
        client.session_id = parent
        await client.cancel()
        await client.until(lambda: "IdleState" in states(client))
        assert client.of("SubagentUpdate")[-1].state.stop_reason == "cancelled"
        await sent


@requirement("R-BGW-05")
async def test_v2_subagent_left_open_by_a_turn_is_background_work() -> None:
    agent = Boss()
    async with connect_client(agent, V2, client=client_with_subagents) as client:
        await client.prompt("beside")
        child = child_of(client)
        end = client.ends()[-1]
        assert end.background == [v2.BackgroundSubagent(session_id=child)]
        agent.gate.set()
        await agent.left
        await client.until(lambda: client.updates[-1].background == [])


@BOTH
@requirement("R-SUBAG-01")
async def test_subagent_is_a_tool_call_for_clients_without_subagents(version: int) -> None:
    agent = Boss() if version == V1 else Stable()
    async with connect_client(agent, version) as client:
        assert await client.prompt("review") == "end_turn"
        assert client.of("SubagentUpdate", "SessionMessage") == []
        call = client.tool()
        assert (call["title"], call["status"]) == ("Reviewer", "completed")
        texts = [item.content.text for item in call["content"]]
        assert "".join(texts) == "Reads the changeLooks good.\nRead\n"
        assert client.said() == "Reviewed."


async def test_v2_tool_call_of_a_subagent_is_cancelled_individually() -> None:
    agent = Stable()
    async with connect_client(agent, V2) as client:
        sent = client.send("alone")
        await client.until(lambda: client.of("ToolCallContentChunk"))
        await client.remote.cancel_tool_call(
            v2.CancelToolCallRequest(
                session_id=client.session_id, tool_call_id=client.tool()["tool_call_id"]
            )
        )
        await client.stopped(sent)
        assert agent.cancelled == 1
        assert client.tool()["status"] == "cancelled"


@BOTH
@requirement("R-CANCEL-04")
async def test_cancelling_a_turn_ends_its_subagents(version: int) -> None:
    async with connect_client(Boss(), version) as client:
        sent = client.send("together")
        await client.until(lambda: client.of("ToolCall", "ToolCallUpdate", "SubagentUpdate"))
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"


@requirement("R-TCAN-05")
async def test_v2_tool_calls_of_a_subagent_are_cancelled_in_its_session() -> None:
    async with connect_client(Boss(), V2, client=client_with_subagents) as client:
        sent = client.send("together")
        await client.until(lambda: client.of("SubagentUpdate"))
        with pytest.raises(InvalidParams):
            await client.remote.cancel_tool_call(
                v2.CancelToolCallRequest(session_id=child_of(client), tool_call_id="none")
            )
        await client.cancel()
        await sent


class Keeps(Boss):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()


@BOTH
async def test_subagents_are_replayed_with_their_last_status(version: int) -> None:
    async with connect_client(Keeps(), version, client=client_with_subagents) as client:
        await client.prompt("review")
        if version == V2:  # the subagent has ended before
            await client.until(lambda: len(client.ends()) > 1)
        child = child_of(client)
        client.updates.clear()
        fields: dict[str, Any] = {"session_id": client.session_id, "cwd": client.cwd}
        if version == V1:
            await client.remote.load_session(v1.LoadSessionRequest(mcp_servers=[], **fields))
        else:
            start = v2.ReplayFromStart()
            await client.remote.resume_session(v2.ResumeSessionRequest(replay_from=start, **fields))
        (update,) = client.of("SubagentUpdate")
        assert (update.session_id, update.title) == (child, "Reviewer")
        assert update.state.stop_reason == "end_turn"
        assert len(client.of("SessionMessage")) == 2
