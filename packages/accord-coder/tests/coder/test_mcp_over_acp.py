"""The coder calls a function of its client: pipes, and JSON on the client's side."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `coder` is not installed")

from mcp.server.mcpserver.exceptions import ToolError

import accord
from accord.transports.stdio import PipeTransport
from accord_coder.agent import Coder
from accord_coder.settings import Settings
from coder.harness import scripted
from coder.scripted_model import ScriptedModel, tool_prompt
from raw_mcp_provider import BOTH, SERVER, raw_provider_on
from requirement import requirement

TERMS = {"lane": "a queue of messages"}


def lookup(term: str) -> str:
    return TERMS[term]


@BOTH
@requirement("R-MOA-09", "R-MOA-11", "R-MOA-12", "R-MOA-13")
async def test_coder_calls_a_function_of_the_client(version: int, tmp_path: Path) -> None:
    (from_here, to_there), (from_there, to_here) = os.pipe(), os.pipe()
    coder = Coder(Settings(data=tmp_path / "data"), model=ScriptedModel())
    serving = asyncio.ensure_future(accord.serve(coder, PipeTransport(from_here, to_here)))
    async with raw_provider_on(PipeTransport(from_there, to_there), version) as client:
        await client.open(SERVER, cwd=str(tmp_path))
        use = tool_prompt([("mcp__tools__lookup", {"term": "lane"})])
        prompt = client.prompt(use)
        asked = await client.asked.get()
        arguments = asked["params"]["params"]["arguments"]
        client.respond_text(asked["id"], lookup(**arguments))
        await ended(client, prompt)
        shown = [update for update in client.updates if "tool_call" in update["sessionUpdate"]]
        assert shown[0]["title"] == "lookup (tools)"
        assert "a queue of messages" in str(shown)

        prompt = client.prompt(use)
        asked = await client.asked.get()
        token = asked["params"]["params"]["_meta"]["progressToken"]
        report = {"progressToken": token, "progress": 1, "total": 2, "message": "reading"}
        client.send(client.notification_of(asked, "notifications/progress", report))
        await client.shown("lookup (tools): reading (1/2)")
        client.fail(asked["id"], -33001, "the client has removed the server")
        await client.shown("the client has removed the server")
        await ended(client, prompt)

        prompt = client.prompt(use)
        asked = await client.asked.get()
        client.tell("session/cancel", {"sessionId": client.session_id})
        assert await client.cancelled.get() == asked["id"]
        client.fail(asked["id"], -32800)
        await ended(client, prompt)
    await serving


async def ended(client: Any, prompt: asyncio.Future[Any]) -> None:
    assert "error" not in await prompt
    if client.version == 2:
        await client.ended_turns.get()


@BOTH
@requirement("R-MOA-06", "R-MOA-08")
async def test_coder_calls_a_function_given_by_the_client_s_api(
    version: int, tmp_path: Path
) -> None:
    async def explain(term: str, times: int = 1) -> str:
        """What the team means by a term."""
        if term not in TERMS:
            raise ToolError(f"nobody knows {term}")
        return times * TERMS[term]

    async with scripted(tmp_path, version, tools=[explain]) as harness:
        found = await harness.use("mcp__tools__explain", term="lane", times=2)
        assert found.text.startswith("a queue of messagesa queue of messages")
        failed = await harness.use("mcp__tools__explain", term="tree")
        assert failed.failed
        assert "nobody knows tree" in failed.text
