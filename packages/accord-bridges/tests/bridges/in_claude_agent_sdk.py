"""The bridge of the Claude Agent SDK, with the real Claude Code; run by test_frameworks.py."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultDeny,
    create_sdk_mcp_server,
    tool,
)
from mcp.types import ToolAnnotations
from msgspec.structs import replace

import accord
from accord import Diff, PermissionRequest, Text
from accord.errors import AccordError
from accord_bridges import as_agent
from accord_bridges.testing import _MCP_SERVER, BridgeContract, Reply, Script, ToolUse

pytestmark = [pytest.mark.asyncio]

# Conversations are in files of Claude Code: those of these tests, also in programs that they start.
_VARIABLE = "ACCORD_TEST_CLAUDE"
if _VARIABLE not in os.environ:
    _FOLDER = tempfile.TemporaryDirectory(prefix="claude-config-", ignore_cleanup_errors=True)
    os.environ[_VARIABLE] = _FOLDER.name
_CONFIG = os.environ[_VARIABLE]
_SERVER = "notes"
_CHOICES = [
    {"label": "word-green", "description": "Like grass"},
    {"label": "Red", "description": "Like wine"},
]


def environment(url: str) -> dict[str, str]:
    """Return variables for Claude Code: the model of a test, nothing of this machine's user."""
    return {
        "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": _CONFIG,
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
    timeout_s = 120.0  # Claude Code starts in 1.4 s on an idle machine
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


async def test_approvals_of_claudes_own_tools():
    """A file that is written: the diff, the rules for "always", and where they end."""
    contract = TestClaude()
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> str:
        asked.append(request)
        return "allow_always"

    async with contract.connected(Script(), permissions=decide) as client:
        session = await client.session()
        path = Path(client.folder, "a.txt")
        for text in ("one", "two"):
            call = ToolUse("Write", {"file_path": str(path), "content": text})
            look = ToolUse("Read", {"file_path": str(path)})
            client.script.add(Reply(calls=(call,)), Reply(calls=(look,)), Reply(text=("So.",)))
            turn = await client.turn(session, "write it")
            written = turn.tool_calls[0]
            assert (written.status, written.kind) == ("completed", "edit")
            assert written.title == "Write a.txt"
            assert text in client.script.requests[-1], "it is in the file that is read"
            (diff,) = [part for part in written.content if isinstance(part, Diff)]
            before = None if text == "one" else "one"
            assert (diff.old, diff.new) == (before, text)
        assert len(asked) == 1


async def test_modes_tasks_and_commands():
    contract = TestClaude()
    script = Script(
        Reply(calls=(ToolUse("ExitPlanMode", {"plan": "word-plan"}),)),
        Reply(calls=(ToolUse("TaskCreate", {"subject": "Look", "description": "word-look"}),)),
        Reply(calls=(ToolUse("TaskCreate", {"subject": "Write", "description": "word-write"}),)),
        Reply(calls=(ToolUse("TaskUpdate", {"taskId": "1", "status": "completed"}),)),
        Reply(text=("Done.",)),
    )
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> str:
        asked.append(request)
        return "allow"

    async def hello(run: Any, rest: str) -> str:
        """Say hello."""
        return f"hello {rest}"

    tools = ["ExitPlanMode", "TaskCreate", "TaskUpdate"]
    options = contract.claude

    async def make(script: Script, **more: Any) -> accord.Agent:
        given = ClaudeSDKClient(options(tools=tools))
        return as_agent(given, modes={"plan": "Plans", "default": ""}, commands={"hello": hello})

    contract.make_agent = make  # of this test
    async with contract.connected(script, permissions=decide) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert "word-plan" in str(asked[0].description)
        assert [call.status for call in turn.tool_calls] == ["completed"] * 4
        (mode,) = [o for o in session.transcript.options if o.category == "mode"]
        assert mode.value == "default", "it has left the mode in which it plans"
        entries = session.transcript.plan.entries
        assert [(e.content, e.status) for e in entries] == [
            ("Look", "completed"), ("Write", "pending"),
        ]  # fmt: skip
        names = [command.name for command in session.transcript.commands]
        assert names[0] == "hello"
        assert "compact" in names
        assert (await client.turn(session, "/hello you")).text == "hello you"
        assert "Context" in (await client.turn(session, "/context")).text
    with pytest.raises(TypeError, match="expected permission modes of Claude Code"):
        as_agent(ClaudeAgentOptions(), modes={"fast": ""})


async def test_limits_and_servers_of_the_options(tmp_path: Path):
    contract = TestClaude()
    read = ToolUse("Read", {"file_path": str(tmp_path / "none")})
    file = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": ["-I", "-S", "-c", _MCP_SERVER, "own"]}
    file.write_text(json.dumps({"mcpServers": {"own": server}}))
    shout = ToolUse(contract.mcp_tool("own", "shout"), {"text": "word-own"})
    script = Script(Reply(calls=(read, shout)))
    made: list[ClaudeAgentOptions] = []

    def client(options: ClaudeAgentOptions) -> ClaudeSDKClient:
        made.append(options)
        return ClaudeSDKClient(options)

    async def never(name: str, *_: Any) -> PermissionResultDeny:
        return PermissionResultDeny(message="word-never")

    options = contract.claude

    async def make(script: Script, **more: Any) -> accord.Agent:
        given = options(mcp_servers=file, max_turns=1, can_use_tool=never)
        return as_agent(given, settings={"client": client})

    contract.make_agent = make  # of this test
    async with contract.connected(script) as client_of_agent:
        session = await client_of_agent.session()
        turn, error = await client_of_agent.ended(session, "go")
        assert (turn.stop_reason, error) == ("max_turn_requests", None)
        outputs = [str(call.content) for call in turn.tool_calls]
        assert "word-never" in outputs[1], "the options' own answer decides"
        assert list(made[0].mcp_servers) == ["own"]


async def test_conversation_goes_on_after_the_process_has_died():
    contract = TestClaude()
    async with contract.connected(Script.echo()) as client:
        session = await client.session()
        await client.turn(session, "word-first")
        for pid in _processes(session.cwd):
            os.kill(pid, signal.SIGKILL)
        said = (await client.turn(session, "word-second")).text
        assert said == "I have heard: word-first word-second"


async def test_conversation_that_claude_code_has_deleted():
    contract = TestClaude()
    async with contract.connected(Script.echo()) as client:
        session = await client.session()
        await client.turn(session, "word-first")
        await session.close()
        shutil.rmtree(os.path.join(_CONFIG, "projects"))  # noqa: PTH118  # a text
        loaded = await client.agent.load_session(session.id, session.cwd)
        events: list[Any] = []
        async with loaded.prompt("word-second") as turn:
            events += [event async for event in turn]
        assert turn.text == "I have heard: word-second"
        assert "has not kept this conversation" in f"{loaded.transcript.items}{events}"


class Hanging(TestClaude):
    """An agent in a program of its own, whose model hangs if the prompt says so."""

    __test__ = False

    def follow(self, script: Script) -> None:
        reply = script.reply

        def hanging(request: Any) -> Reply:
            found = reply(request)
            last = request[-1]["content"]
            seen = last if isinstance(last, str) else json.dumps(last)
            return Reply(text=("I wait.",), hangs=True) if "word-hang" in seen else found

        script.reply = hanging  # of this test


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM"])
async def test_nothing_stays_running_when_the_agent_is_ended_in_a_turn(end: str, tmp_path: Path):
    contract = Hanging()
    command = [sys.executable, "-c", contract.program, str(tmp_path / "store.sqlite")]
    async with asyncio.timeout(60), accord.connect(command, cwd=Path.cwd()) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("word-first") as turn:
            await turn.wait()
        assert _processes(session.cwd)
        process: Any = agent.remote.connection.transport
        async with session.prompt("word-hang") as turn:
            async for event in turn:
                if isinstance(event, Text):
                    break
            os.kill(process.pid, getattr(signal, end))
            with pytest.raises(AccordError):
                await turn.wait()
    async with asyncio.timeout(15):
        while _processes(str(tmp_path)):
            await asyncio.sleep(0.05)  # processes of another program
    async with asyncio.timeout(60), accord.connect(command, cwd=Path.cwd()) as agent:
        session = await agent.load_session(session.id, tmp_path)
        async with session.prompt("word-second") as turn:
            await turn.wait()
        assert turn.text.startswith("I have heard: word-first")
        assert turn.text.endswith("word-second")


def _processes(folder: str | None = None) -> list[int]:
    """Return the processes of Claude Code and of what it starts: all, or those in a folder."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            marked = f"CLAUDE_CONFIG_DIR={_CONFIG}".encode() in (entry / "environ").read_bytes()
            if marked and (folder is None or (entry / "cwd").resolve() == Path(folder).resolve()):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_left() -> Any:
    """Check that no process of Claude Code is left after a test."""
    yield
    left = _processes()
    assert not left, f"processes that stay running: {left}"
