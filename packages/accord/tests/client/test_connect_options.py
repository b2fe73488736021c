"""The keyword arguments of `connect`, and methods that only one version has."""

from __future__ import annotations

import inspect

import pytest

from accord import ClientSession, ConnectedAgent, NotOffered, connect, v1, v2
from accord.client.connect import ConnectOptions
from accord.client.session import SubagentSession
from accord.client.v1 import AgentAdapterV1
from accord.client.v2 import AgentAdapterV2
from client.wire_agents import BOTH, agent_by_hand

OWN = {"command", "permissions", "cwd"}  # parameters of `ask` itself


def test_ask_accepts_every_option_of_connect() -> None:
    parameters = inspect.signature(inspect.unwrap(connect)).parameters
    assert set(ConnectOptions.__annotations__) == set(parameters) - OWN


def test_method_of_one_version_needs_no_code_in_the_other() -> None:
    for name in ("cancel_tool_call", "cancel_terminal"):
        assert name not in vars(AgentAdapterV1)
        assert name not in vars(AgentAdapterV2)


async def test_unsupported_method_is_an_error() -> None:
    adapter = AgentAdapterV1.__new__(AgentAdapterV1)
    with pytest.raises(NotOffered, match="tool_call/cancel"):
        await adapter.cancel_tool_call("s", "c")
    with pytest.raises(NotOffered, match="terminal/cancel"):
        await adapter.cancel_terminal("s", "t")


@BOTH
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lload_session", "did you mean 'load_session'?"),
        ("session/lload", "did you mean 'session/load'?"),
        ("set_modes", "did you mean 'set_mode'?"),
        ("fs/read_text_file", "expected one of agents, such as 'session/load'"),
        ("$/cancel_request", "expected one of agents, such as 'session/load'"),
        ("", "expected one of agents, such as 'session/load'"),
    ],
)
async def test_unknown_method_name_is_an_error(version: int, name: str, meant: str) -> None:
    async with agent_by_hand(version) as (agent, _):
        with pytest.raises(ValueError, match="Unknown method") as raised:
            agent.supports(name)
        assert str(raised.value) == f"Unknown method {name!r}: {meant}"


# Methods of the API that send a method of the protocol; the others read, or send any method.
API = {
    name
    for cls in (ConnectedAgent, ClientSession, SubagentSession)
    for name, value in (
        (name, inspect.unwrap(value)) for name, value in vars(cls).items() if callable(value)
    )
    if not name.startswith("_")
    and (inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value))
    if not name.endswith("_extension")
} | {"prompt"}


@BOTH
async def test_every_method_of_the_api_and_of_the_protocol_can_be_asked_for(version: int) -> None:
    assert {"set_mode", "set_option", "set_title", "status", "load_session", "providers"} <= API
    async with agent_by_hand(version) as (agent, _):
        for methods in (v1.METHODS, v2.METHODS):
            for method in methods:
                if method.to == "agent":
                    # All names of one method have one answer.
                    assert agent.supports(method.name) is agent.supports(method.call)
        for name in API:
            assert agent.supports(name) in (True, False)
        assert agent.supports("cancel_tool_call") is (version == 2)
        assert agent.supports("tool_call/cancel") is (version == 2)
        assert agent.supports("session/prompt")


@BOTH
@pytest.mark.parametrize(
    ("names", "supported"),
    [
        (("load_session", "session/load"), True),
        (("close", "close_session", "session/close"), True),
        (("set_mode", "set_session_mode", "session/set_mode"), True),
        (("set_option", "set_session_config_option", "session/set_config_option"), True),
        (("authenticate", "login", "auth/login"), True),
        (("archive", "session/archive", "archive_session"), False),
    ],
)
async def test_names_of_one_method_have_one_answer(
    version: int, names: tuple[str, ...], supported: bool
) -> None:
    offers = (
        {"agentCapabilities": {"loadSession": True, "sessionCapabilities": {"close": {}}}}
        if version == 1
        else {"capabilities": {"session": {}}}
    )
    async with agent_by_hand(version, initialize=offers) as (agent, _):
        assert [agent.supports(name) for name in names] == [supported] * len(names)
