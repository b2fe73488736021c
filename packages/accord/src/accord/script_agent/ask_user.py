"""Commands that ask the user for permission or input."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from accord import NotOffered, Turn
from accord.script_agent.command import ScriptCommand, UsageError, parse_number

_URL = "https://example.com/sign-in"


class _Form(Struct, kw_only=True):
    """One field of each kind."""

    name: Annotated[str, Meta(min_length=1, max_length=40, description="Your name")]
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
                values = await turn.elicit_form(_Form, "Fill in one field of each kind.")
                if values is None:
                    await turn.say("The form was not filled in.")
                else:
                    await turn.say(f"The form contains: `{msgspec.json.encode(values).decode()}`")
            case "url":
                elicitation = await turn.elicit_url(
                    _URL, "Open a page. You do not have to do anything there."
                )
                if elicitation is None:
                    await turn.say("The page was not opened.")
                else:
                    await elicitation.done()
                    await turn.say("The page was opened.")
            case _:
                raise UsageError(f"Expected `form` or `url`, got `{rest}`.")
    except NotOffered:
        await turn.say("The client does not support that.")


ASK_USER = (
    ScriptCommand(
        "permission",
        "[N]",
        "Ask for permission for N tool calls (1)",
        _permission,
        "N tool calls (1) of kind `edit`, one after another; each asks for permission. `2 of "
        '3 allowed.` After an "always" answer, the agent does not ask again.',
    ),
    ScriptCommand(
        "elicit",
        "[form|url]",
        "Ask to fill in a form, or to open a URL",
        _elicit,
        "A form with a field of each kind, or the URL `https://example.com/sign-in`; then "
        "the result. For a URL, it also reports at once that the request is complete.",
    ),
)
