"""What a tool call does for an agent: the user sees it, decides about it, and it is done."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from types import NoneType
from typing import TYPE_CHECKING, Any

from accord.agent.tool_call import BaseToolCall
from accord.errors import FileChanged
from accord.local.files import TooLarge
from accord.text.excerpt import visible
from accord.types.diffs import git_patch
from accord.types.must_await import must_await
from accord.types.tool_calls import Diff, ToolCallLocation, ToolContent, ToolKind
from accord.types.validation import require_type, require_types

if TYPE_CHECKING:
    from accord.agent.files import SessionFiles
    from accord.agent.terminals import CommandResult, SessionTerminals


_MAX_DIFF = 1_000_000  # characters of both texts; the patch of longer ones is shown as text
_MAX_PATCH = 200_000  # characters of that patch
_FENCES = re.compile(r"`{3,}")


class ToolCallActions(BaseToolCall):
    """A tool call with changes of files and commands; see `ToolCallHandle`."""

    session: Any  # the `Session`, whose module imports this one
    _has_done: bool = False  # a step that was allowed

    @must_await("call")
    async def edit(self, path: str, text: str, *, title: str | None = None) -> bool:
        """Give a file this text, or create it, if the user allows it; return whether it was done.

        The call becomes one of the kind `edit` and shows the change as a diff; then permission
        is asked as by `permission`, with `title` as the question. The client writes the file if
        it supports that. A file that has this text already is not asked about. Raises
        `FileChanged` if the file was changed in the meantime: nothing is written then. Otherwise
        raises what `files.read` and `files.write` raise.
        """
        require_type("edit(path=…)", path, str)
        require_type("edit(text=…)", text, str)
        require_type("edit(title=…)", title, str, NoneType)
        text.encode()  # half of a surrogate pair cannot be written
        files: SessionFiles = self.session.files
        old = await files.current(path)
        absolute = files.absolute(path)
        await self._describe("edit", absolute)
        if old == text:
            return True
        await self._show(await self._change(absolute, old, text))
        if not await self._permit_step(f"Edit {path}", title):
            return False
        async with self._step():
            await files.replace(path, old, text)
        return True

    @must_await("call")
    async def delete(self, path: str, *, title: str | None = None) -> bool:
        """Delete a file if the user allows it; return whether it was done.

        Does for a deletion what `edit` does for a change; the file is deleted on this machine.
        Raises `FileNotFoundError` for a missing file and `IsADirectoryError` for a directory.
        """
        require_type("delete(path=…)", path, str)
        require_type("delete(title=…)", title, str, NoneType)
        files: SessionFiles = self.session.files
        status = await files.status(path)
        absolute = files.absolute(path)
        old: str | None = None
        with suppress(UnicodeDecodeError, TooLarge):
            old = await files.current(path)
        await self._describe("delete", absolute)
        if old is None:  # a link without a target, too
            await self._show(f"{visible(absolute)}: {status.st_size:,} bytes that are not text")
        else:
            await self._show(await self._change(absolute, old, None))
        if not await self._permit_step(f"Delete {path}", title):
            return False
        async with self._step():
            await files.remove(path, status)
        return True

    @must_await("call")
    async def run(
        self,
        *argv: str,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float | None = None,
        title: str | None = None,
    ) -> CommandResult | None:
        """Run a command without a shell if the user allows it; return None if not.

        The call becomes one of the kind `execute` and shows the command line; then permission is
        asked as by `permission`, with `title` as the question. An "always" answer applies to
        this command line only. The command runs in a terminal of the client if it supports that,
        with its output shown as by `terminals.run`, which has the arguments and errors.
        """
        require_types("run(argv=…)", argv, str)
        if not argv:
            raise ValueError("run(…): expected a program and its arguments, got nothing")
        require_type("run(title=…)", title, str, NoneType)
        terminals: SessionTerminals = self.session.terminals
        folder = await terminals.folder(cwd)
        line = shlex.join(argv)
        await self._describe("execute", None, {"command": line, "cwd": folder})
        if self.title != line:
            await self._show(_fenced(line, "sh"))
        if not await self._permit_step(line, title, folder, *argv):
            return None
        async with self._step():
            return await terminals.run(*argv, cwd=folder, env=env, timeout_s=timeout_s)

    async def _describe(self, kind: ToolKind, path: str | None, raw_input: Any = None) -> None:
        """Report the kind, the path and the raw input of what will be done."""
        if self.final_status_sent:
            raise RuntimeError("The tool call has ended; make another one")
        changes: dict[str, Any] = {}
        if self.kind != kind:
            changes["kind"] = kind
        if path is not None and all(place.path != path for place in self.locations):
            changes["locations"] = [*self.locations, ToolCallLocation(path)]
        if raw_input is None and self.kind == "execute":
            raw_input = {"path": path}  # no longer the command of an earlier step
        if raw_input is not None and self.raw_input != raw_input:
            changes["raw_input"] = raw_input
        if changes:
            await self.update(**changes)

    async def _permit_step(self, step: str, title: str | None, *command: str) -> bool:
        """Ask about a step of this call; if it is denied after others, say so."""
        if await self._permit(title or (step if self._has_done else None), None, command):
            return True
        if self._has_done:
            self._permission_denied = False
            await self._show(f"\nNot allowed: {visible(step)}\n")
        return False

    @asynccontextmanager
    async def _step(self) -> AsyncGenerator[None, None]:
        """Do what was allowed; show why a file was left as it is."""
        try:
            yield
        except FileChanged as error:
            await self._show(f"\n{visible(error.message)}\n")
            raise
        self._has_done = True

    async def _change(self, path: str, old: str | None, new: str | None) -> ToolContent:
        """Return a change as a diff; of large texts, the changed lines as text."""
        size = len(old or "") + len(new or "")
        if size <= _MAX_DIFF:
            self._diffs.append(diff := Diff(path, old, new))
            return diff
        patch = await asyncio.to_thread(git_patch, path, old, new)
        shown = patch[:_MAX_PATCH]
        more = patch.count("\n") - shown.count("\n")
        rest = f"\n{more:,} more lines of the change are not shown.\n" if more else ""
        return f"{_fenced(shown, 'diff')}{rest}"


def _fenced(text: str, language: str) -> str:
    """Return text as a code block of Markdown, without characters that hide others."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{visible(text).rstrip()}\n{fence}\n"
