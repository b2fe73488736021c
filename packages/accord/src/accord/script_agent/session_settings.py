"""Commands that change a session: options, mode, slash commands, title, usage."""

from __future__ import annotations

from accord import AvailableCommand, BooleanOption, Cost, OptionChoice, SelectOption, Turn
from accord.agent import AuthenticationMixin
from accord.script_agent.command import ScriptCommand, UsageError

MODES = SelectOption(
    id="mode",
    name="Mode",
    description="Who decides about tool calls",
    category="mode",
    value="ask",
    choices=(
        OptionChoice("ask", "Ask", "The user decides"),
        OptionChoice("auto", "Auto", "Everything is allowed"),
        OptionChoice("read", "Read only", "Nothing is allowed"),
    ),
)
OPTIONS = (
    MODES,
    SelectOption(
        id="model",
        name="Model",
        category="model",
        value="small",
        choices=(
            OptionChoice("small", "Small", group="Quick"),
            OptionChoice("tiny", "Tiny", group="Quick"),
            OptionChoice("large", "Large", "Takes its time", group="Thorough"),
        ),
    ),
    BooleanOption(id="brief", name="Brief", description="Say less", value=False),
)


async def _usage(turn: Turn, _: str) -> None:
    await turn.set_context_usage(12_000, 200_000, cost=Cost(0.25, "USD"))
    await turn.say("12000 of 200000 tokens are used.")


async def _title(turn: Turn, text: str) -> None:
    if not text:
        raise UsageError("Expected a title.")
    await turn.set_title(text)
    await turn.say(f"The title is: {text}")


async def _commands(turn: Turn, rest: str) -> None:
    names = rest.split() or ["first", "second"]
    await turn.set_commands(
        [AvailableCommand(name, f"does what {name} does", "what") for name in names]
    )
    await turn.say(f"{len(names)} commands: {', '.join(names)}.")


async def _mode(turn: Turn, mode: str) -> None:
    await _set(turn, "mode", mode)
    await turn.say(f"The mode is {mode}.")


async def _option(turn: Turn, rest: str) -> None:
    option_id, _, value = rest.partition(" ")
    await _set(turn, option_id, {"on": True, "off": False}.get(value, value))
    await turn.say(f"{option_id} is {value}.")


async def _logout(turn: Turn, _: str) -> None:
    agent = turn.session.agent
    if not isinstance(agent, AuthenticationMixin):
        raise UsageError("This agent does not require login.")
    await agent.logout()
    await turn.say("You are logged out; log in before the next prompt.")


async def _set(turn: Turn, option_id: str, value: str | bool) -> None:
    try:
        await turn.session.set_option(option_id, value)
    except KeyError:
        known = ", ".join(f"`{option.id}`" for option in turn.session.options)
        raise UsageError(f"Unknown option `{option_id}`: expected one of {known}.") from None
    except ValueError:
        raise UsageError(f"The option `{option_id}` cannot be `{value}`.") from None


SESSION_SETTINGS = (
    ScriptCommand(
        "usage",
        "",
        "Report the context usage and the cost",
        _usage,
        "Context usage: 12000 of 200000 tokens, 0.25 USD; `12000 of 200000 tokens are used.`",
    ),
    ScriptCommand(
        "title",
        "TEXT",
        "Set the title of the session",
        _title,
        "The title; `The title is: TEXT`",
    ),
    ScriptCommand(
        "commands",
        "[NAME…]",
        "Set other slash commands (`first` and `second`)",
        _commands,
        "Other slash commands (`first` and `second`); `2 commands: first, second.`",
    ),
    ScriptCommand(
        "mode",
        "ID",
        "Set the mode: `ask`, `auto` or `read`",
        _mode,
        "The mode; `The mode is auto.`",
    ),
    ScriptCommand(
        "logout",
        "",
        "Log out: the next prompt fails until the client logs in",
        _logout,
        "`You are logged out; log in before the next prompt.` Prompts and new sessions then "
        "fail with -32000 until the client logs in.",
    ),
    ScriptCommand(
        "option",
        "ID VALUE",
        "Set a config option; a boolean option is `on` or `off`",
        _option,
        "All options with the new value, `on` or `off` for a boolean option; `model is tiny.`",
    ),
)
