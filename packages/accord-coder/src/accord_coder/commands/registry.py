"""All slash commands: the built-in ones and those of the project."""

from __future__ import annotations

import asyncio
import difflib
import logging
from typing import TYPE_CHECKING

from accord import AvailableCommand, ContentBlock
from accord_coder.commands import builtin, init, permissions, review
from accord_coder.commands.base import BuiltinCommand, CommandCall, parse_command
from accord_coder.commands.custom import (
    CustomCommand,
    InvalidCommandFile,
    custom_commands,
    expand,
    find_command,
    read_linked,
    scan_commands,
)
from accord_coder.models.providers import how_to_get_a_model
from accord_coder.models.selection import DEMO
from accord_coder.permissions.gate import PermissionDenied, ask_always
from accord_coder.tool_results import Access

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.loop.coder_session import CoderSession


log = logging.getLogger("accord_coder")


async def _help(
    _asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """List the commands, the mode and the model."""
    lines = ["Commands:", ""]
    theirs, wrong = await asyncio.to_thread(scan_commands, state.session.cwd)
    for command in _with_builtin(theirs):
        hint = f" {command.hint}" if command.hint else ""
        lines.append(f"- `/{command.name}{hint}` — {command.description}")
    if wrong:
        lines += ["", "Invalid files in `.accord/commands`:", ""]
        lines += [f"- {why}" for why in wrong]
    chosen = state.hooks.model_name(state)
    lines += ["", f"The mode is `{state.mode}`, the model `{chosen}`."]
    if chosen == DEMO:
        lines.append(
            "Type `help` for the commands of the demonstration model. " + how_to_get_a_model()
        )
    await turn.say("\n".join(lines))
    return None


BUILTIN_COMMANDS: tuple[BuiltinCommand, ...] = (
    BuiltinCommand("help", "Lists the commands", _help),
    BuiltinCommand(
        "init", "Writes AGENTS.md for this project", init.run, "what to mind", for_model=True
    ),
    BuiltinCommand(
        "review", "Reviews the changes in git", review.run, "what to look at", for_model=True
    ),
    BuiltinCommand(
        "compact", "Summarises the conversation for the model", builtin.compact, "what to keep"
    ),
    BuiltinCommand("model", "Shows or sets the model", builtin.model, "provider:name"),
    BuiltinCommand("mode", "Shows or sets the permission mode", builtin.mode, "name"),
    BuiltinCommand(
        "permissions",
        "Shows or changes what is always allowed or rejected here",
        permissions.run,
        "allow|reject|remove|trust",
    ),
    BuiltinCommand("export", "Writes this conversation to a Markdown file", builtin.export, "file"),
)
_BY_NAME = {act.name: act for act in BUILTIN_COMMANDS}


def available_commands(state: CoderSession) -> list[AvailableCommand]:
    """Return the commands for clients; reads the project's files."""
    return _with_builtin(custom_commands(state.session.cwd))


def first_available_commands(state: CoderSession) -> list[AvailableCommand]:
    """Return the commands of a new session, and log the invalid files."""
    theirs, wrong = scan_commands(state.session.cwd)
    for why in wrong:
        log.warning("! invalid file in .accord/commands: %s", why)
    return _with_builtin(theirs)


def _with_builtin(theirs: list[CustomCommand]) -> list[AvailableCommand]:
    own = [AvailableCommand(act.name, act.description, act.hint) for act in BUILTIN_COMMANDS]
    return own + [command.available for command in theirs if command.name not in _BY_NAME]


async def run_command(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Run a command; return the prompt for the model, None if the command is complete."""
    if (act := _BY_NAME.get(asked.name)) is not None:
        return await act.run(asked, turn, state)
    found = await asyncio.to_thread(find_command, state.session.cwd, asked.name)
    if found is not None and found.link is not None:
        found = await _read_link(found, turn, state)
        if found is None:
            return None
    if found is not None:
        return (expand(found, asked.arguments), *asked.attachments)
    names = [command.name for command in await asyncio.to_thread(available_commands, state)]
    near = difflib.get_close_matches(asked.name, names, n=1)
    meant = f" Did you mean `/{near[0]}`?" if near else ""
    listed = ", ".join(f"`/{name}`" for name in names)
    await turn.say(f"Unknown command `/{asked.name}`.{meant}\n\nAvailable: {listed}.")
    return None


async def _read_link(
    command: CustomCommand, turn: Turn, state: CoderSession
) -> CustomCommand | None:
    """Return the command of a link, if the user allows the model to read it."""
    path = str(command.link)
    title = f"Read /{command.name}: {command.description}"
    async with turn.tool(title, kind="read", locations=[path]) as call:
        try:
            await ask_always(
                Access("read", (path,)), f"/{command.name} is a link to another file.", call, state
            )
            return await asyncio.to_thread(read_linked, command, state.session.cwd)
        except PermissionDenied as error:
            await call.deny(str(error))
        except InvalidCommandFile as error:
            await call.fail(f"The command /{command.name} {error}.")
    return None


def expand_prompt(content: tuple[ContentBlock, ...], cwd: str) -> tuple[ContentBlock, ...] | None:
    """Return the content that the model received for an earlier prompt; None if it got none.

    A custom command expands to the current text of its file.
    """
    asked = parse_command(content)
    if asked is None:
        return content
    if (act := _BY_NAME.get(asked.name)) is not None:
        if not act.for_model:
            return None
        texts = {"init": init.prompt_for, "review": review.prompt_for}
        return (texts[act.name](asked.arguments), *asked.attachments)
    found = find_command(cwd, asked.name)
    if found is not None and found.link is not None:
        return content  # a link is not read without permission
    return None if found is None else (expand(found, asked.arguments), *asked.attachments)
