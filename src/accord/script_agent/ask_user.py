"""Acts that ask the user for something."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from accord import NotOffered, Turn
from accord.script_agent.command import ScriptCommand, UsageError, parse_number

__all__ = ("COMMANDS",)

_URL = "https://example.com/sign-in"


class _Form(Struct, kw_only=True):
    """One field of each kind."""

    name: Annotated[str, Meta(min_length=1, max_length=40, description="Whoever is asked")]
    count: Annotated[int, Meta(ge=0, le=100)] = 3
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    sure: bool = False
    colour: Literal["red", "green", "blue"] = "green"
    parts: list[Literal["docs", "source", "tests"]] = []
    note: str | None = None


async def _permission(turn: Turn, rest: str) -> None:
    times = parse_number(rest, default=1, minimum=1, maximum=100)
    allowed = 0
    for index in range(times):
        async with turn.tool(
            f"Do thing {index + 1}",
            kind="edit",
            name="script_thing",
            raw_input={"thing": index + 1},
        ) as call:
            if await call.permission():
                allowed += 1
                await call.add_content(f"Thing {index + 1} is done.")
    await turn.say(f"{allowed} of {times} allowed.")


async def _elicit(turn: Turn, rest: str) -> None:
    try:
        match rest:
            case "" | "form":
                answer = await turn.elicit_form(_Form, "Fill in one field of each kind.")
                if answer is None:
                    await turn.say("The form was not filled in.")
                else:
                    await turn.say(f"The form says: `{msgspec.json.encode(answer).decode()}`")
            case "url":
                page = await turn.elicit_url(_URL, "Open a page, which needs nothing of you.")
                if page is None:
                    await turn.say("The page was not opened.")
                else:
                    await page.done()
                    await turn.say("The page was opened.")
            case _:
                raise UsageError(f"Expected `form` or `url`, got `{rest}`.")
    except NotOffered:
        await turn.say("The client does not offer that.")


COMMANDS = (
    ScriptCommand("permission", "[N]", "asks for permission for N tool calls (1)", _permission),
    ScriptCommand("elicit", "[form|url]", "asks to fill in a form, or to open a page", _elicit),
)
