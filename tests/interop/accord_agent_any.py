"""Agent on `accord.Agent`, the same code for v1 and v2; the turn is described in README.md."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import unquote, urlsplit

import accord
from accord.agent import ToolCallHandle

SENTENCE = 'Grüße 👋 "quoted" \\ back\u2028slash\n'
OPTIONS = (
    accord.PermissionOption("no", "Reject", "reject_once"),
    accord.PermissionOption("yes", "Allow", "allow_once"),
)
MODES = (accord.OptionChoice("ask", "Ask"), accord.OptionChoice("code", "Code"))


class Interop(accord.Agent):
    """Runs the turn of README.md, except for parts that only one version has."""

    info = accord.Implementation("accord", "1")
    prompt_capabilities = frozenset({"resource"})
    mcp_transports = frozenset({"stdio"})

    def __init__(self) -> None:
        self.store = accord.MemoryStore()

    async def open_session(self, session: accord.Session) -> None:
        [server] = session.mcp_servers
        assert isinstance(server, accord.McpServerStdio)
        assert server.env == {"A": "b"}
        mode = accord.SelectOption(
            id="mode", name="Mode", category="mode", value="ask", choices=MODES
        )
        await session.set_options([mode])

    async def prompt(self, turn: accord.Turn) -> str | None:
        match turn.content:
            case ["work", accord.ResourceLink(uri=uri)]:
                await work(turn, unquote(urlsplit(uri).path))
            case ["wait"]:
                await turn.say("waiting")
                await asyncio.Event().wait()
            case ["ask"]:
                async with turn.tool("Edit notes.txt", kind="edit") as call:
                    await permission(call)
                return "refusal"
            case other:
                raise accord.InvalidParams(f"no such prompt: {other}")
        return None


async def permission(call: ToolCallHandle) -> str:
    chosen = await call.request_choice(OPTIONS, title="Edit notes.txt?")
    assert chosen
    return chosen.id


async def work(turn: accord.Turn, path: str) -> None:
    saw: dict[str, Any] = {}
    await turn.think("Let me look.")
    plan = await turn.plan(
        [
            accord.PlanEntry("Edit the notes", "in_progress", "high"),
            accord.PlanEntry("Run the tests", priority="low"),
        ]
    )
    await turn.set_commands([accord.AvailableCommand("test", "Run the tests", "which ones")])
    raw = {"path": path, "nested": [1, None, {"deep": True}]}
    place = accord.ToolCallLocation(path, 2)
    async with turn.tool("Edit notes.txt", kind="edit", locations=[place], raw_input=raw) as call:
        saw["permission"] = await permission(call)
        saw["read"] = await turn.files.read(path, line=2, limit=1)
        before = await turn.files.read(path)
        await turn.files.write(path, before.replace(saw["read"], saw["read"].upper()))
    async with turn.tool("pytest -q", kind="execute") as call:
        # The clients simulate terminals, whatever the command.
        command = sys.executable, "-c", "print('2 passed')"
        ran = await turn.terminals.run(*command, env={"CI": "1"}, output_bytes=1024)
        saw["exitCode"], saw["output"] = ran.exit_code, ran.output.replace("\r", "")
        await call.set_raw_output({"exitCode": ran.exit_code})
    async with turn.tool("sleep 60", kind="execute") as call:
        saw["signal"] = (await turn.terminals.run("sleep", "60", timeout_s=0.0)).signal
    await plan.replace(
        accord.PlanEntry(entry.content, "completed", entry.priority) for entry in plan.entries
    )
    await turn.set_title("Edit the notes")
    await turn.set_context_usage(10, 100)
    await turn.say(SENTENCE)
    turn.start_new_message()
    await turn.say(json.dumps(saw))


if __name__ == "__main__":
    Interop().run()
