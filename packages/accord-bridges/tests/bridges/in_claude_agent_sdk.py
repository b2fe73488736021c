"""The bridge of the Claude Agent SDK, with the real Claude Code; run by test_frameworks.py."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool
from mcp.types import ToolAnnotations
from msgspec.structs import replace

import accord
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse

pytestmark = [pytest.mark.asyncio]

_CONFIG = tempfile.TemporaryDirectory(prefix="claude-config-")
_SERVER = "notes"
_CHOICES = [{"label": "word-green", "description": "Like grass"}, {"label": "Red"}]


def environment(url: str, folder: str = "") -> dict[str, str]:
    """Return variables for Claude Code: the model of a test, nothing of this machine's user."""
    return {
        "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": folder or _CONFIG.name,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "ENABLE_TOOL_SEARCH": "false",
    }


class TestClaude(BridgeContract):
    """Claude Code with the tools of the contract as a server in this process."""

    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "plans", "questions", "subagents", "mcp",
         "images", "usage", "models", "steering", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip
    has_server = True
    timeout_s = 60.0  # Claude Code starts in 1.4 s on an idle machine
    models = ("claude-sonnet-5", "claude-opus-5")
    question_call = ToolUse(
        "AskUserQuestion",
        {"questions": [{"question": "Which colour?", "header": "Colour", "options": _CHOICES,
                        "multiSelect": False}]},
    )  # fmt: skip
    subagent_call = ToolUse(
        "Task",
        {
            "description": "word-task",
            "prompt": "Read it",
            "subagent_type": "general-purpose",
            "run_in_background": False,
        },
    )

    def mcp_tool(self, server: str, tool: str) -> str:
        return f"mcp__{server}__{tool}"

    def made(self, function: Any) -> Any:
        """Return a function of the contract as a tool of the SDK."""
        names = [name for name in function.__annotations__ if name != "return"]
        kinds = {name: {"type": "string"} for name in names}
        if "steps" in kinds:
            kinds["steps"] = {"type": "array", "items": {"type": "string"}}
        schema = {"type": "object", "properties": kinds, "required": names}
        notes = ToolAnnotations(readOnlyHint=function.__name__ != "write_note_file")

        @tool(function.__name__, (function.__doc__ or "").splitlines()[0], schema, notes)
        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": await function(**arguments)}]}

        return call

    def claude(self, **more: Any) -> ClaudeAgentOptions:
        """Return the options of the contract."""
        url = self.server.url if hasattr(self, "server") else "http://127.0.0.1:9/v1"
        tools = [self.made(each) for each in (*self.tools.plain, *self.tools.guarded)]
        allowed = [self.mcp_tool(_SERVER, each.__name__) for each in self.tools.plain]
        given = {
            "mcp_servers": {_SERVER: create_sdk_mcp_server(_SERVER, tools=tools)},
            "allowed_tools": allowed,
            "setting_sources": [],
            "env": environment(url),
        }
        return ClaudeAgentOptions(**{**given, **more})

    async def make_agent(self, script: Script, **options: Any) -> accord.Agent:
        self.follow(script)
        return as_agent(self.claude(), **options)

    def follow(self, script: Script) -> None:
        """Make the script call the tools by the names that Claude Code gives them."""
        own = {each.__name__ for each in (*self.tools.plain, *self.tools.guarded)}
        names = {name: self.mcp_tool(_SERVER, name) for name in own}
        reply = script.reply
        refused: list[Reply] = []

        def renamed(request: object) -> Any:
            found = reply(request)
            if found.failure == "refusal" and not refused:
                refused.append(found)  # Claude Code asks once more after a refusal
                script.replies.insert(0, found)
            calls = [replace(c, name=names.get(c.name, c.name)) for c in found.calls]
            return replace(found, calls=calls)

        script.reply = renamed  # of this test


# What only this framework has.


async def test_subagent_in_the_background_belongs_to_its_turn():
    contract = TestClaude()
    call = ToolUse(
        "Task",
        {"description": "word-task", "prompt": "word-helper", "subagent_type": "general-purpose"},
    )
    script = Script(
        Reply(calls=(call,)),
        Reply(text=("I wait.",), when="Async agent"),
        Reply(text=("Helper done.",), when="word-helper"),
        Reply(text=("All done.",)),
    )
    async with contract.connected(script) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "I wait.\n\nAll done."
        (subagent,) = session.transcript.subagents
        assert session.subagent(subagent).transcript.text == "Helper done."
