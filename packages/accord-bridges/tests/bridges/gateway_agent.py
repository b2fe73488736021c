"""An agent for tests of gateways: it calls the tools of its session, and asks for permissions."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import suppress

from msgspec import Struct

from accord import (
    Agent,
    AvailableCommand,
    OptionChoice,
    PlanEntry,
    SelectOption,
    Session,
    SqliteStore,
    TokenUsage,
    Turn,
)
from accord.connection.routes import current_trace
from accord.types.content import ImageContent


class Trip(Struct):
    city: str
    days: int = 1


class Size(Struct):
    """A form."""

    number: int
    unit: str = "cm"


class Caller(Agent):
    """Each line of a prompt is a command."""

    store = SqliteStore(os.environ.get("CALLER_STORE", "sessions.db"))
    unstable = True
    mcp_transports = frozenset(os.environ.get("CALLER_MCP", "stdio").split())
    prompt_capabilities = frozenset({"image", "resource"})

    async def open_session(self, session: Session) -> None:
        if models := os.environ.get("CALLER_MODELS", "").split():
            choices = tuple(OptionChoice(name, name.title()) for name in models)
            option = SelectOption(
                id="model", name="Model", value=models[0], category="model", choices=choices
            )
            await session.set_options([option])
        await session.set_commands([AvailableCommand("count", "Counts", hint="to a number")])

    async def prompt(self, turn: Turn) -> str | None:
        turn.token_usage = TokenUsage(total=12, input=10, output=2)
        images = sum(isinstance(block, ImageContent) for block in turn.content)
        if images:
            await turn.say(f"{images} image(s). ")
        for line in turn.text.split("\n"):
            command, _, rest = line.strip().partition(" ")
            match command:
                case "say":
                    await turn.say(rest)
                case "many":
                    for _ in range(int(rest)):
                        await turn.say("x ")
                case "think":
                    await turn.think(rest)
                case "prompt":
                    await turn.say(repr(turn.text))
                case "model":
                    await turn.say(str(turn.session.option("model")))
                case "trace":
                    await turn.say(json.dumps(current_trace()))
                case "pid":
                    await turn.say(str(os.getpid()))
                case "tools":
                    server = (await turn.session.connect_mcp())["caller"]
                    await turn.say(" ".join(sorted(tool.name for tool in server.tools)))
                case "call":
                    await self._call(turn, rest)
                case "edit":
                    await turn.say("allowed" if await self._edit(turn) else "rejected")
                case "edits":
                    allowed = await asyncio.gather(*(self._edit(turn) for _ in range(int(rest))))
                    await turn.say(f"{sum(allowed)} allowed")
                case "ls":
                    async with turn.tool("List", kind="search", raw_input={"path": "."}) as call:
                        await call.add_content(f"found {rest}")
                case "plan":
                    await turn.plan([PlanEntry(rest, "in_progress")])
                case "image":
                    await turn.say(ImageContent(b"\x89PNG\r\n\x1a\n", "image/png"))
                case "form":
                    filled = await turn.elicit_form(Trip, rest)
                    await turn.say("declined" if filled is None else f"to {filled.city}")
                case "plans":
                    plan = await turn.plan(rest.split())
                    await plan.update(0, status="completed")
                case "size":
                    size = await turn.elicit_form(Size, "How large?")
                    await turn.say("declined" if size is None else f"{size.number} {size.unit}")
                case "url":
                    page = await turn.elicit_url("https://example.com/login", "Log in")
                    await turn.say("declined" if page is None else "opened")
                case "stop":
                    return rest
                case "wait":
                    await turn.say("waiting")
                    await asyncio.Event().wait()
                case "hang":
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(0.05)  # what was said is sent
                    time.sleep(600)  # noqa: ASYNC251  # it does not read the cancel
                case "die":
                    os._exit(3)
                case _:
                    pass
        return None

    async def _edit(self, turn: Turn) -> bool:
        async with turn.tool("Edit notes", kind="edit", raw_input={}) as call:
            await call.add_diff("/notes.txt", "a\n", "b\n")
            return await call.permission()

    async def _call(self, turn: Turn, rest: str) -> None:
        """Call tools at the same time: NAME JSON [& NAME JSON …]."""
        server = (await turn.session.connect_mcp())["caller"]

        async def one(text: str) -> str:
            name, _, arguments = text.strip().partition(" ")
            result = await server.call(name, json.loads(arguments or "{}"))
            prefix = "error " if result.is_error else ""
            return prefix + "".join(getattr(part, "text", "") for part in result.content)

        answers = await asyncio.gather(*map(one, rest.split("&")))
        await turn.say(" | ".join(answers))


if __name__ == "__main__":
    Caller().run()
