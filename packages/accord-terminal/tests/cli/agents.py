"""Agents for the tests of programs: `python agents.py NAME VERSION` serves only that version."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct

from accord import (
    Agent,
    AuthRequired,
    InternalError,
    InvalidParams,
    PermissionOption,
    SqliteStore,
    Turn,
    roles,
)
from accord.agent.agent import AgentConnection
from accord.agent.updates import PermissionQuestion, ToolCallUpdate
from accord.script_agent.agent import ScriptAgent
from accord.transports.stdio import stdio
from accord.types.session import StopReason


class Stored(Agent):
    """Stores each prompt in a file, and says the previous one."""

    unstable = True

    def __init__(self) -> None:
        self.store = SqliteStore("sessions.db")

    async def prompt(self, turn: Turn) -> None:
        before = turn.session.title
        await turn.set_title(turn.text)
        await turn.say(f"Before: {before}. Now: {turn.text}.")


class Stubborn(Agent):
    """Ignores a cancel."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say("I go on.\n\n")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await turn.say("I still go on.\n\n")


class Shy(Agent):
    """Requires login before anything else."""

    def check_auth(self) -> None:
        raise AuthRequired


class TalksAndWorks(Agent):
    """Alternates text and tool calls."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say("Before.")
        async with turn.tool("One"):
            pass
        await turn.say("Between.")
        async with turn.tool("Two"):
            pass
        await turn.say("After.")


class Name(Struct):
    """The form."""

    name: str


class AsksTwice(Agent):
    """Sends a form, and then a permission request."""

    async def prompt(self, turn: Turn) -> None:
        filled = await turn.elicit_form(Name, "Who is it?")
        async with turn.tool("Greet") as call:
            allowed = await call.permission()
        await turn.say(f"{filled}, then {allowed}.")


class Nasty(Agent):
    """Puts control characters into its questions."""

    async def prompt(self, turn: Turn) -> None:
        title = "Your\x1b[2J\x1b]0;me\x07 name"
        form = defstruct("Nasty", [("name", Annotated[str | None, Meta(title=title)], None)])
        await turn.elicit_form(form, f"{title}\nAllow all? [y]es, [a]lways:\x1b[2J ")


class Pushes(Agent):
    """Sends two options of kind allow_once, one of them for another action."""

    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Push", kind="execute") as call:
            chosen = await call.request_choice(
                [
                    PermissionOption("main", "Push to main", "allow_once"),
                    PermissionOption("branch", "Push to a branch", "allow_once"),
                    PermissionOption("no", "Do not push", "reject_once"),
                ]
            )
        await turn.say(f"Chosen: {chosen.id if chosen else None}.")


class PushesAnyway(Agent):
    """Sends an allowing and a rejecting option with the same id, so that no answer rejects."""

    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Push", kind="execute") as call:
            question = PermissionQuestion(
                title="Push",
                description=None,
                options=(
                    PermissionOption("same", "Push to main", "allow_once"),
                    PermissionOption("same", "Do not push", "reject_once"),
                ),
                tool=ToolCallUpdate(
                    id=call.id, title=call.title, kind=call.kind, status=call.status
                ),
            )
            # Not with `call.request_choice`, which raises an error for such options.
            chosen = await turn._core.client_adapter.request_permission(turn.session.id, question)
        await turn.say(f"Chosen: {chosen}.")


class LongCommand(Agent):
    """Asks for a command of many lines, which hides its effect."""

    async def prompt(self, turn: Turn) -> None:
        command = "\n".join([*(f"echo line{n:03}" for n in range(100)), "rm -rf \u202e~\u3164"])
        title = "Run\u3164 \u200bsome" + " thing" * 1000
        async with turn.tool(title, kind="execute", raw_input={"command": command}) as call:
            allowed = await call.permission()
        await turn.say(f"Allowed: {allowed}.")


class Streams(Agent):
    """Sends text, starts a tool call, and waits there for a cancel."""

    async def prompt(self, turn: Turn) -> None:
        for number in range(200):
            await turn.say(f"word{number:03} ")
        await turn.think("I think **deeply**.\nOf this.")
        print("trying to connect to 192.0.2.1", file=sys.stderr, flush=True)
        async with turn.tool("Work for ever", kind="execute") as call:
            await call.add_content("half of it")
            await asyncio.Event().wait()


class Fails(Agent):
    """Fails as many prompts as the first word says, with the error that the others describe."""

    def __init__(self) -> None:
        self.prompts = 0

    async def prompt(self, turn: Turn) -> None:
        self.prompts += 1
        most, *words = turn.text.split()
        if self.prompts > int(most):
            await turn.say(f"Prompt {self.prompts}.")
            return
        if "aloud" in words:
            await turn.say("I begin.")
        if "invalid" in words:
            raise InvalidParams("not like this")
        raise InternalError("the model is overloaded")


class StopsWhenRejected(Agent):
    """Ends its turn as cancelled if an edit is rejected."""

    async def prompt(self, turn: Turn) -> StopReason | None:
        async with turn.tool("Edit", kind="edit") as call:
            is_allowed = await call.permission()
        return None if is_allowed else "cancelled"


AGENTS: dict[str, Any] = {
    "stops_when_rejected": StopsWhenRejected,
    "pushes": Pushes,
    "pushes_anyway": PushesAnyway,
    "long_command": LongCommand,
    "streams": Streams,
    "script": lambda: ScriptAgent(exit_process=os._exit),
    "stored": Stored,
    "stubborn": Stubborn,
    "shy": Shy,
    "talks_and_works": TalksAndWorks,
    "asks_twice": AsksTwice,
    "nasty": Nasty,
    "fails": Fails,
}


async def serve(agent: Agent, version: int) -> None:
    connection = AgentConnection(agent, max_sessions=100)
    if version == 1:
        from accord.agent.v1_role import AgentRoleV1

        role: Any = AgentRoleV1(connection)
    else:
        from accord.agent.v2_role import AgentRoleV2

        role = AgentRoleV2(connection)
    try:
        await roles.serve(stdio(restore=False), role)
    finally:
        await connection.aclose()
        await agent.aclose()


if __name__ == "__main__":
    if sys.argv[1] == "silent":
        sys.stdin.readline()
        time.sleep(60)
    asyncio.run(serve(AGENTS[sys.argv[1]](), int(sys.argv[2])))
