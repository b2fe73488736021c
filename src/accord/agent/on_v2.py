"""Agents in version 2: a prompt is answered once it has its place, states tell how it goes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from msgspec import UNSET

from accord import v2
from accord.agent.host import Host, Setup
from accord.agent.link import Link, Question
from accord.agent.reports import (
    CommandsReport,
    Ended,
    Failure,
    MessageRole,
    OptionsReport,
    PlanReport,
    Report,
    Said,
    TerminalEnded,
    TerminalOutput,
    TerminalStarted,
    TitleReport,
    ToolPart,
    ToolReport,
    UsageReport,
)
from accord.agent.session import Session
from accord.agent.turn import Turn
from accord.errors import InvalidParams, TransportError
from accord.model.content import Content
from accord.model.on_v2 import (
    content_from_wire,
    content_to_wire,
    location_to_wire,
    tool_content_to_wire,
)
from accord.model.session import Choice, Command, Info, SessionOption
from accord.wire.base import replace
from accord.wire.codec import convert

__all__ = ("LinkV2", "role_for")

_CHUNKS = {
    "user": v2.UserMessageChunk,
    "agent": v2.AgentMessageChunk,
    "thought": v2.AgentThoughtChunk,
}


class LinkV2(Link):
    """The client, in version 2."""

    version = 2
    shows_terminals = True

    def __init__(self, params: v2.InitializeRequest, context: v2.AgentContext) -> None:
        self._context = context
        self._client = context.client
        self.capabilities = params.capabilities
        info = params.info
        self.client_info = Info(info.name, info.version, info.title)

    def said(
        self, session_id: str, role: MessageRole, message_id: str, content: Content
    ) -> Coroutine[Any, Any, None]:
        block = v2.TextContent(text=content) if type(content) is str else content_to_wire(content)
        chunk = _CHUNKS[role](content=block, message_id=message_id)
        return self._send(session_id, chunk)

    def _send(self, session_id: str, update: v2.SessionUpdate) -> Coroutine[Any, Any, None]:
        return self._client.session_update(
            v2.UpdateSessionNotification(session_id=session_id, update=update)
        )

    async def show(self, session_id: str, report: Report) -> None:
        if isinstance(report, Said) and report.role != "user":
            for part in report.content:
                await self.said(session_id, report.role, report.message_id, part)
            return
        await self._send(session_id, _update(report))

    async def ask(self, session_id: str, question: Question) -> str | None:
        tool = v2.ToolCallDetails(tool_call_id=question.tool.id, **_tool_fields(question.tool))
        answer = await self._client.request_permission(
            v2.RequestPermissionRequest(
                session_id=session_id,
                title=question.title,
                description=question.description,
                subject=v2.ToolCallPermissionSubject(tool_call=tool),
                options=[
                    v2.PermissionOption(option_id=o.id, name=o.name, kind=o.kind)
                    for o in question.options
                ],
            )
        )
        match answer.outcome:
            case v2.SelectedPermissionOutcome(option_id=option_id):
                return option_id
            case _:
                return None

    async def working(self, session_id: str) -> None:
        await self._send(session_id, v2.RunningStateUpdate())

    async def waiting(self, session_id: str) -> None:
        await self._send(session_id, v2.RequiresActionStateUpdate())

    async def state(self, session: Session) -> None:
        """Tell what the agent does in a session, whether or not that has changed."""
        match session.state:
            case "running":
                await self.working(session.id)
            case "requires_action":
                await self.waiting(session.id)
            case "idle":
                await self._send(session.id, v2.IdleStateUpdate())

    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        form = v2.ElicitationFormMode(
            message=message,
            session_id=session_id,
            tool_call_id=tool_id,
            requested_schema=convert(schema, v2.ElicitationSchema),
        )
        match await self._client.create_elicitation(form):
            case v2.ElicitationAcceptAction(content=content):
                return content or {}
            case _:
                return None  # R-ELIC-26, R-ELIC-34

    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        page = v2.ElicitationUrlMode(
            message=message,
            session_id=session_id,
            tool_call_id=tool_id,
            elicitation_id=elicitation_id,
            url=url,
        )
        answer = await self._client.create_elicitation(page)
        return isinstance(answer, v2.ElicitationAcceptAction)

    async def elicited(self, elicitation_id: str) -> None:
        await self._client.complete_elicitation(
            v2.CompleteElicitationNotification(elicitation_id=elicitation_id)
        )

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.start(work)

    def shown(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        return options


def _update(report: Report) -> v2.SessionUpdate:
    match report:
        case Said(_, message_id, content):
            blocks = [content_to_wire(part) for part in content]
            return v2.UserMessage(message_id=message_id, content=blocks)
        case ToolReport():
            return v2.ToolCallUpdate(tool_call_id=report.id, **_tool_fields(report))
        case ToolPart(id, content, _):
            return v2.ToolCallContentChunk(tool_call_id=id, content=tool_content_to_wire(content))
        case PlanReport(id, entries):
            found = [
                v2.PlanEntry(content=e.content, status=e.status, priority=e.priority)
                for e in entries
            ]
            return v2.PlanUpdate(plan=v2.PlanItems(plan_id=id, entries=found))
        case OptionsReport(options, _):
            return v2.ConfigOptionUpdate(config_options=[_option(option) for option in options])
        case CommandsReport(commands):
            return v2.AvailableCommandsUpdate(available_commands=_commands(commands))
        case TitleReport(title):
            return v2.SessionInfoUpdate(title=title)
        case UsageReport(usage):
            cost = usage.cost and v2.Cost(amount=usage.cost.amount, currency=usage.cost.currency)
            return v2.UsageUpdate(used=usage.used, size=usage.size, cost=cost)
        case TerminalStarted(id, command, cwd):
            return v2.TerminalUpdate(terminal_id=id, command=command, cwd=cwd)
        case TerminalOutput(id, data):
            from base64 import b64encode

            return v2.TerminalOutputChunk(terminal_id=id, data=b64encode(data).decode("ascii"))
        case TerminalEnded(id, exit_code, signal):
            status = v2.TerminalExitStatus(exit_code=exit_code, signal=signal)
            return v2.TerminalUpdate(terminal_id=id, exit_status=status)
        case Ended(stop_reason, failure):
            error = None if failure is None else _error(failure)
            return v2.IdleStateUpdate(stop_reason=stop_reason, error=error)


def _error(failure: Failure) -> v2.Error:
    data = None if failure.data is UNSET else failure.data
    return v2.Error(code=failure.code, message=failure.message, data=data)


def _tool_fields(report: ToolReport) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "title": report.title,
        "name": report.name,
        "kind": report.kind,
        "status": report.status,
        "raw_input": report.raw_input,
        "raw_output": report.raw_output,
    }
    if report.locations is not UNSET:
        fields["locations"] = location_to_wire(report.locations)
    if report.content is not UNSET:
        fields["content"] = [tool_content_to_wire(item) for item in report.content]
    return fields


def _commands(commands: tuple[Command, ...]) -> list[v2.AvailableCommand]:
    return [
        v2.Command(
            name=command.name,
            description=command.description,
            input=None if command.hint is None else v2.TextCommandInput(hint=command.hint),
        )
        for command in commands
    ]


def _option(option: SessionOption) -> v2.SessionConfigOption:
    common: dict[str, Any] = {
        "config_id": option.id,
        "name": option.name,
        "description": option.description,
        "category": option.category,
    }
    if isinstance(option.value, bool):
        return v2.SessionConfigBoolean(current_value=option.value, **common)
    choices: tuple[Choice, ...] = getattr(option, "choices", ())
    return v2.SessionConfigSelect(current_value=option.value, options=_choices(choices), **common)


def _choices(choices: tuple[Choice, ...]) -> v2.SessionConfigSelectOptions:
    groups: dict[str | None, list[v2.SessionConfigSelectOption]] = {}
    for choice in choices:
        groups.setdefault(choice.group, []).append(
            v2.SessionConfigSelectOption(
                value=choice.value, name=choice.name, description=choice.description
            )
        )
    if set(groups) <= {None}:
        return groups.get(None, [])
    return [
        v2.SessionConfigSelectGroup(group_id=name or "other", name=name or "Other", options=options)
        for name, options in groups.items()
    ]


class _Role(v2.Agent):
    """Serves version 2 for a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def _link(self) -> LinkV2:
        link = self._host.link
        assert isinstance(link, LinkV2), "set by initialize"
        return link

    def initialize(
        self, params: v2.InitializeRequest, context: v2.AgentContext
    ) -> v2.InitializeResponse:
        agent = self._host.agent
        self._host.settle(LinkV2(params, context))
        info = agent.info or Info(type(agent).__name__)
        return v2.InitializeResponse(
            protocol_version=2,
            info=v2.Implementation(name=info.name, version=info.version, title=info.title),
            capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def capabilities(self) -> v2.AgentCapabilities:
        agent = self._host.agent
        derived = super().capabilities()
        takes = agent.prompt_content
        session = replace(
            derived.session or v2.SessionCapabilities(),
            prompt=v2.PromptCapabilities(
                image=v2.PromptImageCapabilities() if "image" in takes else None,
                audio=v2.PromptAudioCapabilities() if "audio" in takes else None,
                embedded_context=v2.PromptEmbeddedContextCapabilities()
                if "resource" in takes
                else None,
            ),
            mcp=v2.McpCapabilities(
                stdio=v2.McpStdioCapabilities() if "stdio" in agent.mcp else None,
                http=v2.McpHttpCapabilities() if "http" in agent.mcp else None,
            ),
            additional_directories=v2.SessionAdditionalDirectoriesCapabilities(),
        )
        return agent.capabilities_v2(replace(derived, session=session))

    async def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        session = await self._host.new_session(_setup(params))
        return v2.NewSessionResponse(session_id=session.id, **_offers(session))

    async def resume_session(
        self, params: v2.ResumeSessionRequest, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        if params.replay_from is not None and not isinstance(
            params.replay_from, v2.ReplayFromStart
        ):
            raise InvalidParams("A replay begins at the start or not at all")  # R-SESS-16
        session = await self._host.resume(
            params.session_id, _setup(params), replay=params.replay_from is not None
        )
        await self._link.state(session)  # R-SESS-29
        return v2.ResumeSessionResponse(**_offers(session))

    async def list_sessions(
        self, params: v2.ListSessionsRequest, context: v2.AgentContext
    ) -> v2.ListSessionsResponse:
        found = [
            v2.SessionInfo(
                session_id=session.id,
                cwd=session.cwd,
                additional_directories=list(session.roots[1:]),
                title=session.title_now,
            )
            for session in self._host.sessions.values()
            if params.cwd in (None, session.cwd)
        ]
        return v2.ListSessionsResponse(sessions=found)

    async def close_session(
        self, params: v2.CloseSessionRequest, context: v2.AgentContext
    ) -> v2.CloseSessionResponse:
        context.cancel_prompts(params.session_id)
        if params.session_id in self._host.sessions:  # R-SESS-32
            await self._host.close(params.session_id)
        return v2.CloseSessionResponse()

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        content = tuple(content_from_wire(block) for block in params.prompt)
        turn = self._host.begin(params.session_id, content)
        turn.queue()
        await turn.wait_first()  # R-PROMPT-24, R-PROMPT-27
        try:
            await turn.insert()
        except BaseException:
            turn.leave()
            raise
        # From here on there is nothing to withdraw: who cancels now cancels the turn.
        context.start(self._work(turn))
        return v2.PromptResponse(message_id=turn.message_id)

    async def _work(self, turn: Turn) -> None:
        session, link = turn.session, self._link
        try:
            await link.show(session.id, Said("user", turn.message_id, turn.content))
            await session.tell_state()
            ended = await turn.work(self._host.agent)
            session.idle()
            await link.show(session.id, ended)
        except TransportError:
            pass  # nobody is left to be told
        finally:
            session.idle()
            turn.leave()

    def cancel(self, params: v2.CancelSessionNotification, context: v2.AgentContext) -> None:
        context.cancel_prompts(params.session_id)  # those that are held
        session = self._host.sessions.get(params.session_id)
        if session is not None and session.turns:
            session.turns[0].cancel()

    async def set_session_config_option(
        self, params: v2.SetSessionConfigOptionRequest, context: v2.AgentContext
    ) -> v2.SetSessionConfigOptionResponse:
        match params:
            case v2.SetSessionConfigOptionId() | v2.SetSessionConfigOptionBoolean():
                session = self._host.session(params.session_id)
                await self._host.set_option(session, params.config_id, params.value)
            case _:
                raise InvalidParams("Unknown type of value")  # R-CONF-11
        options = [_option(option) for option in session.options]
        return v2.SetSessionConfigOptionResponse(config_options=options)


def _offers(session: Session) -> dict[str, Any]:
    return {
        "config_options": [_option(option) for option in session.options],
        "available_commands": _commands(session.commands_now),
    }


def _setup(params: Any) -> Setup:
    return Setup(
        cwd=params.cwd,
        additional=params.additional_directories,
        mcp_servers=params.mcp_servers,
    )


def role_for(host: Host) -> v2.Agent:
    """Return what serves version 2 for a host."""
    return _Role(host)
