"""Extension methods in both directions, and what an agent knows about its clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import Agent, InvalidParams, MethodNotFound, Turn, v1, v2
from accord.agent import ConnectedClient
from accord.types.session import Implementation
from agent.harness import BOTH, V1, AgentHarness, ClientV1, ClientV2, connect_client
from requirement import requirement


class Extended(Agent):
    """Serves extension methods, and calls some of the client."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.changed = asyncio.Event()

    async def extension_request(self, method: str, params: Any, client: ConnectedClient) -> Any:
        match method:
            case "_example.org/sessions":
                return {"sessions": list(client.sessions), "version": client.version}
            case "_example.org/refuse":
                raise InvalidParams("No", data={"params": params})
            case "_example.org/ask":
                return await client.call_extension("_example.org/name", {"n": 1})
            case _:
                return await super().extension_request(method, params, client)

    async def extension_notification(
        self, method: str, params: Any, client: ConnectedClient
    ) -> None:
        self.heard.append((method, params, client.info))
        self.changed.set()

    async def prompt(self, turn: Turn) -> None:
        answer = await turn.call_extension("_example.org/name", {"n": 2})
        await turn.notify_extension("_example.org/done")
        await turn.say(str(answer["n"]))


class Plain(Agent):
    async def prompt(self, turn: Turn) -> None:
        try:
            await turn.call_extension("_example.org/name")
        except MethodNotFound:
            await turn.say("It has no such method.")


def answers(harness: AgentHarness) -> Any:
    base: Any = ClientV1 if harness.version == V1 else ClientV2

    class Client(base):
        info = (v1 if harness.version == V1 else v2).Implementation(name="asker", version="3")

        async def extension_request(self, method: str, params: Any, context: Any) -> Any:
            self.harness.asked.append((method, params))
            return {"n": params["n"] + 1}

        async def extension_notification(self, method: str, params: Any, context: Any) -> None:
            self.harness.heard((method, params))

    return Client(harness)


@BOTH
@requirement("R-EXT-04", "R-EXT-05")
async def test_agent_serves_extension_methods(version: int) -> None:
    agent = Extended()
    async with connect_client(agent, version, client=answers) as client:
        answer = await client.remote.call_extension("_example.org/sessions")
        assert answer == {"sessions": [client.session_id], "version": version}
        with pytest.raises(InvalidParams) as caught:
            await client.remote.call_extension("_example.org/refuse", {"a": 1})
        assert caught.value.data == {"params": {"a": 1}}
        assert await client.remote.call_extension("_example.org/ask") == {"n": 2}


@BOTH
@requirement("R-EXT-04", "R-EXT-07")
async def test_agent_receives_extension_notifications(version: int) -> None:
    agent = Extended()
    async with connect_client(agent, version, client=answers) as client:
        await client.remote.notify_extension("_example.org/hello", [1])
        async with asyncio.timeout(20):
            await agent.changed.wait()
    assert agent.heard == [("_example.org/hello", [1], Implementation("asker", "3"))]


@BOTH
@requirement("R-EXT-06", "R-EXT-07")
async def test_agent_without_extensions_rejects_requests_and_ignores_notifications(
    version: int,
) -> None:
    async with connect_client(Plain(), version) as client:
        await client.remote.notify_extension("_example.org/hello")
        with pytest.raises(MethodNotFound) as caught:
            await client.remote.call_extension("_example.org/hello")
        assert caught.value.data == {"method": "_example.org/hello"}


@BOTH
@requirement("R-EXT-04")
async def test_turn_calls_extension_methods_with_the_id_of_its_session(
    version: int,
) -> None:
    async with connect_client(Extended(), version, client=answers) as client:
        await client.prompt("go")
        assert client.asked == [("_example.org/name", {"sessionId": client.session_id, "n": 2})]
        assert client.said() == "3"
        assert ("_example.org/done", {"sessionId": client.session_id}) in client.updates


@BOTH
async def test_turn_receives_the_error_of_a_client_without_the_method(version: int) -> None:
    async with connect_client(Plain(), version) as client:
        await client.prompt("go")
        assert client.said() == "It has no such method."


@BOTH
async def test_agent_has_its_clients_while_they_are_connected(version: int) -> None:
    agent = Extended()
    async with connect_client(agent, version, client=answers) as one:
        async with connect_client(agent, version, client=answers):
            assert {client.version for client in agent.clients} == {version}
            assert len(agent.clients) == 2
        assert len(agent.clients) == 1
        client = agent.clients[0]
        assert list(client.sessions) == [one.session_id]
        assert client.sessions[one.session_id].client is client
        types = v1.ClientCapabilities if version == V1 else v2.ClientCapabilities
        assert isinstance(client.capabilities, types)
    assert len(agent.clients) == 0
