"""The slash commands: the built-in ones, and those of the project in `.accord/commands/NAME.md`.

`run_command` runs one, `available_commands` lists them for clients. `builtin` has those without a
prompt for the model, `for_model` has `/init` and `/review`. The text of a project's command is a
prompt; if its file is a link, it is read only with the user's permission.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from accord import AccordError, AvailableCommand, ContentBlock
from accord.text.excerpt import hidden_removed
from accord_coder.commands import builtin
from accord_coder.commands.builtin import BuiltinCommand, CommandCall, parse_command
from accord_coder.commands.for_model import init_prompt, review_prompt, run_init, run_review
from accord_coder.models.providers import how_to_get_a_model
from accord_coder.models.selection import DEMO
from accord_coder.permissions.decision import PermissionDenied, ask_always
from accord_coder.tool_results import Access, display_path

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.session import CoderSession

__all__ = (
    "BUILTIN_COMMANDS",
    "CustomCommand",
    "InvalidCommandFile",
    "available_commands",
    "custom_commands",
    "expand",
    "expand_prompt",
    "find_command",
    "first_available_commands",
    "read_linked",
    "run_command",
    "scan_commands",
)

_MAX_BYTES = 64 * 1024
_MAX_FILES = 200
_MAX_CHARACTERS = 200  # of a description
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_FIELD = re.compile(r"([\w-]+)[ \t]*:[ \t]*(.*)")


class CustomCommand(Struct, frozen=True):
    """A command whose text is a prompt, with `$ARGUMENTS` for what the user typed after it.

    If the file is a link, `link` is its path, and it is read only with the user's permission.
    """

    name: str
    text: str
    description: str
    hint: str | None = None
    link: str | None = None

    @property
    def available(self) -> AvailableCommand:
        """The command in the form for clients."""
        hint = self.hint or ("arguments" if "$ARGUMENTS" in self.text else None)
        return AvailableCommand(self.name, self.description, hint)


class InvalidCommandFile(AccordError):
    """A file in the directory of commands is not a valid command."""


def scan_commands(cwd: str) -> tuple[list[CustomCommand], list[str]]:
    """Return the project's commands by name, and a sentence about each invalid file."""
    folder = Path(cwd) / ".accord" / "commands"
    commands: list[CustomCommand] = []
    wrong: list[str] = []
    try:
        paths = sorted(folder.glob("*.md"))
    except OSError:
        return commands, wrong
    if len(paths) > _MAX_FILES:
        wrong.append(f"{folder.name} has {len(paths)} files; the first {_MAX_FILES} are commands.")
    for path in paths[:_MAX_FILES]:
        try:
            commands.append(_read(path, Path(cwd)))
        except InvalidCommandFile as exc:
            wrong.append(
                f"{display_path(os.fsencode(path.name).decode('utf-8', 'replace'))} {exc}."
            )
    return commands, wrong


def custom_commands(cwd: str) -> list[CustomCommand]:
    """Return the project's commands by name."""
    return scan_commands(cwd)[0]


def find_command(cwd: str, name: str) -> CustomCommand | None:
    """Return the command with a name."""
    if not _NAME.fullmatch(name):
        return None
    for command in custom_commands(cwd):
        if command.name == name:
            return command
    return None


def read_linked(command: CustomCommand, cwd: str) -> CustomCommand:
    """Return the command of a link, with its text; raise `InvalidCommandFile`."""
    path = Path(command.link or "")
    return _read(path, Path(cwd), follow=True)


def expand(command: CustomCommand, arguments: str) -> str:
    """Return the prompt; arguments without a placeholder are added at its end."""
    if "$ARGUMENTS" in command.text:
        return command.text.replace("$ARGUMENTS", arguments)
    return f"{command.text}\n\n{arguments}" if arguments else command.text


def _read(path: Path, project: Path, *, follow: bool = False) -> CustomCommand:
    name = path.stem.lower()
    if not _NAME.fullmatch(name):
        raise InvalidCommandFile("has an invalid name: use letters, digits, - and _")
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(project.resolve()):
            # A link can lead to a file that the model must not see.
            raise InvalidCommandFile("leads out of the project")
        if not real.is_file():
            raise InvalidCommandFile("is not a file")
        if not follow and real != project.resolve() / ".accord" / "commands" / path.name:
            target = display_path(os.path.relpath(real, project.resolve()))
            return CustomCommand(name, "", f"A link to {_plain(target)}", link=str(path))
        with real.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of links
        raise InvalidCommandFile("cannot be read") from exc
    if len(data) > _MAX_BYTES:
        raise InvalidCommandFile(f"is larger than {_MAX_BYTES // 1024} KiB")
    try:
        fields, text = _front_matter(data.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise InvalidCommandFile("is not text in UTF-8") from exc
    if not text.strip():
        raise InvalidCommandFile("has no text")
    first = next(line.strip("# \t") for line in text.splitlines() if line.strip())
    description = fields.get("description") or (first if len(first) <= 80 else f"{first[:79]}…")
    hint = fields.get("hint") or fields.get("argument-hint") or ""
    return CustomCommand(name, text.strip(), _plain(description) or name, _plain(hint) or None)


def _plain(text: str) -> str:
    """Return text as one line without control characters."""
    kept = hidden_removed(" ".join(text.split()))
    return kept if len(kept) <= _MAX_CHARACTERS else f"{kept[: _MAX_CHARACTERS - 1]}…"


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the `key: value` lines between lines of dashes, and the text after them."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = re.match(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        return {}, text
    fields = (_FIELD.fullmatch(line.strip()) for line in found[1].splitlines())
    values = {field[1].lower(): field[2].strip().strip("\"'") for field in fields if field}
    return values, text[found.end() :]


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
        "init", "Writes AGENTS.md for this project", run_init, "what to mind", for_model=True
    ),
    BuiltinCommand(
        "review", "Reviews the changes in git", run_review, "what to look at", for_model=True
    ),
    BuiltinCommand(
        "compact", "Summarises the conversation for the model", builtin.compact, "what to keep"
    ),
    BuiltinCommand("model", "Shows or sets the model", builtin.model, "provider:name"),
    BuiltinCommand("mode", "Shows or sets the permission mode", builtin.mode, "name"),
    BuiltinCommand(
        "permissions",
        "Shows or changes what is always allowed or rejected here",
        builtin.permissions,
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
        texts = {"init": init_prompt, "review": review_prompt}
        return (texts[act.name](asked.arguments), *asked.attachments)
    found = find_command(cwd, asked.name)
    if found is not None and found.link is not None:
        return content  # a link is not read without permission
    return None if found is None else (expand(found, asked.arguments), *asked.attachments)
