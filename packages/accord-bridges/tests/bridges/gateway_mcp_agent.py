"""The agent of `gateway_agent.py`, which also plans, asks with a form, draws and has a command."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from accord import AvailableCommand, PlanEntry, Session, Turn
from accord.types.content import ImageContent
from bridges.gateway_agent import Caller


class Colour(Struct):
    """What the form asks for."""

    colour: Literal["red", "blue"]
    count: Annotated[int, Meta(ge=1, le=3)] = 1


class Asker(Caller):
    """Does the lines that it knows, and then those that `Caller` knows."""

    async def open_session(self, session: Session) -> None:
        await session.set_commands([AvailableCommand("paint", "Paint the shed.", "the colour")])

    async def prompt(self, turn: Turn) -> None:
        for line in turn.text.split("\n"):
            command, _, rest = line.strip().partition(" ")
            match command:
                case "colour":
                    found = await turn.elicit_form(Colour, "Which colour?")
                    await turn.say("declined" if found is None else f"{found.count} {found.colour}")
                case "steps":
                    await turn.plan(
                        [PlanEntry("look", "completed"), PlanEntry(rest, "in_progress")]
                    )
                case "picture":
                    await turn.say(ImageContent(b"\x89PNG\r\n\x1a\n", "image/png"))
                case "begin":  # a tool call, so that callers see that the turn runs
                    async with turn.tool(rest, kind="execute"):
                        pass
                case "hostile":
                    async with turn.tool("Delete \x1b[2J\u202eall", kind="delete") as call:
                        await call.permission()
                case _:
                    pass
        await super().prompt(turn)


if __name__ == "__main__":
    Asker().run()
