"""A tool call: shown from its beginning to its end, whatever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord.agent.background import Scope, WorkCancelled
from accord.agent.client_adapter import Question
from accord.agent.updates import ToolPart, ToolReport
from accord.connection.tasks import is_stopped
from accord.types.awaited import must_await
from accord.types.content import Content, need_content, need_contents
from accord.types.permission import PermissionOption
from accord.types.tool_calls import (
    TOOL_KINDS,
    Diff,
    Location,
    TerminalView,
    ToolContent,
    ToolKind,
    ToolStatus,
)
from accord.types.validation import need, need_each, need_name
from accord.wire.codec import encode

if TYPE_CHECKING:
    from accord.agent.session_actions import Verbs

__all__ = ("ToolCall", "current_tool")

_ENDS = ("completed", "failed", "cancelled")

_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
    PermissionOption("reject_always", "Always reject", "reject_always"),
)

_KINDS = tuple(option.kind for option in _OPTIONS)

_current: ContextVar[ToolCall | None] = ContextVar("accord.agent.tool_call", default=None)


def current_tool(session: object) -> ToolCall | None:
    """Return the tool call of this session that the caller is in."""
    call = _current.get()
    return call if call is not None and call.session is session else None


class ToolCall:
    """A tool call, to enter with `async with`.

    It is pending until something happens in it, then in progress. Leaving the block completes
    it; an exception fails it, a cancel cancels it, and so does leaving it after a refusal
    without having done anything since. A `cancellable` one may be stopped while the turn goes
    on: leaving the block then raises `WorkCancelled`.
    """

    def __init__(
        self,
        owner: Verbs,
        title: str,
        *,
        kind: ToolKind,
        name: str | None,
        locations: Iterable[str | Location],
        raw_input: Any,
        cancellable: bool = False,
        in_background: bool = False,
    ) -> None:
        need("tool(title=…)", title, str)
        need_name("tool(kind=…)", kind, TOOL_KINDS)
        need("tool(name=…)", name, str, NoneType)
        self.owner = owner
        self._turn = None if in_background else owner.turn_here
        self.session = owner.session
        self.id = self.session.next_id("tool")
        self.title = title
        self.kind: ToolKind = kind
        self.name = name
        self.locations = _places("tool(locations=…)", locations)
        self.raw_input = raw_input
        self.status: ToolStatus = "pending"
        self.cancellable = cancellable
        self.asking = False
        self.is_told_ended = False  # the client has been told of a final status
        self._scope = Scope()
        self._refused = False  # and nothing has been done since
        self._diffs: list[Diff] = []
        self._token: Token[ToolCall | None] | None = None

    async def __aenter__(self) -> ToolCall:
        session = self.session
        if self._token is not None:
            raise RuntimeError("A tool call is entered once; make another one")
        session.end_message()
        try:
            await session.report(
                ToolReport(
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
            _need_json("raw_input", self.raw_input)
            raise
        session.tools[self.id] = self
        self._token = _current.set(self)
        self._scope.enter()
        try:
            await self._tell_background()
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
            if self.status not in _ENDS and not self.session.closed:
                await self._report(status="cancelled" if alone else self._how_ended(error))
        finally:
            self.session.tools.pop(self.id, None)
        if alone:
            raise WorkCancelled(self.title) from None

    def _how_ended(self, error: BaseException | None) -> ToolStatus:
        if isinstance(error, asyncio.CancelledError) or is_stopped():
            return "cancelled"
        if error is not None:
            return "failed"
        return "cancelled" if self._refused else "completed"

    # How it is stopped.

    @property
    def is_detached(self) -> bool:
        """Whether it goes on in the background of its session, beside any turn."""
        return self._turn is None or self._turn.is_over

    def cancel(self) -> None:
        """Stop what runs in the block; a cancel that it is too late for does nothing."""
        self._scope.cancel()

    # What it says.

    @must_await("call")
    async def start(self) -> None:
        """Say that it is in progress, unless it has been said."""
        self._refused = False
        if self.status in ("pending", "paused"):
            await self._report(status="in_progress")
            await self.session.tell_state()

    @must_await("call")
    async def pause(self) -> None:
        """Say that it waits for something to go on; whatever it does next resumes it.

        Version 1 has no word for it: there it stays in progress.
        """
        await self.start()
        await self._report(status="paused")

    @must_await("call")
    async def content(self, *items: ToolContent) -> None:
        """Show more: text, images, diffs, terminals."""
        need_contents("content(items=…)", items, Diff, TerminalView)
        await self.start()
        for item in items:
            await self.session.report(ToolPart(self.id, item))

    @must_await("call")
    async def replace(self, *items: ToolContent) -> None:
        """Show this in place of everything so far."""
        need_contents("replace(items=…)", items, Diff, TerminalView)
        await self.start()
        await self._report(content=tuple(items))

    @must_await("call")
    async def stream(self, text: str) -> None:
        """Add text to what is shown, as it comes."""
        if type(text) is not str:
            need("stream(text=…)", text, str)
        await self.start()
        await self.session.report(ToolPart(self.id, text, goes_on=True))

    @must_await("call")
    async def diff(self, path: str, old: str | None, new: str | None) -> None:
        """Show a change of a file; None stands for a file that is not there.

        A change that was shown before permission was asked is not shown again when it is made.
        """
        change = Diff(path, old, new)
        if change not in self._diffs:
            self._diffs.append(change)
            await self.content(change)

    @must_await("call")
    async def terminal(self, terminal_id: str) -> None:
        """Show a terminal, whose output goes on to show by itself."""
        await self.content(TerminalView(terminal_id))

    @must_await("call")
    async def output(self, raw_output: Any) -> None:
        """Tell what the tool returned, as JSON."""
        await self.start()
        await self._report(raw_output=raw_output)

    @must_await("call")
    async def update(
        self,
        *,
        title: str | None = None,
        kind: ToolKind | None = None,
        locations: Iterable[str | Location] | None = None,
        raw_input: Any = None,
    ) -> None:
        """Correct what was said at the beginning."""
        need("update(title=…)", title, str, NoneType)
        if kind is not None:
            need_name("update(kind=…)", kind, TOOL_KINDS)
        changes: dict[str, Any] = {}
        if title is not None:
            self.title = changes["title"] = title
        if kind is not None:
            self.kind = changes["kind"] = kind
        if locations is not None:
            self.locations = changes["locations"] = _places("update(locations=…)", locations)
        if raw_input is not None:
            self.raw_input = changes["raw_input"] = raw_input
        await self._report(**changes)

    @must_await("call")
    async def fail(self, content: Content | None = None) -> None:
        """End as failed, showing why; what comes after is not reported."""
        if content is not None:
            await self.content(content)
        await self._report(status="failed")

    @must_await("call")
    async def refuse(self, content: Content | None = None, *, raw_output: Any = None) -> None:
        """End as not allowed, showing why: nothing of it was done, nothing broke.

        Version 2 shows it as cancelled, version 1, which has no word for that, as failed.
        """
        if content is not None:
            need_content("refuse(content=…)", content)
            await self.session.report(ToolPart(self.id, content))
        told: dict[str, Any] = {} if raw_output is None else {"raw_output": raw_output}
        await self._report(status="cancelled", **told)

    async def _report(self, **changes: Any) -> None:
        self._need_entered()
        self.status = changes.get("status", self.status)
        ends = self.status in _ENDS
        if ends and self.cancellable and not self.is_told_ended:
            changes["cancellable"] = False  # R-TCAN-03
        try:
            await self.session.report(ToolReport(id=self.id, **changes))
        except TypeError:
            for name in ("raw_input", "raw_output"):
                _need_json(name, changes.get(name))
            raise
        if ends and not self.is_told_ended:
            self.is_told_ended = True
            await self._tell_background()

    def _need_entered(self) -> None:
        if self._token is None:
            raise RuntimeError("The tool call has not begun; enter it with `async with`")

    async def _tell_background(self) -> None:
        if self.is_detached:
            await self.session.background_work.tell()  # R-BGW-03

    # Permission.

    @must_await("call")
    async def permission(self, title: str | None = None, *, description: str | None = None) -> bool:
        """Ask the user whether to go on; answers for always hold for the session.

        What the agent's `permit` decides is not asked. Raises `CancelledError` when the turn
        is cancelled meanwhile.
        """
        need("permission(title=…)", title, str, NoneType)
        need("permission(description=…)", description, str, NoneType)
        session = self.session
        key = self.name or str(self.kind)
        allowed = session.remembered.get(key)
        if allowed is None:
            allowed = await session.agent.permit(self)
        if allowed is None:
            chosen = await self.ask(_OPTIONS, title=title, description=description)
            allowed = chosen is not None and chosen.allows
            if chosen is not None and chosen.is_remembered:
                session.remembered[key] = allowed
        if allowed:
            await self.start()
        else:
            self._refused = True
        return allowed

    @must_await("call")
    async def ask(
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
        self._need_entered()
        session = self.session
        need("ask(title=…)", title, str, NoneType)
        need("ask(description=…)", description, str, NoneType)
        offered = tuple(need_each("ask(options=…)", options, PermissionOption))
        for option in offered:
            need_name(f"PermissionOption({option.id!r}, kind=…)", option.kind, _KINDS)
        by_id = {option.id: option for option in offered}
        if not by_id or len(by_id) < len(offered):
            raise ValueError("Options need to be at least one, each with an id of its own")
        question = Question(
            title=title or self.title,
            description=description,
            options=offered,
            tool=ToolReport(id=self.id, title=self.title, kind=self.kind, status=self.status),
        )
        self.asking = True
        try:
            async with session.asking(detached=self.is_detached):
                chosen = await session.link.ask(session.id, question)
        finally:
            self.asking = False
        if chosen is None and session.link.unanswered_cancels:
            if self._turn is not None and not self.is_detached:
                self._turn.cancelled = True
            raise asyncio.CancelledError
        return None if chosen is None else by_id.get(chosen)  # R-PERM-05, R-PERM-14


def _need_json(name: str, value: Any) -> None:
    """Raise `TypeError` for what cannot be written."""
    try:
        encode(value)
    except TypeError as exc:
        raise TypeError(f"{name}: expected what JSON can hold: {exc}") from exc


def _places(where: str, locations: Iterable[str | Location]) -> tuple[Location, ...]:
    found = need_each(where, locations, str, Location)
    return tuple(Location(at) if isinstance(at, str) else at for at in found)
