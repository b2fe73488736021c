"""The custom commands of a project, Markdown files: `.accord/commands/NAME.md`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from accord import AccordError, AvailableCommand
from accord.text.excerpt import hidden_removed
from accord_coder.tool_results import display_path

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
