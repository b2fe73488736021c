"""The sessions of one agent that serves several clients, and how they are opened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from accord import Agent, InvalidParams, MemoryStore, Session, SqliteStore, Turn, v1, v2
from accord.agent.store.stored_sessions import decode_update
from accord.agent.updates import MessageUpdate, TurnEnded
from accord.errors import (
    InternalError,
    InvalidRequest,
    NotOffered,
    RemoteProtocolError,
    ResourceNotFound,
)
from agent.harness import BOTH, V1, V2, AgentHarness, connect_client
from event_loop import drain_event_loop
from raw_peer import QUICK
from requirement import requirement


class Shared(Agent):
    """Has one store for all its clients."""

    unstable = True
    system_prompt = frozenset({"append"})

    def __init__(self, store: Any = None) -> None:
        self.store = store or MemoryStore()
        self.began = asyncio.Event()
        self.closed: list[str] = []
        self.opened = 0

    async def open_session(self, session: Session) -> None:
        self.opened += 1
        await asyncio.sleep(0)

    async def close_session(self, session: Session) -> None:
        self.closed.append(session.id)

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "wait":
            self.began.set()
            await asyncio.Event().wait()
        prompt = turn.session.system_prompt
        await turn.say(turn.text if prompt is None else f"{prompt.mode}: {prompt.text}")


class OverridesPrompt(Shared):
    system_prompt = frozenset({"append", "override"})


async def take_over(client: AgentHarness, session_id: str, **more: Any) -> Any:
    """Open a stored session by the method of the version."""
    client.session_id = session_id
    fields: dict[str, Any] = {"session_id": session_id, "cwd": "/project", **more}
    if client.version == V2:
        request = v2.ResumeSessionRequest(replay_from=v2.ReplayFromStart(), **fields)
        return await client.remote.resume_session(request)
    return await client.remote.load_session(v1.LoadSessionRequest(mcp_servers=[], **fields))


@BOTH
@requirement("R-SESS-37")
@pytest.mark.parametrize("other", [V1, V2])
async def test_session_moves_to_the_client_that_opens_it(version: int, other: int) -> None:
    agent = Shared()
    async with (
        connect_client(agent, version) as first,
        connect_client(agent, other, opened=False) as second,
    ):
        await first.prompt("one")
        session_id = first.session_id
        sent = first.send("wait")
        await agent.began.wait()
        ended = len(first.ends())
        await take_over(second, session_id)
        assert await first.stopped(sent, before=ended - 1 if version == V2 else 0) == "cancelled"
        assert agent.closed == [session_id]
        with pytest.raises(ResourceNotFound) as caught:
            await first.send("still mine?")
        assert caught.value.data == {"sessionId": session_id}
        await second.prompt("two")
        assert second.said() == "onetwo"
        history = await agent.sessions[session_id].history()
        said = [r.content[0] for r in history if isinstance(r, MessageUpdate) and r.role == "user"]
        assert said == ["one", "wait", "two"]
    assert agent.closed == [session_id, session_id]
    assert agent.sessions == {}


@BOTH
async def test_end_of_a_turn_cancelled_by_a_takeover_is_stored(version: int) -> None:
    first_store = MemoryStore()
    agent = Shared(first_store)
    async with (
        connect_client(agent, version) as first,
        connect_client(agent, version, opened=False) as second,
    ):
        first.send("wait").add_done_callback(lambda _: None)
        await agent.began.wait()
        await take_over(second, first.session_id)
        entries = await first_store.read(first.session_id)
        assert decode_update(entries[-1]) == TurnEnded("cancelled")


@BOTH
async def test_clients_that_open_a_session_at_once_receive_it_in_turn(
    version: int,
) -> None:
    agent = Shared()
    async with connect_client(agent, version) as maker:
        session_id = maker.session_id
        await maker.remote.close_session(maker.types.CloseSessionRequest(session_id=session_id))
        async with (
            connect_client(agent, version, opened=False) as one,
            connect_client(agent, version, opened=False) as two,
        ):
            await asyncio.gather(take_over(one, session_id), take_over(two, session_id))
            (session,) = agent.sessions.values()
            holders = [client for client in agent.clients if session_id in client.sessions]
            assert len(holders) == 1
            assert session.client is holders[0]
            assert agent.closed == [session_id, session_id]


@BOTH
async def test_client_that_opens_its_session_twice_at_once_has_it_once(version: int) -> None:
    agent = Shared()
    async with connect_client(agent, version) as client:
        session_id = client.session_id
        await client.remote.close_session(client.types.CloseSessionRequest(session_id=session_id))
        await asyncio.gather(take_over(client, session_id), take_over(client, session_id))
        assert agent.opened == 2
        assert len(agent.sessions) == 1


@BOTH
@requirement("R-ARCH-04")
@pytest.mark.parametrize("how", ["delete", "archive"])
async def test_archived_session_is_closed_where_it_is_open(version: int, how: str) -> None:
    agent = Shared()
    async with (
        connect_client(agent, version) as first,
        connect_client(agent, version, opened=False) as second,
    ):
        session_id = first.session_id
        sent = first.send("wait")
        await agent.began.wait()
        types = second.types
        if how == "delete":
            await second.remote.delete_session(types.DeleteSessionRequest(session_id=session_id))
        else:
            await second.remote.archive_session(types.ArchiveSessionRequest(session_id=session_id))
        assert await first.stopped(sent) == "cancelled"
        assert agent.closed == [session_id]


@requirement("R-PROMPT-27")
async def test_v2_queued_prompts_are_cancelled_when_the_session_moves() -> None:
    agent = Shared()
    async with (
        connect_client(agent, V2) as first,
        connect_client(agent, V2, opened=False) as second,
    ):
        await first.send("wait")
        await agent.began.wait()
        held = first.send("later")
        await drain_event_loop()
        await take_over(second, first.session_id)
        (error,) = await asyncio.gather(held, return_exceptions=True)
        assert getattr(error, "code", None) == -32800
        assert "later" not in str(second.updates)


@BOTH
async def test_session_of_a_disconnected_client_is_opened_by_the_next(
    version: int, tmp_path: Any
) -> None:
    agent = Shared(SqliteStore(tmp_path / "sessions.db"))
    async with connect_client(agent, version) as first:
        session_id = first.session_id
        await first.prompt("one")
    async with connect_client(agent, version, opened=False) as second:
        await take_over(second, session_id)
        await second.prompt("two")
        assert second.said() == "onetwo"
    await agent.aclose()


# System prompts.


def prompted(client: AgentHarness, *texts: str, mode: str = "append") -> Any:
    blocks = [client.types.TextContent(text=text) for text in texts]
    return client.types.SystemPrompt(mode=mode, content=blocks)


@BOTH
@requirement("R-SYSP-02", "R-SYSP-04")
async def test_system_prompt_of_the_client_reaches_the_session(version: int) -> None:
    async with connect_client(Shared(), version, opened=False) as client:
        await client.open(system_prompt=prompted(client, "Be brief.", "Be kind."))
        await client.prompt("hello")
        assert client.said() == "append: Be brief.\n\nBe kind."


@BOTH
async def test_system_prompt_is_passed_again_when_a_session_is_reopened(
    version: int,
) -> None:
    agent = Shared()
    async with connect_client(agent, version) as client:
        await client.prompt("hello")
        await take_over(client, client.session_id, system_prompt=prompted(client, "Be brief."))
        client.updates.clear()
        await client.prompt("hello")
        assert client.said() == "append: Be brief."


@BOTH
@requirement("R-SYSP-01", "R-SYSP-03", "R-SYSP-05")
async def test_system_prompt_that_cannot_be_applied_is_rejected(version: int) -> None:
    agent = OverridesPrompt()
    async with connect_client(agent, version, opened=False) as client:
        types = client.types
        image = types.ImageContent(data="", mime_type="image/png")
        for refused in (
            prompted(client, "x", mode="_upside_down"),
            prompted(client),
            types.SystemPrompt(mode="append", content=[image]),
        ):
            with pytest.raises(InvalidParams):
                await client.open(system_prompt=refused)
        assert agent.opened == 0
        await client.open(system_prompt=prompted(client, "Instead.", mode="override"))
        await client.prompt("hello")
        assert client.said() == "override: Instead."


class Stable(Shared):
    unstable = False


@BOTH
@requirement("R-SYSP-01")
async def test_unstable_agents_with_system_prompts_advertise_them(version: int) -> None:
    async with connect_client(Shared(), version, opened=False) as client:
        with pytest.raises(NotOffered):
            await client.open(system_prompt=prompted(client, "Instead.", mode="override"))
    async with connect_client(Stable(), version, opened=False) as client:
        with pytest.raises(NotOffered):
            await client.open(system_prompt=prompted(client, "Be brief."))


@BOTH
@pytest.mark.parametrize("store", [True, False], ids=["store", "no store"])
async def test_open_sessions_of_a_connection_are_limited(version: int, store: bool) -> None:
    agent = Shared()
    if not store:
        agent.store = None
    limits = structs.replace(QUICK, sessions=5)
    async with connect_client(agent, version, limits=limits) as client:
        first = client.session_id
        opening = [client.open() for _ in range(10)]
        results = await asyncio.gather(*opening, return_exceptions=True)
        refused = [error for error in results if isinstance(error, BaseException)]
        assert len(refused) == 6
        for error in refused:
            assert isinstance(error, InvalidRequest)
            assert error.data == {"limit": 5}
            assert "5 open sessions" in error.message
        if store:
            with pytest.raises(InvalidRequest):
                await client.remote.fork_session(
                    client.types.ForkSessionRequest(session_id=first, cwd="/project")
                )
        await client.remote.close_session(client.types.CloseSessionRequest(session_id=first))
        await client.open()
        if store:
            with pytest.raises(InvalidRequest):
                await take_over(client, first)


@BOTH
@pytest.mark.parametrize("path", ["/a\0b", "/a\ud800b"], ids=["NUL", "half a surrogate pair"])
async def test_invalid_directories_are_rejected(version: int, path: str) -> None:
    async with connect_client(Shared(), version) as client:
        with pytest.raises(InvalidParams):
            await client.open(cwd=path)
        with pytest.raises(InvalidParams):
            await client.open(additional_directories=[path])
        if version == V1:
            server = v1.McpServerStdio(name="x", command=path, args=[], env=[])
            with pytest.raises(InvalidParams):
                await client.open(mcp_servers=[server])


class Relaying(Agent):
    """Does not catch an error of the client."""

    async def prompt(self, turn: Turn) -> None:
        await turn.session.client.call_extension("_missing")


@BOTH
async def test_error_of_the_client_is_not_the_error_of_the_prompt(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a client whose file is missing would read that the session is missing."""
    async with connect_client(Relaying(), version) as client:
        if version == V1:
            with pytest.raises(InternalError) as caught:
                await client.prompt("Hi")
            message = caught.value.message
        else:
            assert await client.prompt("Hi") == "error"
            error = client.ends()[-1].error
            assert error.code == -32603
            message = error.message
        assert message == "A request of the agent to the client failed"
    (record,) = (r for r in caplog.records if "by an error of the client" in r.getMessage())
    assert record.exc_info is None  # a client can cause it at any rate


class Misled(Agent):
    """Receives a response that violates the protocol."""

    async def prompt(self, turn: Turn) -> None:
        raise RemoteProtocolError("The result of session/request_permission does not fit\n!")


@BOTH
async def test_client_that_violates_the_protocol_leaves_no_traceback_in_the_log(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_client(Misled(), version) as client:
        if version == V1:
            with pytest.raises(InternalError):
                await client.prompt("Hi")
        else:
            assert await client.prompt("Hi") == "error"
    (record,) = (r for r in caplog.records if "broke the protocol" in r.getMessage())
    assert record.exc_info is None
    assert "\n" not in record.getMessage()
