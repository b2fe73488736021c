"""A tool call: shown from its beginning to its end, whatever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord.agent.background import CancelScope, WorkCancelled
from accord.agent.client_adapter import PermissionQuestion
from accord.agent.updates import ToolCallUpdate, ToolContentUpdate
from accord.connection.tasks import is_stopped
from accord.types.awaited import must_await
from accord.types.content import ContentBlock, require_content, require_contents
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
    from accord.agent.session_actions import SessionActions

__all__ = ("ToolCallHandle", "current_tool_call")

_FINAL_STATUSES = ("completed", "failed", "cancelled")

_DEFAULT_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
    PermissionOption("reject_always", "Always reject", "reject_always"),
)

_KINDS = tuple(option.kind for option in _DEFAULT_OPTIONS)

_current: ContextVar[ToolCallHandle | None] = ContextVar("accord.agent.tool_call", default=None)


def current_tool_call(session: object) -> ToolCallHandle | None:
    """Return the tool call of this session that the caller is in."""
    call = _current.get()
    return call if call is not None and call.session is session else None


class ToolCallHandle:
    """A tool call, to enter with `async with`.

    It is pending until something happens in it, then in progress. Leaving the block completes
    it; an exception fails it, a cancel cancels it, and so does leaving it after a refusal
    without having done anything since. A `cancellable` one may be stopped while the turn goes
    on: leaving the block then raises `WorkCancelled`.
    """

    def __init__(
        self,
        owner: SessionActions,
        title: str,
        *,
        kind: ToolKind,
        name: str | None,
        locations: Iterable[str | ToolCallLocation],
        raw_input: Any,
        cancellable: bool = False,
        in_background: bool = False,
    ) -> None:
        require_type("tool(title=…)", title, str)
        require_name("tool(kind=…)", kind, TOOL_KINDS)
        require_type("tool(name=…)", name, str, NoneType)
        self.owner = owner
        self._turn = None if in_background else owner.turn_here
        self.session = owner.session
        self.id = self.session.next_id("tool")
        self.title = title
        self.kind: ToolKind = kind
        self.name = name
        self.locations = _locations("tool(locations=…)", locations)
        self.raw_input = raw_input
        self.status: ToolStatus = "pending"
        self.cancellable = cancellable
        self.is_asking = False
        self.final_status_sent = False  # the client has been told of a final status
        self._scope = CancelScope()
        self._permission_denied = False  # and nothing has been done since
        self._diffs: list[Diff] = []
        self._token: Token[ToolCallHandle | None] | None = None

    async def __aenter__(self) -> ToolCallHandle:
        session = self.session
        if self._token is not None:
            raise RuntimeError("A tool call is entered once; make another one")
        session.end_message()
        try:
            await session.publish(
                ToolCallUpdate(
                    id=self.id,
                    begins=True,
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
        session.open_tool_calls[self.id] = self
        self._token = _current.set(self)
        self._scope.enter()
        try:
            await self._notify_background()
        except BaseException as exc:
            await self.__aexit__(type(exc), exc, None)
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
        alone = await self._scope.leave(error)
        try:
            if self.status not in _FINAL_STATUSES and not self.session.closed:
                await self._report(status="cancelled" if alone else self._final_status(error))
        finally:
            self.session.open_tool_calls.pop(self.id, None)
        if alone:
            raise WorkCancelled(self.title) from None

    def _final_status(self, error: BaseException | None) -> ToolStatus:
        if isinstance(error, asyncio.CancelledError) or is_stopped():
            return "cancelled"
        if error is not None:
            return "failed"
        return "cancelled" if self._permission_denied else "completed"

    # How it is stopped.

    @property
    def is_in_background(self) -> bool:
        """Whether it goes on in the background of its session, beside any turn."""
        return self._turn is None or self._turn.is_over

    def cancel(self) -> None:
        """Stop what runs in the block; a cancel that it is too late for does nothing."""
        self._scope.cancel()

    # What it says.

    @must_await("call")
    async def start(self) -> None:
        """Say that it is in progress, unless it has been said."""
        self._permission_denied = False
        if self.status in ("pending", "paused"):
            await self._report(status="in_progress")
            await self.session.update_state()

    @must_await("call")
    async def pause(self) -> None:
        """Say that it waits for something to go on; whatever it does next resumes it.

        Version 1 has no word for it: there it stays in progress.
        """
        await self.start()
        await self._report(status="paused")

    @must_await("call")
    async def add_content(self, *items: ToolContent) -> None:
        """Show more: text, images, diffs, terminals."""
        require_contents("add_content(items=…)", items, Diff, TerminalView)
        await self.start()
        for item in items:
            await self.session.publish(ToolContentUpdate(self.id, item))

    @must_await("call")
    async def replace_content(self, *items: ToolContent) -> None:
        """Show this in place of everything so far."""
        require_contents("replace_content(items=…)", items, Diff, TerminalView)
        await self.start()
        await self._report(content=tuple(items))

    @must_await("call")
    async def append_text(self, text: str) -> None:
        """Add text to what is shown, as it comes."""
        if type(text) is not str:
            require_type("append_text(text=…)", text, str)
        await self.start()
        await self.session.publish(ToolContentUpdate(self.id, text, goes_on=True))

    @must_await("call")
    async def add_diff(self, path: str, old: str | None, new: str | None) -> None:
        """Show a change of a file; None stands for a file that is not there.

        A change that was shown before permission was asked is not shown again when it is made.
        """
        change = Diff(path, old, new)
        if change not in self._diffs:
            self._diffs.append(change)
            await self.add_content(change)

    @must_await("call")
    async def add_terminal(self, terminal_id: str) -> None:
        """Show a terminal, whose output goes on to show by itself."""
        await self.add_content(TerminalView(terminal_id))

    @must_await("call")
    async def set_raw_output(self, raw_output: Any) -> None:
        """Tell what the tool returned, as JSON."""
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
        """Correct what was said at the beginning."""
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
        """End as failed, showing why; what comes after is not reported."""
        if content is not None:
            await self.add_content(content)
        await self._report(status="failed")

    @must_await("call")
    async def deny(self, content: ContentBlock | None = None, *, raw_output: Any = None) -> None:
        """End as not allowed, showing why: nothing of it was done, nothing broke.

        Version 2 shows it as cancelled, version 1, which has no word for that, as failed.
        """
        if content is not None:
            require_content("deny(content=…)", content)
            await self.session.publish(ToolContentUpdate(self.id, content))
        told: dict[str, Any] = {} if raw_output is None else {"raw_output": raw_output}
        await self._report(status="cancelled", **told)

    async def _report(self, **changes: Any) -> None:
        self._require_entered()
        self.status = changes.get("status", self.status)
        ends = self.status in _FINAL_STATUSES
        if ends and self.cancellable and not self.final_status_sent:
            changes["cancellable"] = False  # R-TCAN-03
        try:
            await self.session.publish(ToolCallUpdate(id=self.id, **changes))
        except TypeError:
            for name in ("raw_input", "raw_output"):
                _require_json(name, changes.get(name))
            raise
        if ends and not self.final_status_sent:
            self.final_status_sent = True
            await self._notify_background()

    def _require_entered(self) -> None:
        if self._token is None:
            raise RuntimeError("The tool call has not begun; enter it with `async with`")

    async def _notify_background(self) -> None:
        if self.is_in_background:
            await self.session.background_work.notify_if_changed()  # R-BGW-03

    # Permission.

    @must_await("call")
    async def permission(self, title: str | None = None, *, description: str | None = None) -> bool:
        """Ask the user whether to go on; answers for always hold for the session.

        The user is not asked what the agent's `decide_permission` decides. Raises
        `CancelledError` when the turn
        is cancelled meanwhile.
        """
        require_type("permission(title=…)", title, str, NoneType)
        require_type("permission(description=…)", description, str, NoneType)
        session = self.session
        key = self.name or str(self.kind)
        allowed = session.permission_memory.get(key)
        if allowed is None:
            allowed = await session.agent.decide_permission(self)
        if allowed is None:
            chosen = await self.request_choice(
                _DEFAULT_OPTIONS, title=title, description=description
            )
            allowed = chosen is not None and chosen.allows
            if chosen is not None and chosen.is_remembered:
                session.permission_memory[key] = allowed
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
        """Ask the user to choose one of these options; None means that none was chosen.

        Raises `CancelledError` when the turn is cancelled meanwhile, and `ValueError` for
        options that are none, or that share an id.
        """
        self._require_entered()
        session = self.session
        require_type("request_choice(title=…)", title, str, NoneType)
        require_type("request_choice(description=…)", description, str, NoneType)
        offered = tuple(require_types("request_choice(options=…)", options, PermissionOption))
        for option in offered:
            require_name(f"PermissionOption({option.id!r}, kind=…)", option.kind, _KINDS)
        by_id = {option.id: option for option in offered}
        if not by_id or len(by_id) < len(offered):
            raise ValueError("Options need to be at least one, each with an id of its own")
        question = PermissionQuestion(
            title=title or self.title,
            description=description,
            options=offered,
            tool=ToolCallUpdate(id=self.id, title=self.title, kind=self.kind, status=self.status),
        )
        self.is_asking = True
        try:
            async with session.waiting_for_user(detached=self.is_in_background):
                chosen = await session.client_adapter.request_permission(session.id, question)
        finally:
            self.is_asking = False
        if chosen is None and session.client_adapter.cancelled_permission_cancels_turn:
            if self._turn is not None and not self.is_in_background:
                self._turn.cancelled = True
            raise asyncio.CancelledError
        return None if chosen is None else by_id.get(chosen)  # R-PERM-05, R-PERM-14


def _require_json(name: str, value: Any) -> None:
    """Raise `TypeError` for what cannot be written."""
    try:
        encode(value)
    except TypeError as exc:
        raise TypeError(f"{name}: expected what JSON can hold: {exc}") from exc


def _locations(
    where: str, locations: Iterable[str | ToolCallLocation]
) -> tuple[ToolCallLocation, ...]:
    found = require_types(where, locations, str, ToolCallLocation)
    return tuple(ToolCallLocation(at) if isinstance(at, str) else at for at in found)
