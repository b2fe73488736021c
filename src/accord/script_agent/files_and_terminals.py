"""Acts that work on files and run commands."""

from __future__ import annotations

import shlex
from pathlib import Path

from accord import RequestError, StartError, Turn
from accord.script_agent.command import ScriptCommand, UsageError

__all__ = ("COMMANDS",)


async def _fs(turn: Turn, rest: str) -> None:
    what, _, rest = rest.partition(" ")
    if what == "read" and rest:
        await _read(turn, rest)
    elif what == "write" and rest:
        path, _, text = rest.partition(" ")
        await _write(turn, path, text)
    else:
        raise UsageError("Expected `read PATH` or `write PATH TEXT`.")


async def _read(turn: Turn, path: str) -> None:
    where = str(Path(turn.session.cwd, path))
    async with turn.tool(f"Read {path}", kind="read", name="read_file", locations=[where]) as call:
        try:
            text = await turn.files.read(path)
        except (OSError, ValueError, RequestError) as error:
            await call.fail(f"It could not be read: {_error_reason(error)}.")
            await turn.say(f"{path} could not be read: {_error_reason(error)}.")
            return
        await call.add_content(text)
    await turn.say(f"{path} has {len(text)} characters in {len(text.splitlines())} lines.")


async def _write(turn: Turn, path: str, text: str) -> None:
    where = str(Path(turn.session.cwd, path))
    async with turn.tool(
        f"Write {path}", kind="edit", name="write_file", locations=[where]
    ) as call:
        try:
            await turn.files.write(path, f"{text}\n")
        except (OSError, RequestError) as error:
            await call.fail(f"It could not be written: {_error_reason(error)}.")
            await turn.say(f"{path} could not be written: {_error_reason(error)}.")
            return
    await turn.say(f"{path} is written.")


def _error_reason(error: Exception) -> str:
    """Say what went wrong, the same on every machine."""
    match error:
        case FileNotFoundError():
            return "it is not there"
        case PermissionError():
            return "that is not allowed"
        case RequestError():
            return f"the client says {error.code}"
        case UnicodeDecodeError():
            return "it is not text"
        case _:
            return "it is no file"


async def _terminal(turn: Turn, rest: str) -> None:
    try:
        argv = shlex.split(rest)
    except ValueError:
        raise UsageError("A quotation mark is not closed.") from None
    if not argv:
        raise UsageError("There is nothing to run.")
    try:
        ran = await turn.terminals.run(*argv)
    except (StartError, RequestError):
        await turn.say(f"`{argv[0]}` could not be started.")
        return
    end = f"signal {ran.signal}" if ran.signal else f"status {ran.exit_code}"
    await turn.say(f"`{argv[0]}` ended with {end} and {len(ran.output)} characters of output.")


COMMANDS = (
    ScriptCommand(
        "fs", "read PATH | write PATH TEXT", "reads or writes a file of the session", _fs
    ),
    ScriptCommand("terminal", "COMMAND…", "runs a command, without a shell", _terminal),
)
