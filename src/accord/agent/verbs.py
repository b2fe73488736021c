"""What can be said in a session, in a turn and outside of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from msgspec import Struct

    from accord.agent.elicit import Elicitation
    from accord.agent.files import Files
    from accord.agent.plan import Plan
    from accord.agent.session import Session
    from accord.agent.terminals import Terminals
    from accord.agent.tool import ToolCall
    from accord.agent.turn import Turn
    from accord.model.content import Content
    from accord.model.session import Command, Cost, PlanEntry
    from accord.model.tools import Location, ToolKind

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("Verbs",)

F = TypeVar("F", bound="Struct")


class Verbs:
    """Says what the agent does, in the version that the client speaks."""

    session: Session

    @property
    def turn_here(self) -> Turn | None:
        """The turn that what is begun here belongs to; None in the background."""
        from accord.agent.background import working_for

        return working_for.get(None)

    def say(self, content: Content) -> Coroutine[Any, Any, None]:
        """Add to the message to the user; waits while the client reads slower."""
        return self.session.said("agent", content)

    def think(self, content: Content) -> Coroutine[Any, Any, None]:
        """Add to the agent's thinking, which clients may show apart."""
        return self.session.said("thought", content)

    def next_message(self) -> None:
        """Let what is said next begin a message of its own."""
        self.session.end_message()

    async def plan(self, entries: Iterable[str | PlanEntry], *, plan_id: str = "main") -> Plan:
        """Show a plan, in place of the one with this id; returns it, to update its entries."""
        from accord.agent.plan import Plan

        plan = Plan(self.session, plan_id)
        await plan.replace(entries)
        return plan

    def tool(
        self,
        title: str,
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | Location] = (),
        raw_input: Any = None,
        cancellable: bool = False,
    ) -> ToolCall:
        """Return a tool call to enter: shown as pending, and at the end with how it ended.

        `name` is the tool's name in programs, `locations` are absolute paths that it works at.
        A `cancellable` one the user of version 2 may stop alone: `ToolCancelled` is raised then.
        """
        from accord.agent.tool import ToolCall

        return ToolCall(
            self,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            cancellable=cancellable,
        )

    async def background(
        self,
        title: str,
        work: Callable[[ToolCall], Awaitable[object]],
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | Location] = (),
        raw_input: Any = None,
    ) -> ToolCall:
        """Begin work in a tool call of its own, which goes on when the turn is over.

        Returns the call once it is shown. Closing the session cancels the work, and so does
        the agent by `call.cancel()`. A cancel of the turn does not: the user of version 2 sees
        what goes on and can stop each piece; in version 1 nothing else could, so there a cancel
        stops it, too (R-BGW-08).
        """
        from accord.agent.tool import ToolCall

        call = ToolCall(
            self,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            cancellable=True,
            in_background=True,
        )
        await self.session.background_work.run(call, work)
        return call

    @property
    def files(self) -> Files:
        """The files that the session works with."""
        return self.session.files_of_session

    @property
    def terminals(self) -> Terminals:
        """Runs commands."""
        return self.session.terminals_of_session

    async def elicit(self, form: type[F], message: str) -> F | None:
        """Ask the user to fill in a form, one field for each of a msgspec Struct's.

        Fields are str, int, float, bool, a Literal of strings or a list of those; `Meta` says
        what is allowed. Returns None when the user does not answer; raises `NotOffered` when
        the client shows no forms. Never for secrets: see `elicit_url`.
        """
        from accord.agent.elicit import elicit

        return await elicit(self.session, form, message)

    async def elicit_url(self, url: str, message: str) -> Elicitation | None:
        """Ask the user to open a web page; None when they do not agree.

        Agreeing is all that is known then: call `done` on what is returned once the page says
        so. Raises `NotOffered` when the client opens no pages.
        """
        from accord.agent.elicit import elicit_url

        return await elicit_url(self.session, url, message)

    async def usage(self, used: int, size: int, *, cost: Cost | None = None) -> None:
        """Say how full the model's context is, in tokens."""
        from accord.agent.reports import UsageReport
        from accord.model.session import Usage

        await self.session.report(UsageReport(Usage(used, size, cost)))

    async def title(self, title: str) -> None:
        """Give the session a title."""
        await self.session.set_title(title)

    async def call_extension(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send the client a request whose method begins with an underscore (R-EXT-04).

        `sessionId` is added to the params. Returns the result as JSON; raises `RequestError`
        for an error answer, -32601 when the client has no such method.
        """
        session = self.session
        return await session.link.call_extension(
            method, {"sessionId": session.id, **(params or {})}
        )

    async def notify_extension(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification whose method begins with an underscore (R-EXT-04).

        `sessionId` is added to the params; a client that does not know the method ignores it.
        """
        session = self.session
        await session.link.notify_extension(method, {"sessionId": session.id, **(params or {})})

    async def commands(self, commands: Sequence[Command]) -> None:
        """Say which commands the user can type after a slash, all of them."""
        from accord.agent.reports import CommandsReport

        session = self.session
        session.commands_now = tuple(commands)
        if session.is_open:
            await session.report(CommandsReport(session.commands_now))
