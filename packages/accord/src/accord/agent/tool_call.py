"""A tool call: shown from its start to its final status, whatever happens in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextvars import ContextVar, Token
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.updates import PermissionQuestion, ToolCallUpdate, ToolContentUpdate
from accord.agent.work import CancelScope, TurnState, WorkCancelled
from accord.connection.tasks import is_stopped
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock, require_content, require_contents
from accord.types.must_await import must_await
from accord.types.permission import PermissionOption
from accord.types.tool_calls import (
    TOOL_KINDS,
    Diff,
    TerminalView,
    ToolCallLocation,
    ToolContent,
    ToolKind,
    ToolStatus,
)
from accord.types.validation import require_name, require_type, require_types
from accord.wire.codec import encode

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore

_FINAL_STATUSES = ("completed", "failed", "cancelled")

_DEFAULT_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
    PermissionOption("reject_always", "Always reject", "reject_always"),
)

_KINDS = tuple(option.kind for option in _DEFAULT_OPTIONS)
_COMMAND_OPTIONS = tuple(
    replace(option, name=f"{option.name} this command") if option.is_remembered else option
    for option in _DEFAULT_OPTIONS
)
# By kind: the call that shows what the user decides about.
_SAFE_CALLS = {
    "edit": "await call.edit(path, text)",
    "delete": "await call.delete(path)",
    "execute": "await call.run(program, …)",
}
_MAX_REPEATED = 32  # items of content that a permission request repeats
_warned: list[str] = []  # the title of the request that the log warns of, once in this process

log: logging.Logger = logging.getLogger("accord.agent")

CallT = TypeVar("CallT", bound="BaseToolCall")

# The innermost call whose block this code runs in, with its session.
_current: ContextVar[tuple[SessionCore, BaseToolCall] | None] = ContextVar(
    "accord.agent.tool_call", default=None
)


def current_tool_call(core: SessionCore) -> BaseToolCall | None:
    """Return the tool call of this session whose block the caller is in."""
    current = _current.get()
    return current[1] if current is not None and current[0] is core else None


class BaseToolCall:
    """A tool call without its public session; see `ToolCallHandle`."""

    def __init__(
        self,
        core: SessionCore,
        turn: TurnState | None,
        title: str,
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | ToolCallLocation] = (),
        raw_input: Any = None,
        cancellable: bool = False,
    ) -> None:
        require_type("tool(title=…)", title, str)
        require_name("tool(kind=…)", kind, TOOL_KINDS)
        require_type("tool(name=…)", name, str, NoneType)
        self._core = core
        self._turn = turn
        self.id: str = core.next_id("tool")
        """The id of the tool call."""
        self.title: str = title
        """What the user sees as its title."""
        self.kind: ToolKind = kind
        """The kind of the tool, by which clients choose an icon."""
        self.name = name
        self.locations: tuple[ToolCallLocation, ...] = _locations("tool(locations=…)", locations)
        self.raw_input: Any = raw_input
        self.status: ToolStatus = "pending"
        """The status that was last sent."""
        self.cancellable = cancellable
        self.is_asking = False
        self.final_status_sent = False
        self._scope = CancelScope()
        self._permission_denied = False  # and nothing has been done since
        self._diffs: list[Diff] = []
        # What the user can see; None for much content and for streams.
        self._content: list[ToolContent] | None = []
        self._has_begun = False
        self._token: Token[tuple[SessionCore, BaseToolCall] | None] | None = None

    async def __aenter__(self: CallT) -> CallT:
        await self._enter()
        return self

    @must_await("call")
    async def begin(self) -> None:
        """Show the call without a block, for work that is reported by events; `end` ends it.

        Then files and terminals that are used do not belong to the call, and it cannot be
        cancelled individually.
        """
        await self._show_new()
        await self._notify_background()

    @must_await("call")
    async def end(self, status: Literal["completed", "failed", "cancelled"] = "completed") -> None:
        """End a call that `begin` has begun, unless it has ended."""
        require_name("end(status=…)", status, _FINAL_STATUSES)
        try:
            if self.status not in _FINAL_STATUSES and not self._core.closed:
                await self._report(status=status)
        finally:
            self._core.open_tool_calls.pop(self.id, None)

    async def _enter(self) -> None:
        await self._show_new()
        core = self._core
        self._token = _current.set((core, self))
        self._scope.enter()
        try:
            await self._notify_background()
        except BaseException as exc:
            await self.__aexit__(type(exc), exc, None)
            raise

    async def _show_new(self) -> None:
        core = self._core
        if self._has_begun:
            raise RuntimeError("A tool call is entered once; make another one")
        core.end_message()
        try:
            await core.publish(
                ToolCallUpdate(
                    id=self.id,
                    is_new=True,
                    title=self.title,
                    name=UNSET if self.name is None else self.name,
                    kind=self.kind,
                    status="pending",
                    locations=self.locations or UNSET,
                    raw_input=UNSET if self.raw_input is None else self.raw_input,
                    cancellable=self.cancellable or UNSET,
                )
            )
        except TypeError:
            _require_json("raw_input", self.raw_input)
            raise
        core.open_tool_calls[self.id] = self
        self._has_begun: bool = True

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
        cancelled_alone = await self._scope.leave(error)
        try:
            if self.status not in _FINAL_STATUSES and not self._core.closed:
                status = "cancelled" if cancelled_alone else self._final_status(error)
                await self._report(status=status)
        finally:
            self._core.open_tool_calls.pop(self.id, None)
        if cancelled_alone:
            raise WorkCancelled(self.title) from None

    def _final_status(self, error: BaseException | None) -> ToolStatus:
        if isinstance(error, asyncio.CancelledError) or is_stopped():
            return "cancelled"
        if error is not None:
            return "failed"
        return "cancelled" if self._permission_denied else "completed"

    # Cancelling.

    @property
    def is_in_background(self) -> bool:
        """Whether it runs in the background of its session, outside any turn."""
        return self._turn is None or self._turn.is_over

    def cancel(self) -> None:
        """Cancel the block. Has no effect once the block has ended."""
        self._scope.cancel()

    # Updates.

    @must_await("call")
    async def start(self) -> None:
        """Report that the call is in progress, unless it is."""
        self._permission_denied = False
        if self.status in ("pending", "paused"):
            await self._report(status="in_progress")
            await self._core.update_state()

    @must_await("call")
    async def pause(self) -> None:
        """Report that the call waits for something; whatever it does next resumes it.

        Version 1 has no such status: there it stays in progress.
        """
        await self.start()
        await self._report(status="paused")

    @must_await("call")
    async def add_content(self, *items: ToolContent) -> None:
        """Append content: text, images, diffs, terminals."""
        require_contents("add_content(items=…)", items, Diff, TerminalView)
        await self.start()
        await self._show(*items)

    async def _show(self, *items: ToolContent) -> None:
        """Append content without starting the call: the user is asked about it first."""
        if self._content is not None:
            self._content = _if_few([*self._content, *items])
        for item in items:
            await self._core.publish(ToolContentUpdate(self.id, item))

    @must_await("call")
    async def replace_content(self, *items: ToolContent) -> None:
        """Replace all content."""
        require_contents("replace_content(items=…)", items, Diff, TerminalView)
        await self.start()
        self._content = _if_few([*items])
        await self._report(content=tuple(items))

    @must_await("call")
    async def append_text(self, text: str) -> None:
        """Append to the text that is shown, as it arrives."""
        if type(text) is not str:
            require_type("append_text(text=…)", text, str)
        await self.start()
        self._content = None
        await self._core.publish(ToolContentUpdate(self.id, text, continues=True))

    @must_await("call")
    async def add_diff(self, path: str, old: str | None, new: str | None) -> None:
        """Show a change of a file; None is the content of a file that does not exist.

        A change that was shown before permission was asked is not shown again when it is made.
        """
        change = Diff(path, old, new)
        if change not in self._diffs:
            self._diffs.append(change)
            await self.add_content(change)

    @must_await("call")
    async def add_terminal(self, terminal_id: str) -> None:
        """Show a terminal, with its output as it arrives."""
        await self.add_content(TerminalView(terminal_id))

    @must_await("call")
    async def set_raw_output(self, raw_output: Any) -> None:
        """Report what the tool returned, as JSON."""
        await self.start()
        await self._report(raw_output=raw_output)

    @must_await("call")
    async def update(
        self,
        *,
        title: str | None = None,
        kind: ToolKind | None = None,
        locations: Iterable[str | ToolCallLocation] | None = None,
        raw_input: Any = None,
    ) -> None:
        """Change what was reported at the start."""
        require_type("update(title=…)", title, str, NoneType)
        if kind is not None:
            require_name("update(kind=…)", kind, TOOL_KINDS)
        changes: dict[str, Any] = {}
        if title is not None:
            self.title = changes["title"] = title
        if kind is not None:
            self.kind = changes["kind"] = kind
        if locations is not None:
            self.locations = changes["locations"] = _locations("update(locations=…)", locations)
        if raw_input is not None:
            self.raw_input = changes["raw_input"] = raw_input
        await self._report(**changes)

    @must_await("call")
    async def fail(self, content: ContentBlock | None = None) -> None:
        """End as failed, with content that explains it; later updates are not sent."""
        if content is not None:
            await self.add_content(content)
        await self._report(status="failed")

    @must_await("call")
    async def deny(self, content: ContentBlock | None = None, *, raw_output: Any = None) -> None:
        """End as not allowed, with content that explains it: nothing was done, nothing failed.

        Version 2 shows it as cancelled; version 1, which has no such status, as failed.
        """
        if content is not None:
            require_content("deny(content=…)", content)
            await self._core.publish(ToolContentUpdate(self.id, content))
        changes: dict[str, Any] = {} if raw_output is None else {"raw_output": raw_output}
        await self._report(status="cancelled", **changes)

    async def _report(self, **changes: Any) -> None:
        self._require_entered()
        self.status = changes.get("status", self.status)
        is_final = self.status in _FINAL_STATUSES
        if is_final and self.cancellable and not self.final_status_sent:
            changes["cancellable"] = False  # R-TCAN-03
        try:
            await self._core.publish(ToolCallUpdate(id=self.id, **changes))
        except TypeError:
            for name in ("raw_input", "raw_output"):
                _require_json(name, changes.get(name))
            raise
        if is_final and not self.final_status_sent:
            self.final_status_sent: bool = True
            await self._notify_background()

    def _require_entered(self) -> None:
        if not self._has_begun:
            raise RuntimeError("The tool call has not begun; enter it with `async with`")

    async def _notify_background(self) -> None:
        if self.is_in_background:
            await self._core.notify_background()  # R-BGW-03

    # Permission.

    @must_await("call")
    async def permission(self, title: str | None = None, *, description: str | None = None) -> bool:
        """Ask the user for permission; an "always" answer applies to the session.

        It applies to calls of the same name and kind. The user is not asked if the agent's
        `decide_permission` decides. The user sees the content and the raw input of the call, so
        add them first; `edit`, `delete` and `run` do that and what is allowed. Raises
        `CancelledError` if the turn is cancelled before the user answers.
        """
        require_type("permission(title=…)", title, str, NoneType)
        require_type("permission(description=…)", description, str, NoneType)
        return await self._permit(title, description)

    async def _permit(
        self, title: str | None, description: str | None, command: Sequence[str] = ()
    ) -> bool:
        """Do what `permission` does; "always" applies to this command only, if there is one."""
        memory = self._core.permission_memory
        key = (self.name or "", str(self.kind), *command)
        allowed = memory.get(key)
        if allowed is None:
            allowed = await self._core.decide_permission(self)
        if allowed is None:
            options = _COMMAND_OPTIONS if command else _DEFAULT_OPTIONS
            chosen = await self.request_choice(options, title=title, description=description)
            allowed = chosen is not None and chosen.allows
            if chosen is not None and chosen.is_remembered:
                memory[key] = allowed
        if allowed:
            await self.start()
        else:
            self._permission_denied = True
        return allowed

    @must_await("call")
    async def request_choice(
        self,
        options: Iterable[PermissionOption],
        *,
        title: str | None = None,
        description: str | None = None,
    ) -> PermissionOption | None:
        """Ask the user to choose one of these options; return None if none was chosen.

        Raises `CancelledError` if the turn is cancelled before the user answers, and
        `ValueError` if `options` is empty or two options have one id.
        """
        self._require_entered()
        core = self._core
        require_type("request_choice(title=…)", title, str, NoneType)
        require_type("request_choice(description=…)", description, str, NoneType)
        offered = tuple(require_types("request_choice(options=…)", options, PermissionOption))
        for option in offered:
            require_name(f"PermissionOption({option.id!r}, kind=…)", option.kind, _KINDS)
        by_id = {option.id: option for option in offered}
        if not by_id or len(by_id) < len(offered):
            raise ValueError("options must not be empty, and their ids must be unique")
        if self._content == [] and self.raw_input is None:
            self._warn_of_unseen()
        self.is_asking = True
        try:
            async with core.waiting_for_user(detached=self.is_in_background):
                question = PermissionQuestion(
                    title=title or self.title,
                    description=description,
                    options=offered,
                    tool=self._state(),
                )
                chosen = await core.client_adapter.request_permission(core.id, question)
        finally:
            self.is_asking: bool = False
        if chosen is None and core.client_adapter.cancelled_permission_cancels_turn:
            if self._turn is not None and not self.is_in_background:
                self._turn.cancelled = True
            raise asyncio.CancelledError
        return None if chosen is None else by_id.get(chosen)  # R-PERM-05, R-PERM-14

    def _state(self) -> ToolCallUpdate:
        """Return the call for a request about it: a client may show the request alone."""
        return ToolCallUpdate(
            id=self.id,
            title=self.title,
            kind=self.kind,
            status=self.status,
            content=tuple(self._content) if self._content else UNSET,
            locations=self.locations or UNSET,
            raw_input=UNSET if self.raw_input is None else self.raw_input,
        )

    def _warn_of_unseen(self) -> None:
        """Warn, once in this process, that the user cannot see what is allowed."""
        kind = str(self.kind)
        if kind not in _SAFE_CALLS or _warned:
            return
        _warned.append(self.title)
        log.warning(
            "! the permission request %r of the kind %s has no content and no raw input, so the"
            " user cannot see what is allowed: use `%s`, which shows it, asks and does it, or add"
            " content or `raw_input` before you ask",
            excerpt(self.title, 60),
            kind,
            _SAFE_CALLS[kind],
        )


def _require_json(name: str, value: Any) -> None:
    """Raise `TypeError` for a value that JSON cannot represent."""
    try:
        encode(value)
    except TypeError as exc:
        raise TypeError(f"{name}: expected what JSON can hold: {exc}") from exc


def _if_few(items: list[ToolContent]) -> list[ToolContent] | None:
    return items if len(items) <= _MAX_REPEATED else None


def _locations(
    where: str, locations: Iterable[str | ToolCallLocation]
) -> tuple[ToolCallLocation, ...]:
    checked = require_types(where, locations, str, ToolCallLocation)
    return tuple(ToolCallLocation(at) if isinstance(at, str) else at for at in checked)
