"""Commands that work on files and run commands."""

from __future__ import annotations

import shlex
from pathlib import Path

from accord import RequestError, StartError, Turn
from accord.script_agent.command import ScriptCommand, UsageError


async def _fs(turn: Turn, rest: str) -> None:
    action, _, rest = rest.partition(" ")
    if action == "read" and rest:
        await _read(turn, rest)
    elif action == "write" and rest:
        path, _, text = rest.partition(" ")
        await _write(turn, path, text)
    else:
        raise UsageError("Expected `read PATH` or `write PATH TEXT`.")


async def _read(turn: Turn, path: str) -> None:
    absolute = str(Path(turn.session.cwd, path))
    async with turn.tool(
        f"Read {path}", kind="read", name="read_file", locations=[absolute]
    ) as call:
        try:
            text = await turn.files.read(path)
        except (OSError, ValueError, RequestError) as error:
            await call.fail(f"It could not be read: {_error_reason(error)}.")
            await turn.say(f"{path} could not be read: {_error_reason(error)}.")
            return
        await call.add_content(text)
    await turn.say(f"{path} has {len(text)} characters in {len(text.splitlines())} lines.")


async def _write(turn: Turn, path: str, text: str) -> None:
    absolute = str(Path(turn.session.cwd, path))
    async with turn.tool(
        f"Write {path}", kind="edit", name="write_file", locations=[absolute]
    ) as call:
        try:
            await turn.files.write(path, f"{text}\n")
        except (OSError, RequestError) as error:
            await call.fail(f"It could not be written: {_error_reason(error)}.")
            await turn.say(f"{path} could not be written: {_error_reason(error)}.")
            return
    await turn.say(f"{path} is written.")


def _error_reason(error: Exception) -> str:
    """Return a reason that is the same on every machine."""
    match error:
        case FileNotFoundError():
            return "the file does not exist"
        case PermissionError():
            return "permission denied"
        case RequestError():
            return f"the client responded with error {error.code}"
        case UnicodeDecodeError():
            return "it is not a text file"
        case _:
            return "it is not a file"


async def _terminal(turn: Turn, rest: str) -> None:
    try:
        argv = shlex.split(rest)
    except ValueError:
        raise UsageError("Expected a closing quotation mark.") from None
    if not argv:
        raise UsageError("Expected a command.")
    try:
        result = await turn.terminals.run(*argv)
    except (StartError, RequestError):
        await turn.say(f"`{argv[0]}` could not be started.")
        return
    end = f"signal {result.signal}" if result.signal else f"status {result.exit_code}"
    await turn.say(f"`{argv[0]}` ended with {end} and {len(result.output)} characters of output.")


FILES_AND_TERMINALS = (
    ScriptCommand(
        "fs",
        "read PATH | write PATH TEXT",
        "Read or write a file of the session",
        _fs,
        (
            "A tool call of kind `read` that reads the file (through the client if it supports "
            "that, in version 1) and shows its text; `a.txt has 10 characters in 1 lines.`",
            "A tool call of kind `edit` that writes TEXT and a line feed, and shows the diff; "
            "`a.txt is written.`",
        ),
    ),
    ScriptCommand(
        "terminal",
        "COMMAND…",
        "Run a command, without a shell",
        _terminal,
        "A tool call of kind `execute` that runs the command without a shell (in a terminal "
        "of the client if it supports that, in version 1) and shows its output; ``` `make` "
        "ended with status 0 and 12 characters of output.```",
    ),
)
