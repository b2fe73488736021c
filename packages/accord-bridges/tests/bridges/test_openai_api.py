"""OpenAI-compatible APIs as agents: the contract, with the package `openai` and a real server."""

from __future__ import annotations

from typing import Any

import pytest

from accord import Agent
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Script

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
