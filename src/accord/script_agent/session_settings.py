"""Acts that change what a session has: options, mode, commands, title, usage."""

from __future__ import annotations

from accord import AvailableCommand, BooleanOption, Cost, OptionChoice, SelectOption, Turn
from accord.agent import AuthenticationMixin
from accord.script_agent.command import ScriptCommand, UsageError

__all__ = ("COMMANDS", "MODES", "OPTIONS")

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
        raise UsageError("A title is wanted.")
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
    option_id, _, word = rest.partition(" ")
    await _set(turn, option_id, {"on": True, "off": False}.get(word, word))
    await turn.say(f"{option_id} is {word}.")


async def _logout(turn: Turn, _: str) -> None:
    agent = turn.session.agent
    if not isinstance(agent, AuthenticationMixin):
        raise UsageError("Nobody has to log in here.")
    await agent.logout()
    await turn.say("You are logged out; log in before the next prompt.")


async def _set(turn: Turn, option_id: str, value: str | bool) -> None:
    try:
        await turn.session.set_option(option_id, value)
    except KeyError:
        known = ", ".join(f"`{option.id}`" for option in turn.session.options)
        raise UsageError(f"There is no option `{option_id}`; there are {known}.") from None
    except ValueError:
        raise UsageError(f"The option `{option_id}` cannot be `{value}`.") from None


COMMANDS = (
    ScriptCommand("usage", "", "says how full the context is, and what it cost", _usage),
    ScriptCommand("title", "TEXT", "gives the session a title", _title),
    ScriptCommand(
        "commands", "[NAME…]", "offers other slash commands (`first` and `second`)", _commands
    ),
    ScriptCommand("mode", "ID", "switches the mode: `ask`, `auto` or `read`", _mode),
    ScriptCommand(
        "logout", "", "logs the user out: the next prompt fails until the client logs in", _logout
    ),
    ScriptCommand("option", "ID VALUE", "sets a config option; a switch is `on` or `off`", _option),
)
