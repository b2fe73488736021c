"""Tools for the editor's files and terminals, as functions that any framework can give a model.

Files are read with unsaved changes, changes are shown as diffs, commands run in terminals that the
user sees. What changes anything asks for permission first.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from accord_bridges.run import Run

EditorTool: TypeAlias = Callable[..., Awaitable[str]]

_MAX_OUTPUT = 30_000  # characters of a command's output that the model gets


def editor_tools(run: Run) -> list[EditorTool]:
    """Return `read_file`, `write_file` and `run_command` for the models of a turn.

    Their calls are shown by themselves: what the framework reports of them is not shown again.
    They return text for the model, also if something fails or is not allowed.
    """
    turn = run.turn
    run.shown_elsewhere.update(("read_file", "write_file", "run_command"))

    async def read_file(path: str, line: int = 1, limit: int = 0) -> str:
        """Read a text file of the project, with the unsaved changes of the editor.

        Args:
            path: The path of the file, relative to the project or absolute.
            line: The first line to read, counted from 1.
            limit: The number of lines to read; 0 for all.
        """
        at = turn.files.absolute(path)
        async with turn.tool(
            f"Read {path}", kind="read", name="read_file", locations=[at], raw_input={"path": path}
        ) as call:
            try:
                return await turn.files.read(
                    path, line=line if line > 1 else None, limit=limit or None
                )
            except Exception as error:  # noqa: BLE001  # the model gets the reason
                await call.fail(str(error))
                return f"Error: {error}"

    async def write_file(path: str, text: str) -> str:
        """Write a text file of the project, if the user allows it.

        Args:
            path: The path of the file, relative to the project or absolute.
            text: The whole new content of the file.
        """
        async with turn.tool(f"Edit {path}", kind="edit", name="write_file") as call:
            try:
                done = await call.edit(path, text)
            except Exception as error:  # noqa: BLE001  # as above
                await call.fail(str(error))
                return f"Error: {error}"
        return f"Wrote {path}" if done else "The user does not allow this."

    async def run_command(command: str) -> str:
        """Run a command line of the shell in the project, if the user allows it.

        Args:
            command: The command line.
        """
        argv = ("cmd", "/c", command) if os.name == "nt" else ("sh", "-c", command)
        async with turn.tool(command, kind="execute", name="run_command") as call:
            try:
                result = await call.run(*argv, title=command)
            except Exception as error:  # noqa: BLE001  # as above
                await call.fail(str(error))
                return f"Error: {error}"
            if result is None:
                return "The user does not allow this."
            if not result.ok:
                await call.fail()
        output = result.output[-_MAX_OUTPUT:]
        ended = f"exit code {result.exit_code}" if result.signal is None else result.signal
        return output if result.ok else f"{output}\n({ended})"

    return [read_file, write_file, run_command]
