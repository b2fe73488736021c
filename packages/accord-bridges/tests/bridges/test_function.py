"""The bridge of functions: the contract, with a small agent that is written as a function."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from accord import Agent, ImageContent, TokenUsage, Turn
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse

pytestmark = pytest.mark.timeout(60)


class Answer(msgspec.Struct):
    """The form of a question."""

    answer: str


class TestFunction(BridgeContract):
    """An agent with all that a function can do."""

    can = frozenset(
        ("thoughts", "approvals", "plans", "questions", "subagents", "mcp", "images", "usage",
         "models", "steering", "parallel_calls", "fork")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        tools = {tool.__name__: tool for tool in (*self.tools.plain, *self.tools.guarded)}

        async def agent(prompt: str, session: Turn) -> None:
            opened = session.session
            images = [block.data for block in session.content if isinstance(block, ImageContent)]
            history: list[Any] = [*(opened.remembered or []), ["user", prompt, *images]]
            servers = await opened.connect_mcp()
            for name, reason in servers.failed.items():
                await session.show_notice(f"The MCP server {name} is not used: {reason}")
            try:
                await work(session, session, history, servers)
            finally:
                kept = [[part for part in each if isinstance(part, str)] for each in history]
                await asyncio.shield(opened.remember(kept))

        async def work(turn: Turn, shown: Any, history: list[Any], servers: Any) -> str:
            while True:
                history += [["user", message.text] for message in turn.take_steering()]
                if options.get("models"):
                    self.models_used.append(str(turn.session.option("model")))
                reply = script.reply(history)
                reply.raise_failure()
                for text in reply.thoughts:
                    await shown.think(text)
                for text in reply.text:
                    await shown.say(text)
                history.append(["assistant", "".join(reply.text)])
                if reply.hangs:
                    await script.hang()
                add_use(turn, reply)
                if not reply.calls:
                    return "".join(reply.text)
                async with asyncio.TaskGroup() as group:
                    for use in reply.calls:
                        entry = ["call", use.name, json.dumps(dict(use.arguments)), "cancelled"]
                        history.append(entry)
                        group.create_task(run(turn, shown, entry, servers, use))

        async def run(turn: Turn, shown: Any, entry: list[str], servers: Any, use: ToolUse) -> None:
            arguments = dict(use.arguments)
            if use.name == "update_plan":
                await turn.plan(arguments["steps"])
                entry[-1] = "planned"
            elif use.name == "ask_helper":
                async with turn.subagent("Helper") as helper:
                    entry[-1] = await work(turn, helper, [["user", arguments["task"]]], servers)
            elif use.name == "ask_user":
                answer = await turn.elicit_form(Answer, arguments["question"])
                entry[-1] = "no answer" if answer is None else answer.answer
            else:
                entry[-1] = await run_tool(turn, shown, servers, use.name, arguments)

        async def run_tool(turn: Turn, shown: Any, servers: Any, name: str, arguments: Any) -> str:
            path = arguments.get("path")
            async with shown.tool(
                f"{name} {path or ''}", name=name, raw_input=arguments,
                kind="read" if name == "read_note_file" else "other",
                locations=[turn.session.files.absolute(path)] if path else (),
            ) as call:  # fmt: skip
                if name == "write_note_file" and not await call.permission():
                    return "The user does not allow this"
                server, _, tool = name.partition("_")
                try:
                    if server in servers:
                        result = await servers[server].call(tool, arguments)
                        output = "".join(part.text for part in result.content)
                    else:
                        output = await tools[name](**arguments)
                except ValueError as error:
                    await call.fail(str(error))
                    return str(error)
                await call.append_text(output)
                return output

        made = as_agent(agent, **options)
        made.mcp_transports = frozenset({"stdio"})
        made.steering = True
        return made


def add_use(turn: Turn, reply: Reply) -> None:
    """Add the tokens of a request to those of the turn."""
    before = turn.token_usage or TokenUsage(total=0, input=0, output=0)
    given, made = before.input + reply.input_tokens, before.output + reply.output_tokens
    turn.token_usage = TokenUsage(total=given + made, input=given, output=made)
