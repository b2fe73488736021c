"""Commands that are Markdown files of the project: `.accord/commands/NAME.md`."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from accord import Command

__all__ = ("FileCommand", "command_files", "expanded", "find_file")

_MOST_BYTES = 64 * 1024
_MOST_FILES = 200
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_FIELD = re.compile(r"([\w-]+)[ \t]*:[ \t]*(.*)")


class FileCommand(Struct, frozen=True):
    """A command whose text is a prompt, `$ARGUMENTS` in it what the user typed behind it."""

    name: str
    text: str
    description: str
    hint: str | None = None

    @property
    def offered(self) -> Command:
        """How clients are told of it."""
        hint = self.hint or ("arguments" if "$ARGUMENTS" in self.text else None)
        return Command(self.name, self.description, hint)


def command_files(cwd: str) -> list[FileCommand]:
    """Return the project's commands by name; what cannot be read is none."""
    folder = Path(cwd) / ".accord" / "commands"
    try:
        paths = sorted(folder.glob("*.md"))[:_MOST_FILES]
    except OSError:
        return []
    found = (_read(path, Path(cwd)) for path in paths)
    return [command for command in found if command is not None]


def find_file(cwd: str, name: str) -> FileCommand | None:
    """Return the command of a name."""
    if not _NAME.fullmatch(name):
        return None
    for command in command_files(cwd):
        if command.name == name:
            return command
    return None


def expanded(command: FileCommand, arguments: str) -> str:
    """Return the prompt; arguments that it has no place for stand at its end."""
    if "$ARGUMENTS" in command.text:
        return command.text.replace("$ARGUMENTS", arguments)
    return f"{command.text}\n\n{arguments}" if arguments else command.text


def _read(path: Path, project: Path) -> FileCommand | None:
    name = path.stem.lower()
    if not _NAME.fullmatch(name):
        return None
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(project.resolve()) or not real.is_file():
            return None  # a link may lead to what the model must not be told
        with real.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if len(data) > _MOST_BYTES:
        return None
    fields, text = _front_matter(text)
    if not text.strip():
        return None
    first = next(line.strip("# \t") for line in text.splitlines() if line.strip())
    description = fields.get("description") or (first if len(first) <= 80 else f"{first[:79]}…")
    hint = fields.get("hint") or fields.get("argument-hint")
    return FileCommand(name, text.strip(), description, hint)


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the `key: value` lines between lines of dashes, and the text behind them."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = re.match(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        return {}, text
    fields = (_FIELD.fullmatch(line.strip()) for line in found[1].splitlines())
    values = {field[1].lower(): field[2].strip().strip("\"'") for field in fields if field}
    return values, text[found.end() :]
