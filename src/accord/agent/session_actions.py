"""What can be said in a session, in a turn and outside of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from accord.types.awaited import must_await

if TYPE_CHECKING:
    from msgspec import Struct

    from accord.agent.compaction import CompactionHandle
    from accord.agent.elicitation import UrlElicitation
    from accord.agent.files import SessionFiles
    from accord.agent.plan import PlanHandle
    from accord.agent.session import Session
    from accord.agent.subagent import SubagentHandle
    from accord.agent.terminals import SessionTerminals
    from accord.agent.tool_call import ToolCallHandle
    from accord.agent.turn import Turn
    from accord.types.content import ContentBlock
    from accord.types.session import AvailableCommand, Cost, PlanEntry
    from accord.types.tool_calls import ToolCallLocation, ToolKind

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("SessionActions",)

F = TypeVar("F", bound="Struct")
NoneType = type(None)


def _require_type(where: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        from accord.types.validation import type_error

        raise type_error(where, value, *kinds)


class SessionActions:
    """Says what the agent does, in the version that the client speaks."""

    session: Session

    @property
    def turn_here(self) -> Turn | None:
        """The turn that what is begun here belongs to; None in the background."""
        from accord.agent.background import current_turn

        return current_turn.get(None)

    @must_await("turn")
    def say(
        self, content: ContentBlock, *, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Add to the message to the user; waits while the client reads slower.

        `meta` goes along as the `_meta` of the update; no store keeps it.
        """
        return self.session.add_to_message("agent", content, meta)

    @must_await("turn")
    def think(
        self, content: ContentBlock, *, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Add to the agent's thinking, which clients may show apart; `meta` as in `say`."""
        return self.session.add_to_message("thought", content, meta)

    def start_new_message(self) -> None:
        """Let what is said next begin a message of its own."""
        self.session.end_message()

    @must_await("turn")
    async def plan(
        self, entries: Iterable[str | PlanEntry], *, plan_id: str = "main"
    ) -> PlanHandle:
        """Show a plan, in place of the one with this id; returns it, to update its entries."""
        from accord.agent.plan import PlanHandle

        _require_type("plan(plan_id=…)", plan_id, str)
        plan = PlanHandle(self.session, plan_id)
        await plan.replace(entries)
        return plan

    @must_await("turn")
    async def plan_markdown(self, text: str, *, plan_id: str = "main") -> PlanHandle:
        """Show a plan written as Markdown, in place of the one with this id.

        Where that is not shown, each line of it is an entry (unstable; version 1: the client's
        `plan` capability). Returns it, to remove it or to give it entries.
        """
        from accord.agent.plan import PlanHandle
        from accord.agent.updates import PlanMarkdownUpdate

        _require_type("plan_markdown(text=…)", text, str)
        _require_type("plan_markdown(plan_id=…)", plan_id, str)
        await self.session.publish(PlanMarkdownUpdate(plan_id, text))
        return PlanHandle(self.session, plan_id)

    @must_await("turn")
    async def plan_file(self, uri: str, *, plan_id: str = "main") -> PlanHandle:
        """Show a plan that is in a file, in place of the one with this id.

        Where that is not shown, an entry names the file; otherwise as `plan_markdown`.
        """
        from accord.agent.plan import PlanHandle
        from accord.agent.updates import PlanFileUpdate

        _require_type("plan_file(uri=…)", uri, str)
        _require_type("plan_file(plan_id=…)", plan_id, str)
        await self.session.publish(PlanFileUpdate(plan_id, uri))
        return PlanHandle(self.session, plan_id)

    @must_await("turn")
    async def show_notice(
        self,
        title: str,
        *,
        severity: Literal["info", "warning", "error"] | str = "info",
        description: str | None = None,
    ) -> None:
        """Show the user a word that is no part of the conversation, and that may be missed.

        To a client of version 1 that shows no notices it is said, as a message of its own.
        """
        from accord.types.validation import require_name

        _require_type("show_notice(title=…)", title, str)
        require_name("show_notice(severity=…)", severity, ("info", "warning", "error"))
        _require_type("show_notice(description=…)", description, str, NoneType)
        if not title:
            raise ValueError("A notice has a title")  # R-NOTICE-02
        session = self.session
        if session.client_adapter.shows_notices:
            from accord.agent.updates import NoticeUpdate

            await session.publish(NoticeUpdate(severity, title, description))
            return
        session.end_message()
        await session.add_to_message(
            "agent", title if description is None else f"{title}\n\n{description}"
        )
        session.end_message()

    def compaction(self) -> CompactionHandle:
        """Return a compaction to enter: the model's context is being shortened meanwhile.

        A client of version 1 that shows none is told nothing.
        """
        from accord.agent.compaction import CompactionHandle

        return CompactionHandle(self.session)

    def subagent(
        self,
        title: str,
        *,
        description: str | None = None,
        cwd: str | None = None,
        additional_directories: Sequence[str] | None = None,
        cancellable: bool = False,
    ) -> SubagentHandle:
        """Return a session inside of this one, to enter, in which other work is shown apart.

        It works where this one does, unless told otherwise. A `cancellable` one the user may
        stop alone: leaving the block raises `WorkCancelled` then. Unless the agent is unstable
        and the client of version 1 shows subagents, it is a tool call, with what it says.
        """
        _require_type("subagent(title=…)", title, str)
        _require_type("subagent(description=…)", description, str, NoneType)
        _require_type("subagent(cwd=…)", cwd, str, NoneType)
        if additional_directories is not None:
            from accord.types.validation import require_types

            require_types("subagent(additional_directories=…)", additional_directories, str)
        return self.session.manager.subagent(
            self,
            title,
            description=description,
            cwd=cwd,
            additional=additional_directories,
            cancellable=cancellable,
        )

    @must_await("turn")
    async def send_session_message(self, recipient: Session, *content: ContentBlock) -> None:
        """Show that this session said something to another, in the transcripts of both.

        For a subagent, or from it to the session it is in. Where subagents are not shown,
        nothing is.
        """
        from accord.agent.session_messages import send
        from accord.types.content import require_content
        from accord.types.validation import type_error

        if getattr(recipient, "session", None) is not recipient:  # a turn, say
            raise type_error("send_session_message(recipient=…)", recipient, type(self.session))
        for part in content:
            require_content("send_session_message(content=…)", part)
        await send(self.session, recipient, content)

    def tool(
        self,
        title: str,
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | ToolCallLocation] = (),
        raw_input: Any = None,
        cancellable: bool = False,
    ) -> ToolCallHandle:
        """Return a tool call to enter: shown as pending, and at the end with how it ended.

        `name` is the tool's name in programs, `locations` are absolute paths that it works at.
        A `cancellable` one the user of version 2 may stop alone: `WorkCancelled` is raised then.
        """
        from accord.agent.tool_call import ToolCallHandle

        return ToolCallHandle(
            self,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            cancellable=cancellable,
        )

    @must_await("turn")
    async def run_in_background(
        self,
        title: str,
        work: Callable[[ToolCallHandle], Awaitable[object]],
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | ToolCallLocation] = (),
        raw_input: Any = None,
    ) -> ToolCallHandle:
        """Begin work in a tool call of its own, which goes on when the turn is over.

        Returns the call once it is shown. Closing the session cancels the work, and so does
        the agent by `call.cancel()`. A cancel of the turn does not: the user of version 2 sees
        what goes on and can stop each piece; in version 1 nothing else could, so there a cancel
        stops it, too (R-BGW-08).
        """
        from accord.agent.tool_call import ToolCallHandle

        if not callable(work):
            raise TypeError(f"run_in_background(work=…): expected a function, got {work!r}")
        call = ToolCallHandle(
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
    def files(self) -> SessionFiles:
        """The files that the session works with."""
        return self.session.files_of_session

    @property
    def terminals(self) -> SessionTerminals:
        """Runs commands."""
        return self.session.terminals_of_session

    @must_await("turn")
    async def elicit_form(self, form: type[F], message: str) -> F | None:
        """Ask the user to fill in a form, one field for each of a msgspec Struct's.

        Fields are str, int, float, bool, a Literal of strings or a list of those; `Meta` says
        what is allowed. Returns None when the user does not answer; raises `NotOffered` when
        the client shows no forms. Never for secrets: see `elicit_url`.
        """
        from accord.agent.elicitation import elicit_form

        _require_type("elicit_form(form=…)", form, type)
        _require_type("elicit_form(message=…)", message, str)
        return await elicit_form(self.session, form, message)

    @must_await("turn")
    async def elicit_url(self, url: str, message: str) -> UrlElicitation | None:
        """Ask the user to open a web page; None when they do not agree.

        Agreeing is all that is known then: call `done` on what is returned once the page says
        so. Raises `NotOffered` when the client opens no pages.
        """
        from accord.agent.elicitation import elicit_url

        _require_type("elicit_url(url=…)", url, str)
        _require_type("elicit_url(message=…)", message, str)
        return await elicit_url(self.session, url, message)

    @must_await("turn")
    async def set_context_usage(self, used: int, size: int, *, cost: Cost | None = None) -> None:
        """Say how full the model's context is, in tokens."""
        from accord.agent.updates import ContextUsageUpdate
        from accord.types.session import ContextUsage

        await self.session.publish(ContextUsageUpdate(ContextUsage(used, size, cost)))

    @must_await("turn")
    async def set_title(self, title: str) -> None:
        """Give the session a title."""
        _require_type("set_title(title=…)", title, str)
        await self.session.set_title(title)

    @must_await("turn")
    async def call_extension(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send the client a request whose method begins with an underscore (R-EXT-04).

        `sessionId` is added to the params. Returns the result as JSON; raises `RequestError`
        for an error answer, -32601 when the client has no such method.
        """
        session = self.session
        _require_type("call_extension(method=…)", method, str)
        _require_type("call_extension(params=…)", params, Mapping, NoneType)
        return await session.client_adapter.call_extension(
            method, {"sessionId": session.id, **(params or {})}
        )

    @must_await("turn")
    async def notify_extension(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send the client a notification whose method begins with an underscore (R-EXT-04).

        `sessionId` is added to the params; a client that does not know the method ignores it.
        """
        session = self.session
        _require_type("notify_extension(method=…)", method, str)
        _require_type("notify_extension(params=…)", params, Mapping, NoneType)
        await session.client_adapter.notify_extension(
            method, {"sessionId": session.id, **(params or {})}
        )

    @must_await("turn")
    async def set_commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Say which commands the user can type after a slash, all of them."""
        from accord.agent.updates import CommandsUpdate
        from accord.types.session import AvailableCommand
        from accord.types.validation import require_types

        session = self.session
        session.commands = tuple(
            require_types("set_commands(commands=…)", commands, AvailableCommand)
        )
        if session.is_open:
            await session.publish(CommandsUpdate(session.commands))
