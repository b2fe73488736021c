"""Agents with next edit suggestions: the mix-in, the script agent, and clients that call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import accord
from accord import Agent, InvalidParams
from accord.errors import LocalProtocolError, NotOffered
from accord.roles import connect, serve
from accord.transports.memory import pair
from accord_conformance.nes import types as t
from accord_conformance.nes.__main__ import NextEditsScriptAgent
from accord_conformance.nes.agent import AgentRole, ClientRole, NextEditsMixin, RemoteAgent
from agent.harness import V1, V2, AgentHarness, connect_client
from raw_peer import QUICK
from requirement import requirement


class NesClient(ClientRole):
    """A client that supports suggestions only."""

    def __init__(self, harness: AgentHarness | None = None) -> None:
        self.harness = harness


@asynccontextmanager
async def suggesting() -> AsyncGenerator[RemoteAgent, None]:
    """Connect a client to the script agent."""
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(NextEditsScriptAgent(), there, limits=QUICK))
        async with connect(here, NesClient(), limits=QUICK) as remote:
            assert isinstance(remote, RemoteAgent)
            yield remote


class Suggests(NextEditsMixin, Agent):
    """Suggests nothing, but receives events."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def start_nes(self, params: t.StartNesRequest) -> t.StartNesResponse:
        return t.StartNesResponse(session_id="nes-1")

    async def suggest_nes(self, params: t.SuggestNesRequest) -> t.SuggestNesResponse:
        return t.SuggestNesResponse(suggestions=[])

    async def close_nes(self, params: t.CloseNesRequest) -> t.CloseNesResponse:
        return t.CloseNesResponse()

    async def did_open_document(self, params: t.DidOpenDocumentNotification) -> None:
        self.heard.append(params.uri)


@requirement("R-NES-01", "R-NES-02", "R-NES-12")
async def test_v1_agent_suggests_and_receives_the_events_it_asked_for() -> None:
    agent = Suggests()
    async with connect_client(agent, V1, opened=False, client=NesClient) as client:
        events = client.remote.initialized.agent_capabilities.nes.events.document
        assert events.did_open is not None
        assert events.did_save is None
        started = await client.remote.start_nes(t.StartNesRequest())
        assert started.session_id == "nes-1"
        await client.remote.did_open_document(
            t.DidOpenDocumentNotification(
                session_id="nes-1", uri="file:///a", language_id="python", version=1, text=""
            )
        )
        await client.remote.close_nes(t.CloseNesRequest(session_id="nes-1"))
        assert agent.heard == ["file:///a"]
    async with connect_client(agent, V2) as client:
        assert await client.prompt("hi") == "error"  # sessions are the only capability


async def test_incomplete_mixin_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    class Half(NextEditsMixin, Agent):
        async def start_nes(self, params: t.StartNesRequest) -> t.StartNesResponse:
            return t.StartNesResponse(session_id="nes-1")

    with pytest.raises(Exception, match=r".+"):
        async with connect_client(Half(), V1, opened=False, client=NesClient):
            pass
    assert LocalProtocolError.__name__ in caplog.text


async def test_line_of_a_known_document_is_suggested_again() -> None:
    async with suggesting() as wire:
        session = (await wire.start_nes(t.StartNesRequest())).session_id

        async def hints(line: int) -> list[str]:
            answer: Any = await wire.suggest_nes(
                t.SuggestNesRequest(
                    session_id=session,
                    uri="file:///a",
                    version=1,
                    position=t.Position(line=line, character=2),
                    trigger_kind="automatic",
                )
            )
            return [edit.new_text for one in answer.suggestions for edit in one.edits]

        assert await hints(0) == []
        await wire.did_open_document(
            t.DidOpenDocumentNotification(
                session_id=session, uri="file:///a", language_id="text", version=1, text="a\nb"
            )
        )
        assert await hints(1) == ["b\n"]
        assert await hints(2) == []
        await wire.did_change_document(
            t.DidChangeDocumentNotification(
                session_id=session,
                uri="file:///a",
                version=2,
                content_changes=[t.TextDocumentContentChangeEvent(text="c")],
            )
        )
        assert await hints(0) == ["c\n"]
        await wire.did_close_document(
            t.DidCloseDocumentNotification(session_id=session, uri="file:///a")
        )
        assert await hints(0) == []
        await wire.close_nes(t.CloseNesRequest(session_id=session))
        with pytest.raises(InvalidParams, match="Unknown session of suggestions"):
            await hints(0)


class Role(AgentRole):
    """Serves next edit suggestions without `accord.Agent`."""

    def start_nes(self, params: Any, context: Any) -> t.StartNesResponse:
        return t.StartNesResponse(session_id="one")

    def suggest_nes(self, params: Any, context: Any) -> t.SuggestNesResponse:
        return t.SuggestNesResponse(suggestions=[])

    def close_nes(self, params: Any, context: Any) -> t.CloseNesResponse:
        return t.CloseNesResponse()

    def accept_nes(self, params: Any, context: Any) -> None: ...

    def reject_nes(self, params: Any, context: Any) -> None: ...


async def test_role_advertises_the_capability_of_its_methods() -> None:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, Role(), limits=QUICK))
        async with connect(here, NesClient(), limits=QUICK) as remote:
            assert isinstance(remote, RemoteAgent)
            assert remote.supports("start_nes")
            assert not remote.supports("did_open_document")
            assert (await remote.start_nes(t.StartNesRequest())).session_id == "one"
            with pytest.raises(NotOffered):
                await remote.did_save_document(
                    t.DidSaveDocumentNotification(session_id="one", uri="file:///a")
                )


@pytest.mark.parametrize(
    ("calls", "missing"),
    [(("start_nes", "suggest_nes"), "close_nes"), (("did_open_document",), "start_nes")],
)
def test_incomplete_capability_is_an_error_that_names_the_missing_methods(
    calls: tuple[str, ...], missing: str
) -> None:
    role = type("Half", (AgentRole,), dict.fromkeys(calls, Role.start_nes))()
    with pytest.raises(LocalProtocolError, match=missing):
        role.capabilities()


async def test_agents_without_suggestions_reject_their_methods() -> None:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(Agent(), there, limits=QUICK))
        async with connect(here, NesClient(), limits=QUICK) as remote:
            assert isinstance(remote, RemoteAgent)
            capabilities: Any = remote.initialized.agent_capabilities
            assert capabilities.nes is None
            with pytest.raises(NotOffered):
                await remote.start_nes(t.StartNesRequest())
