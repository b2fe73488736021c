"""Methods of a `Proxy` marked with `accord.tool`, and proxies as programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

import accord
from accord import Agent, Proxy, Turn
from project import ROOT
from requirement import requirement

EXAMPLES = ROOT / "examples/proxies"


class Tools(Proxy):
    def __init__(self, word: str) -> None:
        self.word = word

    @accord.tool
    async def lookup(self, term: str) -> str:
        """Return what a word means."""
        return f"{self.word} {term}"


class Caller(Agent):
    """Calls the tools of all servers."""

    async def prompt(self, turn: Turn) -> None:
        servers = await turn.session.connect_mcp()
        for name in ("tools", "tools-2"):
            content: Any = (await servers[name].call("lookup", {"term": turn.text})).content[0]
            await turn.say(f"{name}: {content.text}\n")


class AcpCaller(Caller):
    mcp_transports = frozenset({"acp"})


class HttpCaller(Caller):
    mcp_transports = frozenset({"http"})


@pytest.mark.parametrize(("version", "agent"), [(1, AcpCaller), (2, AcpCaller), (2, HttpCaller)])
@requirement("R-PROXY-06", "R-MOA-08")
async def test_each_proxy_gives_its_tools_to_the_agent(version: Any, agent: type[Agent]) -> None:
    chain = accord.chain(Tools("first"), Tools("second"), agent())
    async with asyncio.timeout(40), accord.connect(chain, versions=(version,)) as connected:
        session = await connected.new_session(cwd="/w")
        async with session.prompt("x") as turn:
            await turn.wait()
        assert turn.text == "tools: first x\ntools-2: second x\n"
        await session.close()


@requirement("R-PROXY-03")
def test_program_without_a_conductor_says_what_it_needs() -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1},
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / "redact.py"],
        input=json.dumps(initialize) + "\n",
        capture_output=True,
        text=True,
        timeout=40,
    )
    error = json.loads(done.stdout)["error"]
    assert error["code"] == -32600
    assert "accord chain" in error["message"]
    assert done.returncode == 0


class NoTools(Agent):
    mcp_transports = frozenset()

    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


@requirement("R-MOA-08")
async def test_agent_without_mcp_gets_no_tools_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chain = accord.chain(Tools("first"), NoTools())
    async with asyncio.timeout(40), accord.connect(chain, versions=(2,)) as connected:
        for word in ("one", "two"):
            session = await connected.new_session(cwd="/w")
            async with session.prompt(word) as turn:
                await turn.wait()
            assert turn.text == word
    logged = [record.getMessage() for record in caplog.records if "Tools" in record.getMessage()]
    assert len(logged) == 1
    assert "one of the transports acp, http and stdio" in logged[0]


class UnknownType(Proxy):
    @accord.tool
    async def lookup(self, x: "Nope") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
        """Look something up."""
        return ""


class TypeWithoutSchema(Proxy):
    @accord.tool
    async def lookup(self, count: int, x: Agent) -> str:
        """Look something up."""
        return ""


@pytest.mark.parametrize("proxy", [UnknownType(), TypeWithoutSchema()])
async def test_tool_without_a_schema_is_reported_when_the_chain_starts(proxy: Proxy) -> None:
    async with asyncio.timeout(40):
        with pytest.raises(accord.RequestError) as raised:
            async with accord.connect(accord.chain(proxy, AcpCaller())):
                pass
    name = type(proxy).__name__
    assert raised.value.message.startswith(f"component '{name}' cannot be started: the tool")
    assert "the tool 'lookup': the parameter 'x'" in raised.value.message
    assert "to choose another" not in raised.value.message  # of the versions
