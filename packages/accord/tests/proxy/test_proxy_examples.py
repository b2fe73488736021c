"""Each proxy of `examples/proxies`, as a process in a chain."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent, PermissionRequest, Turn
from project import ROOT

EXAMPLES = ROOT / "examples/proxies"
both_versions = pytest.mark.parametrize("version", [1, 2])


class Anything(Agent):
    """Does what the prompt says."""

    mcp_transports = frozenset({"acp"})

    steering = True

    async def prompt(self, turn: Turn) -> None:
        match turn.text.split():
            case ["secret", *parts]:
                for part in parts:
                    await turn.say(part)
                async with turn.tool("cat token", kind="execute", raw_input={"k": "hunter2!"}):
                    pass
            case ["run", kind, *command]:
                call = turn.tool("Run", kind=kind, raw_input={"command": " ".join(command)})
                async with call as running:
                    await turn.say("yes" if await running.permission() else "no")
            case ["listen"]:
                async for message in turn.steering():
                    await turn.say(f"I heard: {message.text}")
                    return
            case ["servers"]:
                await turn.say(repr([server.name for server in turn.session.mcp_servers]))
            case ["lookup"]:
                tools = (await turn.session.connect_mcp())["tools"]
                content: Any = (await tools.call("lookup", {"term": "hop"})).content[0]
                await turn.say(content.text)
            case _:
                await turn.say(f"I got: {turn.text}")


@asynccontextmanager
async def _session(
    name: str, version: Any, *args: str, env: Any = None, **more: Any
) -> AsyncGenerator[accord.ClientSession]:
    command = [sys.executable, str(EXAMPLES / name), *args]
    chain = accord.chain(accord.component(command, env=env), Anything())
    async with asyncio.timeout(40), accord.connect(chain, versions=(version,), **more) as agent:
        yield await agent.new_session(cwd="/w")


async def _ask(session: accord.ClientSession, prompt: str, *messages: str) -> str:
    async with session.prompt(prompt) as turn:
        for message in messages:
            assert (await turn.steer(message)).outcome == "injected"
        await turn.wait()
    return turn.text


@both_versions
async def test_redact(version: int) -> None:
    env = {"MY_API_KEY": "hunter2!", "OTHER_TOKEN": "hun"}
    async with _session("redact.py", version, env=env) as session:
        text = await _ask(session, "secret It is hun ter 2! and hunt.")
        assert text == "Itis[redacted]and[redacted]t."
        (call,) = session.transcript.tool_calls
        assert call.raw_input == {"k": "[redacted]"}


async def test_allow_by_policy() -> None:
    asked: list[PermissionRequest] = []

    def user(request: PermissionRequest) -> Any:
        asked.append(request)
        return "allow"

    async with _session("allow_by_policy.py", 1, permissions=user) as session:
        assert await _ask(session, "run execute pytest -q") == "yes"
        assert await _ask(session, "run execute git push --force") == "no"
        assert not asked
        assert await _ask(session, "run execute make") == "yes"
        assert len(asked) == 1


async def test_add_mcp_servers() -> None:
    async with _session("add_mcp_servers.py", 1) as session:
        assert await _ask(session, "servers") == "['issues']"


async def test_rewrite_prompts_and_tool() -> None:
    async with _session("rewrite_prompts.py", 2) as session:
        text = await _ask(session, "Which lane is it?")
        assert "- lane: an order of messages" in text
        assert await _ask(session, "lookup") == "one connection of a chain"
        assert "- hop: one connection of a chain" in await _ask(session, "listen", "And a hop?")


@both_versions
async def test_slash_commands(version: int) -> None:
    async with _session("slash_commands.py", version) as session:
        assert await _ask(session, "/branch docs") == "Name it `topic/docs`."
        assert "Review the last commit" in await _ask(session, "/review")
        assert [c.name for c in session.transcript.commands or ()] == ["branch", "review"]
        async with session.prompt("listen") as turn:
            assert (await turn.steer("/branch docs")).outcome == "queued"
            assert (await session.steer("done")).outcome == "queued"  # they keep their order
            await turn.cancel()


async def test_record(tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    async with _session("record.py", 1, str(file)) as session:
        await _ask(session, "hello")
        await _ask(session, "listen", "again")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["prompt"] == "hello"
    assert lines[0]["answer"] == "I got: hello"
    assert lines[1]["answer"] == "\n> again\nI heard: again"
    assert [line["ended"] for line in lines] == ["end_turn", "end_turn"]


def test_every_example_is_run() -> None:
    source = Path(__file__).read_text()
    assert all(f'"{path.name}"' in source for path in EXAMPLES.glob("*.py"))
