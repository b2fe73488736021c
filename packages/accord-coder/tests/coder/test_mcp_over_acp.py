"""The coder calls a function of its client: a process, pipes, and JSON on the client's side."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from project import PYTHONPATH

pytest.importorskip("mcp", reason="the extra `coder` is not installed")

from mcp.server.mcpserver.exceptions import ToolError

from accord.transports.process import process
from coder.harness import scripted
from coder.scripted_model import tool_prompt
from raw_mcp_provider import BOTH, SERVER, raw_provider_on
from requirement import requirement

pytestmark = pytest.mark.slow  # each starts the coder

TERMS = {"lane": "a queue of messages"}


def lookup(term: str) -> str:
    return TERMS[term]


@BOTH
@requirement("R-MOA-09", "R-MOA-11", "R-MOA-12", "R-MOA-13")
async def test_coder_calls_a_function_of_the_client(version: int, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "coder.program", str(tmp_path / "data")]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    async with raw_provider_on(process(*command, env=env)(), version) as client:
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
