"""OpenAI-compatible APIs as agents: the contract, with the package `openai` and a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accord import Agent, PermissionRequest
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse

openai = pytest.importorskip("openai", reason="the package openai is not installed")
pytestmark = pytest.mark.timeout(60)


class TestOpenAiApi(BridgeContract):
    """A model with the tools of the contract."""

    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "mcp", "images", "usage", "models",
         "steering", "plans", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip
    has_server = True

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        tools = [*self.tools.plain, *self.tools.guarded]
        asked = [tool.__name__ for tool in self.tools.guarded]
        url = self.server.url
        client = openai.AsyncOpenAI(base_url=url, api_key="test", max_retries=0)
        settings = {"tools": tools, "ask_for": asked, "client": client}
        return as_agent(f"{url}#test-model", settings=settings, **options)

    async def test_editor_tools_use_the_editor_and_ask(self) -> None:
        """What changes anything asks first, the model gets what was done, and a call is one."""
        uses = (
            ToolUse("write_file", {"path": "a.txt", "text": "word-new"}),
            ToolUse("read_file", {"path": "a.txt"}),
            ToolUse("read_file", {"path": "/etc/hostname"}),
            ToolUse("run_command", {"command": "echo word-$((40 + 2)); exit 3"}),
            ToolUse("run_command", {"command": "echo rejected"}),
            ToolUse("write_file", {"wrong": "x"}),
        )
        script = Script(*(Reply(calls=(use,)) for use in uses), Reply(text=("Done.",)))
        asked: list[str] = []

        def decide(request: PermissionRequest) -> str:
            asked.append(request.title)
            return "reject" if "rejected" in request.title else "allow"

        async with self.connected(script, permissions=decide, editor_tools=True) as client:
            turn = await client.turn(await client.session(), "go")
            assert Path(client.folder, "a.txt").read_text() == "word-new"  # noqa: ASYNC240  # small
        assert asked == ["Edit a.txt", "echo word-$((40 + 2)); exit 3", "echo rejected"]
        seen = script.requests
        assert "Wrote a.txt" in seen[1]
        assert "word-new" in seen[2]
        assert "Error: " in seen[3], "files outside of the session are refused"
        assert "word-42" in seen[4]
        assert "(exit code 3)" in seen[4]
        assert "The user does not allow this." in seen[5]
        assert "unexpected keyword argument 'wrong'" in seen[6]
        kinds = [(call.kind, call.status) for call in turn.tool_calls]
        assert kinds == [
            ("edit", "completed"), ("read", "completed"), ("read", "failed"),
            ("execute", "failed"), ("execute", "cancelled"),
        ]  # fmt: skip
