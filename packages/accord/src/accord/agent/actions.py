"""What a turn, a session and a tool call do for an agent: the methods that they have in common."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import (
    AsyncGenerator,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from accord.agent.tool_call import BaseToolCall
from accord.agent.updates import (
    CommandsUpdate,
    ContextUsageUpdate,
    MessageRole,
    NoticeUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
)
from accord.errors import FileChanged
from accord.local.files import TooLarge
from accord.text.excerpt import visible
from accord.types.content import (
    ContentBlock,
)
from accord.types.diffs import git_patch
from accord.types.must_await import (
    log_not_awaited,
    mark_coroutine_function,
    must_await,
    not_awaited,
)
from accord.types.session import (
    AvailableCommand,
    ContextUsage,
    Cost,
    PlanEntry,
)
from accord.types.tool_calls import (
    Diff,
    ToolCallLocation,
    ToolContent,
    ToolKind,
)
from accord.types.validation import require_name, require_type, require_types

if TYPE_CHECKING:
    from accord.agent.files_and_terminals import CommandResult, SessionFiles, SessionTerminals
    from accord.agent.session_core import SessionCore
    from accord.agent.toolbox import CompactionHandle, PlanHandle, Toolbox, UrlElicitation

# What a turn and a session can show and ask, apart from tool calls and subagents.

F = TypeVar("F", bound=Struct)

_DONE: Iterator[Any] = iter(())  # exhausted: awaiting it takes no time

_CALLS: dict[MessageRole, str] = {"agent": "turn.say(…)", "thought": "turn.think(…)"}


class _WriteChunk(Struct, eq=False):
    """A chunk of a message, sent when it is awaited; otherwise as `MustAwait`.

    Agents stream many chunks, so it is a Struct, which is created in less time, and has no
    coroutine unless something other than `await` needs it.
    """

    core: SessionCore
    role: MessageRole
    content: ContentBlock
    meta: dict[str, Any] | None
    begun: bool = False
    work: Coroutine[Any, Any, None] | None = None

    def __await__(self) -> Any:
        self.begun = True
        core = self.core
        stream = core.stream
        if (
            stream is not None
            and stream.role is self.role
            and type(self.content) is str
            and self.meta is None
        ):
            must_wait = stream.send(self.content)
            if must_wait is False:
                return _DONE
            if must_wait:
                return stream.wait().__await__()
        return core.add_to_message(self.role, self.content, self.meta).__await__()

    def _begin(self) -> Coroutine[Any, Any, None]:
        self.begun = True
        if self.work is None:
            self.work = self.core.add_to_message(self.role, self.content, self.meta)
        return self.work

    def send(self, value: Any) -> Any:
        return self._begin().send(value)

    def throw(self, *error: Any) -> Any:
        return self._begin().throw(*error)

    def close(self) -> None:
        self.begun = True
        if self.work is not None:
            self.work.close()

    def __bool__(self) -> bool:
        raise not_awaited(_CALLS[self.role])

    def __del__(self) -> None:
        if not self.begun:
            log_not_awaited(_CALLS[self.role], self.core)


Coroutine.register(_WriteChunk)  # type: ignore[attr-defined]  # it is an ABC, unlike its stub


class SessionActions:
    """Shows and asks, in the version that the client speaks."""

    _core: SessionCore
    _toolbox: type[Toolbox]

    @mark_coroutine_function
    def say(
        self, content: ContentBlock, *, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Append to the message to the user; waits while the client reads slower.

        `meta` is sent as the `_meta` of the update; it is not stored.
        """
        return _WriteChunk(self._core, "agent", content, meta)  # type: ignore[return-value]  # registered

    @mark_coroutine_function
    def think(
        self, content: ContentBlock, *, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Append to the agent's thoughts, which clients may show apart; `meta` as in `say`."""
        return _WriteChunk(self._core, "thought", content, meta)  # type: ignore[return-value]  # as above

    def start_new_message(self) -> None:
        """Let the next `say` or `think` start a new message."""
        self._core.end_message()

    @must_await("turn")
    async def plan(
        self, entries: Iterable[str | PlanEntry], *, plan_id: str = "main"
    ) -> PlanHandle:
        """Show a plan, which replaces the one with this id; return it, to update its entries."""
        require_type("plan(plan_id=…)", plan_id, str)
        plan = self._toolbox.plan(self._core, plan_id)
        await plan.replace(entries)
        return plan

    @must_await("turn")
    async def plan_markdown(self, text: str, *, plan_id: str = "main") -> PlanHandle:
        """Show a plan written as Markdown, which replaces the one with this id (unstable).

        Clients that do not support it receive each line as an entry (version 1: clients without
        the `plan` capability). Returns the plan, to remove it or to give it entries.
        """
        require_type("plan_markdown(text=…)", text, str)
        require_type("plan_markdown(plan_id=…)", plan_id, str)
        await self._core.publish(PlanMarkdownUpdate(plan_id, text))
        return self._toolbox.plan(self._core, plan_id)

    @must_await("turn")
    async def plan_file(self, uri: str, *, plan_id: str = "main") -> PlanHandle:
        """Show a plan that is in a file, which replaces the one with this id (unstable).

        Clients that do not support it receive an entry with the URI; otherwise as
        `plan_markdown`.
        """
        require_type("plan_file(uri=…)", uri, str)
        require_type("plan_file(plan_id=…)", plan_id, str)
        await self._core.publish(PlanFileUpdate(plan_id, uri))
        return self._toolbox.plan(self._core, plan_id)

    @must_await("turn")
    async def show_notice(
        self,
        title: str,
        *,
        severity: Literal["info", "warning", "error"] | str = "info",
        description: str | None = None,
    ) -> None:
        """Show a notice outside the conversation. The user may overlook it.

        A client of version 1 that does not support notices receives it as a message.
        """
        require_type("show_notice(title=…)", title, str)
        require_name("show_notice(severity=…)", severity, ("info", "warning", "error"))
        require_type("show_notice(description=…)", description, str, NoneType)
        if not title:
            raise ValueError("The title of a notice must not be empty")  # R-NOTICE-02
        core = self._core
        if core.client_adapter.shows_notices:
            await core.publish(NoticeUpdate(severity, title, description))
            return
        core.end_message()
        text = title if description is None else f"{title}\n\n{description}"
        await core.add_to_message("agent", text)
        core.end_message()

    def compaction(self) -> CompactionHandle:
        """Return a compaction to enter while the model's context is being shortened.

        A client of version 1 that does not support compactions receives nothing.
        """
        return self._toolbox.compaction(self._core)

    @property
    def terminals(self) -> SessionTerminals:
        """Runs commands."""
        return self._toolbox.terminals(self._core)

    @must_await("turn")
    async def elicit_form(self, form: type[F], message: str) -> F | None:
        """Ask the user to fill in a form with one field for each field of a msgspec Struct.

        Fields are str, int, float, bool, a Literal of strings or a list of those; `Meta` limits
        their values. Returns None if the user does not answer; raises `NotOffered` if the client
        does not support forms. Never ask for secrets in a form: see `elicit_url`.
        """
        require_type("elicit_form(form=…)", form, type)
        require_type("elicit_form(message=…)", message, str)
        return await self._toolbox.elicit_form(self._core, form, message)

    @must_await("turn")
    async def elicit_url(self, url: str, message: str) -> UrlElicitation | None:
        """Ask the user to open a web page; return None if they do not agree.

        The user has only agreed when this returns: call `done` on the result once the page
        reports completion. Raises `NotOffered` if the client does not open pages.
        """
        require_type("elicit_url(url=…)", url, str)
        require_type("elicit_url(message=…)", message, str)
        return await self._toolbox.elicit_url(self._core, url, message)

    @must_await("turn")
    async def set_context_usage(self, used: int, size: int, *, cost: Cost | None = None) -> None:
        """Report how full the model's context is, in tokens."""
        await self._core.publish(ContextUsageUpdate(ContextUsage(used, size, cost)))

    @must_await("turn")
    async def set_title(self, title: str) -> None:
        """Set the title of the session; a title that the user has set stays."""
        require_type("set_title(title=…)", title, str)
        await self._core.set_title(title)

    @must_await("turn")
    async def set_commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Replace the commands that the user can type after a slash."""
        core = self._core
        core.commands = tuple(require_types("set_commands(commands=…)", commands, AvailableCommand))
        if core.is_open:
            await core.publish(CommandsUpdate(core.commands))

    @must_await("turn")
    async def call_extension(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send the client a request whose method begins with an underscore (R-EXT-04).

        `sessionId` is added to the params. Returns the result as JSON; raises `RequestError`
        for an error response: -32601 if the client does not support the method.
        """
        core = self._core
        require_type("call_extension(method=…)", method, str)
        require_type("call_extension(params=…)", params, Mapping, NoneType)
        await core.flush()
        return await core.client_adapter.call_extension(
            method, {"sessionId": core.id, **(params or {})}
        )

    @must_await("turn")
    async def notify_extension(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification whose method begins with an underscore (R-EXT-04).

        `sessionId` is added to the params; a client that does not know the method ignores it.
        """
        core = self._core
        require_type("notify_extension(method=…)", method, str)
        require_type("notify_extension(params=…)", params, Mapping, NoneType)
        await core.flush()
        await core.client_adapter.notify_extension(method, {"sessionId": core.id, **(params or {})})


# What a tool call does for an agent: the user sees it, decides about it, and it is done.

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
