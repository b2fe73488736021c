"""What the client side of both versions does alike: reads updates as events, serves the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from msgspec.structs import replace

from accord.client.agent_adapter import (
    MessageText,
    SessionEventStream,
    UpdateReader,
    auth_status_from_wire,
)
from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord.client.events import (
    Compaction,
    ContentChunk,
    Event,
    Notice,
    PermissionRequest,
    Plan,
    Role,
    SessionMessage,
    StateChanged,
    Subagent,
    Text,
    Thought,
    TitleChanged,
    UpdatedAtChanged,
    UsageChanged,
    UserText,
    text_event,
    with_meta,
)
from accord.client.transcript import Transcript, merge_texts
from accord.errors import InvalidParams, RequestError
from accord.types.content import ContentBlock
from accord.types.permission import PermissionOption
from accord.types.session import (
    BooleanOption,
    ContextUsage,
    Cost,
    Implementation,
    OptionChoice,
    PlanEntry,
    SelectOption,
    SessionOption,
    TokenUsage,
)
from accord.types.tool_calls import ToolCallLocation
from accord.wire.base import UNSET, Unknown
from accord.wire.codec import to_builtins

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.client.handlers import ClientHandlers

# Reads the updates that both versions write alike, as events.

T = TypeVar("T")
_ContentReader: TypeAlias = Callable[[Any], ContentBlock]

_TEXT_EVENTS: dict[Role, type[Text] | type[Thought] | type[UserText]] = {
    "agent": Text,
    "thought": Thought,
    "user": UserText,
}


def update_reader(
    types: Any, readers: Mapping[type, UpdateReader], unknown: Callable[[Any], Event]
) -> UpdateReader:
    """Return the function that reads all updates of a version; `unknown` reads the other types."""
    chunk_type, text_type = types.AgentMessageChunk, types.TextContent

    def events_from_update(update: Any, transcript: Transcript) -> Event | tuple[Event, ...] | None:
        """Return the events of an update; None if it changes nothing."""
        if type(update) is chunk_type:
            content = update.content
            if (
                type(content) is text_type
                and content.annotations is None
                and content.meta is None
                and update.meta is None
            ):
                return Text(content.text, update.message_id)
        reader = readers.get(update.__class__) or _of_base(readers, update)
        if reader is None:
            return unknown(update)
        return with_meta(reader(update, transcript), update.meta)

    return events_from_update


def _of_base(values: Mapping[type, T], update: object) -> T | None:
    """Return the value for the type of an update: one with unknown keys has a type of its own."""
    return next((values[cls] for cls in type(update).__mro__ if cls in values), None)


def shared_readers(
    types: Any, content_from_wire: _ContentReader, read_state: Callable[[Any], StateChanged]
) -> dict[type, UpdateReader]:
    """Return the readers of the updates that both versions have, by the types of one version."""

    def chunk(role: Role) -> UpdateReader:
        def read_chunk(update: Any, _transcript: Transcript) -> Event:
            return message_event(content_from_wire(update.content), role, update.message_id)

        return read_chunk

    def compaction(update: Any, transcript: Transcript) -> Event:
        return _compaction(update, transcript, content_from_wire)

    def compaction_chunk(update: Any, transcript: Transcript) -> Event:
        known = transcript.compaction(update.compaction_id)
        new = known or Compaction(id=update.compaction_id, status="in_progress")
        return replace(new, summary=merge_texts([*new.summary, content_from_wire(update.content)]))

    def subagent(update: Any, transcript: Transcript) -> Event | None:
        return _subagent(update, transcript, read_state)

    def session_message(update: Any, transcript: Transcript) -> Event | None:
        return _session_message(update, transcript, content_from_wire)

    def session_message_chunk(update: Any, transcript: Transcript) -> Event:
        known = transcript.session_message(update.message_id)
        new = known or SessionMessage(id=update.message_id)
        return replace(new, content=merge_texts([*new.content, content_from_wire(update.content)]))

    return {
        types.AgentMessageChunk: chunk("agent"),
        types.AgentThoughtChunk: chunk("thought"),
        types.UserMessageChunk: chunk("user"),
        types.PlanUpdate: _plan,
        types.PlanRemoved: _plan_removed,
        types.SessionInfoUpdate: _session_info,
        types.UsageUpdate: _usage,
        types.Notice: _notice,
        types.CompactionUpdate: compaction,
        types.CompactionSummaryChunk: compaction_chunk,
        types.SubagentUpdate: subagent,
        types.SessionMessage: session_message,
        types.SessionMessageChunk: session_message_chunk,
    }


def message_event(content: ContentBlock, role: Role, message_id: str | None) -> Event:
    """Return the event of content that is appended to a message."""
    if isinstance(content, str):
        return text_event(_TEXT_EVENTS[role], content, message_id)
    return ContentChunk(content, role, message_id)


def locations_from_wire(
    locations: Iterable[v1.ToolCallLocation | v2.ToolCallLocation],
) -> tuple[ToolCallLocation, ...]:
    """Return the locations of a tool call."""
    return tuple(ToolCallLocation(place.path, place.line) for place in locations)


# The state of the session.


def plan_entries(entries: Iterable[v1.PlanEntry | v2.PlanEntry]) -> tuple[PlanEntry, ...]:
    """Return the entries of a plan."""
    return tuple(PlanEntry(entry.content, entry.status, entry.priority) for entry in entries)


def _plan(update: v1.PlanUpdate | v2.PlanUpdate, _transcript: Transcript) -> Event:
    plan: Any = update.plan
    if isinstance(plan, Unknown):
        return Plan(id=plan.raw["planId"])  # only its id is known (R-PLAN-13)
    if (entries := getattr(plan, "entries", None)) is not None:
        return Plan(plan_entries(entries), plan.plan_id)
    if (uri := getattr(plan, "uri", None)) is not None:
        return Plan(id=plan.plan_id, uri=uri)
    return Plan(id=plan.plan_id, markdown=plan.content)


def _plan_removed(update: v1.PlanRemoved | v2.PlanRemoved, _transcript: Transcript) -> Event:
    return Plan(id=update.plan_id, removed=True)


def option_from_wire(types: Any, option: Any, option_id: str) -> SessionOption | None:
    """Return a config option of one of the two known types, else None."""
    if not isinstance(option, types.SessionConfigBoolean | types.SessionConfigSelect):
        return None
    fields: dict[str, Any] = {
        "id": option_id,
        "name": option.name,
        "value": option.current_value,
        "description": option.description,
        "category": option.category,
    }
    if isinstance(option, types.SessionConfigBoolean):
        return BooleanOption(**fields)
    choices: list[OptionChoice] = []
    for entry in option.options:
        if isinstance(entry, types.SessionConfigSelectGroup):
            group = entry.name
            choices += (OptionChoice(o.value, o.name, o.description, group) for o in entry.options)
        else:
            choices.append(OptionChoice(entry.value, entry.name, entry.description))
    return SelectOption(choices=tuple(choices), **fields)


def _session_info(
    update: v1.SessionInfoUpdate | v2.SessionInfoUpdate, transcript: Transcript
) -> tuple[Event, ...] | None:
    events: list[Event] = []
    if update.title is not UNSET and update.title != transcript.title:
        events.append(TitleChanged(update.title))
    if update.updated_at is not UNSET and update.updated_at != transcript.updated_at:
        events.append(UpdatedAtChanged(update.updated_at))
    return tuple(events) or None


def _usage(update: v1.UsageUpdate | v2.UsageUpdate, transcript: Transcript) -> Event:
    cost: Cost | None = None
    if update.cost is UNSET:  # a v2 patch keeps the cost (R-USAGE-05)
        cost = None if transcript.usage is None else transcript.usage.cost
    elif update.cost is not None:
        cost = Cost(update.cost.amount, update.cost.currency)
    return UsageChanged(ContextUsage(update.used, update.size, cost))


def token_usage_from_wire(usage: v1.Usage | v2.Usage) -> TokenUsage:
    """Return counts of tokens."""
    return TokenUsage(
        total=usage.total_tokens,
        input=usage.input_tokens,
        output=usage.output_tokens,
        thought=usage.thought_tokens,
        cached_read=usage.cached_read_tokens,
        cached_write=usage.cached_write_tokens,
    )


def state_from_wire(names: Mapping[type, str], state: Any) -> StateChanged:
    """Return the state of a session; a state of an unknown type has only its name."""
    if isinstance(state, Unknown):
        return StateChanged(state=state.tag)
    name = _of_base(names, state)
    assert name is not None, f"{type(state).__name__} is not a state"
    if name != "idle":
        return StateChanged(state=name)
    return StateChanged(
        state=name,
        stop_reason=state.stop_reason,
        error=None if state.error is None else error_from_wire(state.error),
        token_usage=None if state.usage is None else token_usage_from_wire(state.usage),
    )


def error_from_wire(error: v1.Error | v2.Error) -> RequestError:
    """Return the error that ended the work of a session."""
    return RequestError.of(error.code, error.message, error.data)


def _notice(update: v1.Notice | v2.Notice, _transcript: Transcript) -> Event:
    return Notice(update.severity, update.title, update.description)


def _compaction(
    update: v1.CompactionUpdate | v2.CompactionUpdate,
    transcript: Transcript,
    content_from_wire: _ContentReader,
) -> Compaction:
    known = transcript.compaction(update.compaction_id)
    new = replace(known or Compaction(id=update.compaction_id, status=""), status=update.status)
    if update.summary is not UNSET:
        new = replace(new, summary=merge_texts(map(content_from_wire, update.summary or ())))
    if update.error is not UNSET:
        new = replace(new, error=update.error)
    return new


# Subagents, and messages between sessions.


def _subagent(
    update: v1.SubagentUpdate | v2.SubagentUpdate,
    transcript: Transcript,
    read_state: Callable[[Any], StateChanged],
) -> Subagent | None:
    """Return a subagent with a patch applied (R-SUBAG-04); None if nothing changed."""
    known = transcript.subagents.get(update.session_id)
    changes: dict[str, Any] = {
        name: value
        for name in ("title", "description", "cwd")
        if (value := getattr(update, name)) is not UNSET
    }
    if update.capabilities is not UNSET:
        capabilities = update.capabilities
        changes["cancellable"] = capabilities is not None and capabilities.cancel is not None
    if update.state is not UNSET:
        changes["state"] = None if update.state is None else read_state(update.state)
    if update.additional_directories is not UNSET:
        directories = update.additional_directories
        changes["additional_directories"] = None if directories is None else tuple(directories)
    new = replace(known or Subagent(id=update.session_id), **changes)
    return None if new == known else new


def _session_message(
    update: v1.SessionMessage | v2.SessionMessage,
    transcript: Transcript,
    content_from_wire: _ContentReader,
) -> SessionMessage | None:
    """Return a message between sessions with a patch applied; None if nothing changed."""
    known = transcript.session_message(update.message_id)
    named = {
        "sender": update.sender_session_id,
        "recipient": update.recipient_session_id,
        "sender_message_id": update.sender_message_id,
        "recipient_message_id": update.recipient_message_id,
    }
    changes: dict[str, Any] = {key: value for key, value in named.items() if value is not UNSET}
    if update.content is not UNSET:
        changes["content"] = merge_texts(map(content_from_wire, update.content or ()))
    new = replace(known or SessionMessage(id=update.message_id), **changes)
    return None if new == known else new


class SharedClientRole:
    """The half of the client role that does not depend on the version.

    A subclass derives from this class and from `ClientRole` of its version, in this order.
    """

    types: ClassVar[Any]  # the package of the version
    events_from_update: UpdateReader

    def __init__(self, handlers: ClientHandlers, info: Implementation) -> None:
        self.info: Any = self.types.Implementation(
            name=info.name, version=info.version, title=info.title
        )
        self._handlers = handlers
        self._event_streams = handlers.event_streams

    def _stream(self, session_id: str) -> SessionEventStream:
        return self._handlers.event_stream(session_id, self.events_from_update)

    def session_update(self, params: Any, context: Any) -> None:
        stream = self._event_streams.get(params.session_id)
        if stream is None:
            stream = self._stream(params.session_id)
        connection = context.connection
        text = stream.receive(params.update, connection.message_bytes)
        if text is not None:
            connection.streamed_text.offered = MessageText(stream, text, self.events_from_update)

    # Asking the user.

    def _elicitation_capabilities(self) -> Any:
        types, handlers = self.types, self._handlers
        form = None if handlers.on_elicit_form is None else types.ElicitationFormCapabilities()
        url = None if handlers.on_elicit_url is None else types.ElicitationUrlCapabilities()
        if form is None and url is None:
            return None
        return types.ElicitationCapabilities(form=form, url=url)

    def _permission_options(self, options: list[Any]) -> tuple[PermissionOption, ...]:
        return tuple(PermissionOption(o.option_id, o.name, o.kind) for o in options)

    async def _decide(self, stream: SessionEventStream, request: PermissionRequest) -> Any:
        """Return the response to a permission request."""
        types = self.types
        with stream.question():
            option = await self._handlers.decide_permission(stream, request)
        outcome = (
            types.CancelledPermissionOutcome()
            if option is None
            else types.SelectedPermissionOutcome(option_id=option.id)
        )
        return types.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, params: Any, context: Any) -> Any:
        handlers = self._handlers
        session_id = getattr(params, "session_id", None)  # a mode of an unknown type has none
        session_id = session_id if isinstance(session_id, str) else None
        stream = handlers.event_streams.get(session_id or "")
        with nullcontext() if stream is None else stream.question():
            return await self._elicit(params, session_id)

    async def _elicit(self, params: Any, session_id: str | None) -> Any:
        types, handlers = self.types, self._handlers
        match params:
            case types.ElicitationFormMode() if handlers.on_elicit_form is not None:
                schema = to_builtins(params.requested_schema)
                form = form_from_schema(params.message, schema, session_id, params.tool_call_id)
                action, values = await handlers.elicit_form(form)
                if action == "accept":
                    return types.ElicitationAcceptAction(content=dict(values or {}))
            case types.ElicitationUrlMode() if handlers.on_elicit_url is not None:
                request = UrlElicitationRequest(
                    message=params.message,
                    url=params.url,
                    id=params.elicitation_id,
                    done=asyncio.Event(),
                    session_id=session_id,
                    tool_call_id=params.tool_call_id,
                )
                action = await handlers.elicit_url(request)
                if action == "accept":
                    return types.ElicitationAcceptAction()
            case _:
                # The capability of this mode was not advertised (R-ELIC-03).
                raise InvalidParams("The client does not support this elicitation mode")
        if action == "decline":
            return types.ElicitationDeclineAction()
        return types.ElicitationCancelAction()

    def complete_elicitation(self, params: Any, context: Any) -> None:
        self._handlers.complete_url(params.elicitation_id)

    # Outside sessions.

    def auth_status_update(self, params: Any, context: Any) -> None:
        self._handlers.auth_status_changed(auth_status_from_wire(params))

    async def message_mcp(self, params: Any, context: Any) -> Any:
        return await self._handlers.tools.request(params, context.agent.notify_mcp)

    def on_unknown_method(self, method: str) -> None:
        self._handlers.tools.unknown_method(method)

    def extension_request(self, method: str, params: Any, context: Any) -> Any:
        return self._handlers.call_extension(method, params, is_request=True)

    def extension_notification(self, method: str, params: Any, context: Any) -> Any:
        return self._handlers.call_extension(method, params, is_request=False)
