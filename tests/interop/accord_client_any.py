"""Client on `accord.connect`, the same code for v1 and v2; the turn is described in README.md.

Files and terminals are real here: `pytest` is a script that runs until the agent waits for it.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import accord

HERE = Path.cwd()
NOTES = HERE / "notes.txt"
SERVER = accord.McpServerStdio("notes", "/bin/true", ("--stdio",), {"A": "b"})
PYTEST = """#!/bin/sh
while [ ! -e go ]; do sleep 0.02; done
if [ "$1 $CI" = "-q 1" ]; then echo "2 passed"; fi
"""


class User:
    """Allows a number of requests, and rejects the others."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fed_up: accord.ClientTurn | None = None

    async def decide(self, request: accord.PermissionRequest) -> Any:
        assert request.tool_call
        kinds = ",".join(option.kind for option in request.options)
        self.asked.append(f"{request.tool_call.id} {kinds}")
        if self.fed_up is None:
            return "allow"
        await self.fed_up.cancel()
        return "cancel"


def watch(direction: str, frame: bytes | bytearray) -> None:
    if direction == "received" and b'"terminal/wait_for_exit"' in frame:
        (HERE / "go").touch()


async def number_of(agent: accord.ConnectedAgent, method: str, params: Any) -> int:
    try:
        return (await agent.remote.call_extension(method, params))["n"]
    except accord.RequestError as error:
        return error.code


async def turns(agent: accord.ConnectedAgent, user: User) -> dict[str, Any]:
    session = await agent.new_session(HERE, mcp_servers=[SERVER])
    mode = session.transcript.mode_option
    assert mode
    await session.set_mode("code")
    report: dict[str, Any] = {
        "agent": agent.info.name,
        "embeddedContext": agent.supports_content("resource"),
        "modes": [choice.value for choice in mode.choices],
        "mode": session.transcript.mode,
        "echo": await number_of(agent, "_interop/echo", {"n": 1}),
        "missing": await number_of(agent, "_interop/missing", {}),
    }
    events: set[str] = set()
    async with session.prompt("work", accord.ResourceLink(NOTES.as_uri(), "notes.txt")) as work:
        async for event in work:
            events.add(type(event).__name__)
    sentence, brace, saw = work.text.partition("{")
    async with session.prompt("wait") as wait:
        async for event in wait:
            if isinstance(event, accord.Text):
                await wait.cancel()
    async with session.prompt("ask") as ask:
        user.fed_up = ask
        await ask.wait()
    transcript = session.transcript
    calls = {call.id: call for call in transcript.tool_calls}
    assert transcript.plan
    return report | {
        "stops": [work.stop_reason, wait.stop_reason, ask.stop_reason],
        "events": sorted(events),
        "sentence": sentence.strip(),
        "saw": json.loads(brace + saw),
        "said": wait.text,
        "asked": user.asked,
        "calls": {call.id: f"{call.kind} {call.status}" for call in calls.values()},
        "thoughts": [m.text for m in transcript.messages if m.role == "thought"],
        "prompts": [m.text.split()[0] for m in transcript.messages if m.role == "user"],
        "plan": [entry.status for entry in transcript.plan.entries],
        "commands": [command.name for command in transcript.commands],
        "rawInput": calls["edit-1"].raw_input["nested"],
        "diff": [Path(p.path).name for p in calls["edit-1"].content if isinstance(p, accord.Diff)],
        "output": [shell.text for shell in transcript.terminals.values()],
        "title": transcript.title,
        "usage": transcript.usage and [transcript.usage.used, transcript.usage.size],
        "notes": NOTES.read_text(encoding="utf-8"),
    }


async def main(command: list[str]) -> None:
    NOTES.write_text("first\nsecond\nthird\n", encoding="utf-8")
    (HERE / "bin").mkdir()
    (HERE / "bin" / "pytest").write_text(PYTEST, encoding="utf-8")
    (HERE / "bin" / "pytest").chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([str(HERE / "bin"), os.environ["PATH"]])
    user = User()
    async with accord.connect(
        command,
        permissions=user.decide,
        files="rw",
        terminals=True,
        client_info=accord.Implementation("accord", "1"),
        on_stderr=lambda line: print(line, file=sys.stderr),
        observers=[watch],
    ) as agent:
        report = await turns(agent, user)
        report["version"] = agent.version
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
