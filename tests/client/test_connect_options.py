"""The keyword arguments of `connect`, and methods that only one version has."""

from __future__ import annotations

import inspect

import pytest

from accord import NotOffered, connect
from accord.client.connect import ConnectOptions
from accord.client.v1.agent_adapter import AgentAdapterV1
from accord.client.v2.agent_adapter import AgentAdapterV2
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
async def test_unknown_method_name_is_an_error(version: int) -> None:
    async with agent_by_hand(version) as (agent, _):
        assert agent.supports("cancel_tool_call") is (version == 2)
        with pytest.raises(ValueError, match="lode_session"):
            agent.supports("lode_session")
