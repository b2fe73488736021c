"""All commands of the script agent, and how a prompt runs one."""

from __future__ import annotations

from accord import Turn
from accord.script_agent.ask_user import ASK_USER
from accord.script_agent.background import BACKGROUND
from accord.script_agent.command import ScriptCommand, UsageError
from accord.script_agent.files_and_terminals import FILES_AND_TERMINALS
from accord.script_agent.full_turn import FULL_TURN
from accord.script_agent.messages import MESSAGES
from accord.script_agent.session_settings import SESSION_SETTINGS
from accord.script_agent.stop import STOP
from accord.script_agent.tools_and_plans import TOOLS_AND_PLANS


async def _help(turn: Turn, _: str) -> None:
    await turn.say(help_text())


COMMANDS = (
    ScriptCommand("help", "", "List the commands", _help, "The list of commands, as Markdown."),
    *MESSAGES,
    *FULL_TURN,
    *TOOLS_AND_PLANS,
    *ASK_USER,
    *FILES_AND_TERMINALS,
    *BACKGROUND,
    *SESSION_SETTINGS,
    *STOP,
)
_BY_NAME = {command.name: command for command in COMMANDS}


async def run_prompt(turn: Turn) -> str | None:
    """Run the command in a prompt; return the stop reason, if the command defines one."""
    words = next((part for part in turn.content if isinstance(part, str)), "").split(None, 1)
    name = words[0].removeprefix("/") if words else "help"
    command = _BY_NAME.get(name)
    if command is None:
        await turn.say(f"Unknown command `{name}`.\n\n{help_text()}")
        return None
    try:
        return await command.run(turn, words[1].strip() if len(words) > 1 else "")
    except UsageError as error:
        await turn.say(f"{error}\n\nUsage: `{command.usage}`")
        return None


def help_text() -> str:
    """Return the list of all commands, as Markdown."""
    lines = [f"- `{command.usage}`: {command.summary}" for command in COMMANDS]
    return "\n".join(["Each prompt is one of these commands:", "", *lines])
