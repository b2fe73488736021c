"""What proxies read and change in the updates of either version, and keep for each session.

`UpdateEditor` reads updates as events, and applies changes of the events to them; an event has what
its one update says: the fields of a `ToolCall` that are not in `changed` have their defaults.
`ProxiedVersion` has the editor and types of a version, `SessionRedaction` removes secrets from
streams and from all other strings, and `ProxiedSession` is what a proxy knows about a session.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from accord.agent.client_adapter import cost_to_wire, option_to_wire
from accord.client.agent_adapter import AgentAdapter, UpdateReader
from accord.client.events import (
    FINAL_STATUSES,
    AgentTerminal,
    CommandsChanged,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    ModeChanged,
    Notice,
    OptionsChanged,
    Plan,
    Role,
    SessionMessage,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UnknownUpdate,
    UpdatedAtChanged,
    UsageChanged,
    UserText,
)
from accord.client.transcript import Transcript
from accord.text.lenient_json import is_object
from accord.text.redact import Redactor, StreamRedactor
from accord.transports.base import Frame
from accord.types.content import TextContent
from accord.wire.base import UNSET
from accord.wire.codec import decoder
from accord.wire.protocol import Method, ProtocolSpec

_EMPTY = Transcript()  # is not changed
_TOOL_CALL_FIELDS = ("title", "kind", "status", "name", "raw_input", "raw_output", "meta")


class UpdateEditor:
    """Reads and changes the updates of one version; `types` is its package."""

    def __init__(
        self,
        types: Any,
        read: UpdateReader,
        content_from_wire: Callable[[Any], Any],
        content_to_wire: Callable[[Any], Any],
        tool_content_to_wire: Callable[[Any], Any],
        commands_to_wire: Callable[[Any], list[Any]],
        option_to_wire: Callable[[Any], Any],
    ) -> None:
        self.types = types
        self._read = read
        self._content_from_wire = content_from_wire
        self._content_to_wire = content_to_wire
        self._tool_content_to_wire = tool_content_to_wire
        self.commands_to_wire: Callable[[Any], list[Any]] = commands_to_wire
        self._option_to_wire = option_to_wire
        self._replaced: dict[type, Role] = (
            {types.AgentMessage: "agent", types.AgentThought: "thought", types.UserMessage: "user"}
            if hasattr(types, "AgentMessage")
            else {}
        )

    def events(self, update: Any) -> tuple[Event, ...]:
        """Return the events of an update; none if it says nothing that an event has."""
        role = self._replaced.get(update.__class__)
        if role is not None:
            if update.content is UNSET:
                return ()
            content = tuple(map(self._content_from_wire, update.content or ()))
            meta: Any = update.meta
            known = meta if is_object(meta) else None
            return (MessageReplaced(role, update.message_id, content, known),)
        found = self._read(update, _EMPTY)
        if found is None:
            return ()
        return found if isinstance(found, tuple) else (found,)

    def changed(
        self, update: Any, before: Sequence[Event], after: Sequence[Event | None]
    ) -> Any | None:
        """Return an update with the changes of its events; None if all events were dropped.

        Raise `TypeError` for a change that the update cannot express.
        """
        kept = 0
        for old, new in zip(before, after, strict=True):
            if new is None:
                if len(before) > 1:
                    update = self._without(update, old)
                continue
            kept += 1
            if new is old:
                continue
            if type(new) is not type(old):
                raise TypeError(
                    f"A proxy returned a {type(new).__name__} for a {type(old).__name__}: expected"
                    " the same type, or None to drop it"
                )
            update = self._with(update, old, new)
            if update is None:
                kept -= 1
                break
        return update if kept else None

    def _without(self, update: Any, event: Event) -> Any:
        """Return an update that has several events without one of them."""
        match event:
            case TitleChanged():
                return replace(update, title=UNSET)
            case UpdatedAtChanged():
                return replace(update, updated_at=UNSET)
            case TerminalOutputChunk():
                return replace(update, output=UNSET)
            case AgentTerminal():
                output = update.output
                return replace(self.types.TerminalUpdate(terminal_id=event.id), output=output)
            case _:
                return update

    def _with(self, update: Any, old: Any, new: Any) -> Any | None:
        """Return an update with the changed fields of an event."""
        changed = {
            name
            for name in old.__struct_fields__
            if getattr(old, name) is not getattr(new, name)
            and getattr(old, name) != getattr(new, name)
        }
        if isinstance(new, Text | Thought | UserText) and "text" in changed and not new.text:
            return None
        if isinstance(new, ToolCall) and "content" in changed and self._is_empty_chunk(update, new):
            return None
        changed.discard("changed")
        changes: dict[str, Any] = {}
        if "meta" in changed:
            changed.discard("meta")
            changes["meta"] = new.meta
        edit = _EDITS.get(old.__class__)
        if edit is not None:
            changes |= edit(self, update, old, new, changed)
        if changed:
            raise TypeError(
                f"A proxy changed {', '.join(sorted(changed))} of a {type(old).__name__}, which"
                f" a {type(update).__name__} cannot express"
            )
        return replace(update, **changes) if changes else update

    def _is_empty_chunk(self, update: Any, call: ToolCall) -> bool:
        if type(update) is not getattr(self.types, "ToolCallContentChunk", None):
            return False
        return all(isinstance(item, str) and not len(item) for item in call.content)

    def content_blocks(self, blocks: Iterable[Any]) -> tuple[Any, ...]:
        """Return content blocks as version-neutral content."""
        return tuple(map(self._content_from_wire, blocks))

    def chunk(self, event: Any) -> Any:
        """Return the update of a streamed event."""
        types = self.types
        if isinstance(event, TerminalOutputChunk):
            data = base64.b64encode(event.data).decode("ascii")
            return types.TerminalOutputChunk(terminal_id=event.id, data=data)
        if isinstance(event, ToolCall):
            content = self.tool_content(event.content[0])
            return types.ToolCallContentChunk(tool_call_id=event.id, content=content)
        kinds = {
            Text: types.AgentMessageChunk,
            Thought: types.AgentThoughtChunk,
            UserText: types.UserMessageChunk,
        }
        block = types.TextContent(text=event.text)
        return kinds[type(event)](content=block, message_id=event.message_id)

    # Lists: an item that is not changed keeps its wire value.

    def aligned(
        self,
        wire: Sequence[Any] | None,
        old: Iterable[Any],
        new: Iterable[Any],
        to_wire: Callable[[Any], Any],
    ) -> list[Any]:
        """Return the wire values of changed items."""
        known = list(zip(old, wire or (), strict=False))
        made: list[Any] = []
        for item in new:
            place = next((at for at, (value, _) in enumerate(known) if value == item), None)
            made.append(to_wire(item) if place is None else known.pop(place)[1])
        return made

    def contents(self, wire: Any, old: Any, new: Any) -> list[Any]:
        """Return changed content blocks."""
        return self.aligned(wire if wire is not UNSET else (), old, new, self._content_to_wire)

    def content(self, value: Any) -> Any:
        """Return one content block."""
        return self._content_to_wire(value)

    def tool_content(self, value: Any) -> Any:
        """Return one item of a tool call's content."""
        return self._tool_content_to_wire(value)

    def options(self, wire: Any, old: Any, new: Any) -> list[Any]:
        """Return changed config options."""
        return self.aligned(wire, old, new, self._option_to_wire)

    def commands(self, wire: Any, old: Any, new: Any) -> list[Any]:
        """Return changed commands."""
        return self.aligned(wire, old, new, lambda command: self.commands_to_wire((command,))[0])


# What each event can change. A function removes the names of the fields that it handles.


def _text(editor: UpdateEditor, _update: Any, _old: Any, new: Any, changed: set[str]) -> Any:
    changes: dict[str, Any] = {}
    if "message_id" in changed:
        changes["message_id"] = new.message_id
    block = {"text", "annotations", "content_meta"}
    if changed & block:
        whole = TextContent(new.text, annotations=new.annotations, meta=new.content_meta)
        changes["content"] = editor.content(whole)
    changed -= {*block, "message_id"}
    return changes


def _chunk(editor: UpdateEditor, _update: Any, _old: Any, new: Any, changed: set[str]) -> Any:
    changed -= {"content", "message_id"}
    return {"content": editor.content(new.content), "message_id": new.message_id}


def _message(editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    changed.discard("content")
    return {"content": editor.contents(update.content, old.content, new.content)}


def _tool_call(editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    types = editor.types
    if type(update) is getattr(types, "ToolCallContentChunk", None):
        if "content" not in changed or len(new.content) != 1:
            return {}
        changed.discard("content")
        return {"content": editor.tool_content(new.content[0])}
    changes = {name: getattr(new, name) for name in _TOOL_CALL_FIELDS if name in changed}
    changed.difference_update(changes)
    for name, to_wire in (("content", editor.tool_content), ("locations", _location(types))):
        if name in changed:
            changed.discard(name)
            wire = getattr(update, name)
            changes[name] = editor.aligned(
                wire if wire is not UNSET else (), getattr(old, name), getattr(new, name), to_wire
            )
    return changes


def _location(types: Any) -> Callable[[Any], Any]:
    return lambda place: types.ToolCallLocation(path=place.path, line=place.line)


def _plan(editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    types = editor.types
    plan = getattr(update, "plan", update)
    changes: dict[str, Any] = {}
    if "entries" in changed and hasattr(plan, "entries"):
        changed.discard("entries")

        def entry(item: Any) -> Any:
            return types.PlanEntry(content=item.content, priority=item.priority, status=item.status)

        changes["entries"] = editor.aligned(plan.entries, old.entries, new.entries, entry)
    if "markdown" in changed and hasattr(plan, "content"):
        changed.discard("markdown")
        changes["content"] = new.markdown
    if "uri" in changed and hasattr(plan, "uri"):
        changed.discard("uri")
        changes["uri"] = new.uri
    if not changes or plan is update:
        return changes
    return {"plan": replace(plan, **changes)}


def _commands(editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    changed.discard("commands")
    wire = update.available_commands
    return {"available_commands": editor.commands(wire, old.commands, new.commands)}


def _options(editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    if len(old.options) != len(update.config_options):
        return {}  # it has options of an unknown type
    changed.discard("options")
    return {"config_options": editor.options(update.config_options, old.options, new.options)}


def _usage(editor: UpdateEditor, _update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    changed.discard("usage")
    changes: dict[str, Any] = {"used": new.usage.used, "size": new.usage.size}
    if new.usage.cost != old.usage.cost:
        changes["cost"] = cost_to_wire(editor.types, new.usage.cost)
    return changes


def _compaction(editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]) -> Any:
    if hasattr(update, "content"):  # a chunk of the summary
        if "summary" not in changed or len(new.summary) != 1:
            return {}
        changed.discard("summary")
        return {"content": editor.content(new.summary[0])}
    changes: dict[str, Any] = {}
    if "summary" in changed:
        changes["summary"] = editor.contents(update.summary, old.summary, new.summary)
    changes |= {name: getattr(new, name) for name in ("status", "error") if name in changed}
    changed -= {"summary", "status", "error"}
    return changes


def _session_message(
    editor: UpdateEditor, update: Any, old: Any, new: Any, changed: set[str]
) -> Any:
    if "content" not in changed:
        return {}
    changed.discard("content")
    if not hasattr(update, "sender_session_id"):  # a chunk
        return {"content": editor.content(new.content[0])} if len(new.content) == 1 else {}
    return {"content": editor.contents(update.content, old.content, new.content)}


def _output(editor: UpdateEditor, update: Any, _old: Any, new: Any, changed: set[str]) -> Any:
    changed.discard("data")
    data = base64.b64encode(new.data).decode("ascii")
    if hasattr(update, "data"):
        return {"data": data}
    return {"output": editor.types.TerminalOutput(data=data)}


def _renamed(**fields: str) -> Callable[..., Any]:
    """Return a function for fields that the update has, under these names."""

    def edit(_editor: UpdateEditor, _update: Any, _old: Any, new: Any, changed: set[str]) -> Any:
        changes = {wire: getattr(new, name) for name, wire in fields.items() if name in changed}
        changed.difference_update(fields)
        return changes

    return edit


_EDITS: dict[type, Callable[..., Any]] = {
    Text: _text,
    Thought: _text,
    UserText: _text,
    ContentChunk: _chunk,
    MessageReplaced: _message,
    ToolCall: _tool_call,
    Plan: _plan,
    CommandsChanged: _commands,
    ModeChanged: _renamed(mode="current_mode_id"),
    OptionsChanged: _options,
    UsageChanged: _usage,
    TitleChanged: _renamed(title="title"),
    UpdatedAtChanged: _renamed(updated_at="updated_at"),
    Notice: _renamed(severity="severity", title="title", description="description"),
    Compaction: _compaction,
    Subagent: _renamed(title="title", description="description"),
    SessionMessage: _session_message,
    AgentTerminal: _renamed(command="command", cwd="cwd"),
    TerminalOutputChunk: _output,
    StateChanged: _renamed(stop_reason="stop_reason"),
    UnknownUpdate: _renamed(),
}


# What proxies need to know about each version, imported when a chain has it.


class ProxiedVersion(Struct, frozen=True):
    """One version: its types and methods, and how its updates are read and changed."""

    number: int
    types: Any
    spec: ProtocolSpec
    methods: dict[str, Method]  # by their names in Python
    editor: UpdateEditor
    adapter: AgentAdapter  # for conversions
    tool_updates: tuple[type, ...]
    apply_tool_call: Callable[[Any, Any], ToolCall | None]

    def decode(self, tp: Any, text: Raw) -> Any:
        """Return JSON text as a type of the version."""
        return decoder(tp)(text)

    @property
    def read(self) -> UpdateReader:
        """Return the events of an update."""
        return self.adapter.events_from_update


_OPTION_FIELDS = {
    1: {"id_field": "id", "group_field": "group"},
    2: {"id_field": "config_id", "group_field": "group_id"},
}


@cache
def proxied_version(number: int) -> ProxiedVersion:
    """Return a version; raise `ValueError` for one that is unknown."""
    unused = cast("Any", None)  # the adapter is only used for conversions
    if number == 1:
        from accord import v1
        from accord.agent import v1 as agent_updates_v1
        from accord.client import v1 as client_updates_v1
        from accord.client.v1 import AgentAdapterV1
        from accord.types import convert_v1
        from accord.v1.methods import SPEC as SPEC_V1

        return _version(
            1, v1, SPEC_V1, AgentAdapterV1(unused), client_updates_v1, agent_updates_v1, convert_v1
        )
    if number == 2:
        from accord import v2
        from accord.agent import v2 as agent_updates_v2
        from accord.client import v2 as client_updates_v2
        from accord.client.v2 import AgentAdapterV2
        from accord.types import convert_v2
        from accord.v2.methods import SPEC as SPEC_V2

        return _version(
            2, v2, SPEC_V2, AgentAdapterV2(unused), client_updates_v2, agent_updates_v2, convert_v2
        )
    raise ValueError(f"Unknown protocol version: {number}")


def _version(
    number: int,
    types: Any,
    spec: ProtocolSpec,
    adapter: AgentAdapter,
    client_updates: Any,
    agent_updates: Any,
    convert: Any,
) -> ProxiedVersion:
    editor = UpdateEditor(
        types,
        client_updates.events_from_update,
        convert.content_from_wire,
        convert.content_to_wire,
        convert.tool_content_to_wire,
        agent_updates.commands_to_wire,
        lambda option: option_to_wire(types, option, **_OPTION_FIELDS[number]),
    )
    methods = {method.call: method for method in spec.methods}
    names = ("ToolCall", "ToolCallUpdate", "ToolCallContentChunk")
    tool_updates = tuple(getattr(types, name) for name in names if hasattr(types, name))
    return ProxiedVersion(
        number,
        types,
        spec,
        methods,
        editor,
        adapter,
        tool_updates,
        client_updates.apply_tool_call,
    )


# Redacts the updates of one session: its streams of text and output, and all other strings.

# Ids and tags: they are compared, not read, so a change would break the session.
KEPT_KEYS = frozenset(
    (
        "compactionId",
        "currentModeId",
        "kind",
        "messageId",
        "optionId",
        "planId",
        "sessionId",
        "sessionUpdate",
        "state",
        "status",
        "terminalId",
        "toolCallId",
        "type",
    )
)


_MAX_STREAMS = 1000  # of one session


class _Stream:
    """A stream, and the last event of it."""

    __slots__ = ("event", "is_fed", "redactor")

    def __init__(self, event: Any, redactor: StreamRedactor[Any]) -> None:
        self.event = event
        self.redactor = redactor
        self.is_fed = False  # by the update that is handled now

    def flush(self, before: Any) -> Any:
        """Return what was held back, after what comes `before` it; None if there is nothing."""
        rest = self.redactor.feed(before) if before else None
        if self.redactor.holds:
            held = self.redactor.flush()
            rest = held if rest is None else rest + held
        return rest


def _flushed(streams: Iterable[tuple[Redactor, _Stream]]) -> list[Any]:
    """Return an event with what was held back, if there is any.

    These streams have the same parts, in the order of the calls of `redacted`: what one of them
    releases, the next ones read.
    """
    rest: Any = None
    event: Any = None
    for found, stream in streams:
        if stream.is_fed:  # it has read what comes after the rest
            if rest:
                rest = found.data(rest) if isinstance(rest, bytes) else found.text(rest)
        elif stream.redactor.holds or rest:
            rest = stream.flush(rest)
            event = event or stream.event
    if not rest:
        return []
    match event:
        case TerminalOutputChunk():
            return [TerminalOutputChunk(event.id, rest)]
        case ToolCall():
            return [ToolCall(id=event.id, content=(rest,), changed=("content",))]
        case _:
            return [type(event)(rest, event.message_id)]


class SessionRedaction:
    """What `redacted` has found out about the updates of one session.

    It is the `RedactedStreams` while the proxy handles an event of this session.
    """

    __slots__ = ("_is_tool_content", "_released", "_streams", "used")

    def __init__(self) -> None:
        self.used: list[Redactor] = []  # by the update that is handled now
        self._is_tool_content = False  # the update appends to the content of a tool call
        self._released: list[Any] = []  # events to send before the update
        # All texts of a role are one stream, also those of several messages: a message can end
        # within a secret. The key has the type and the id of what grows.
        self._streams: dict[tuple[type, str], dict[Redactor, _Stream]] = {}

    def start(self, *, is_tool_content: bool) -> None:
        """Begin with an update."""
        self.used = []
        self._is_tool_content = is_tool_content
        for streams in self._streams.values():
            for stream in streams.values():
                stream.is_fed = False

    def may_occur_in(self, json: bytes) -> bool:
        """Return False if no secret of this update can occur in the strings of a JSON text."""
        return any(found.may_occur_in(json) for found in self.used)

    def value(self, value: Any) -> Any:
        """Return builtin values without the secrets of this update."""
        for found in self.used:
            value = found.value(value, KEPT_KEYS)
        return value

    def redacted_part(self, event: Any, found: Redactor) -> tuple[str, Any] | None:
        """Return the streamed field of an event, without the secrets (`RedactedStreams`)."""
        self.used.append(found)
        match event:
            case Text() | Thought() | UserText():
                stream = self._stream(event, "", found)
                if stream.is_fed:  # `redacted` is called twice with these secrets
                    return None
                if stream.event.message_id != event.message_id:
                    self._released += self._flushed_from(event.__class__, stream)
                return "text", self._feed(stream, event, event.text)
            case TerminalOutputChunk():
                if event.replaces:
                    self._streams.get((TerminalOutputChunk, event.id), {}).pop(found, None)
                stream = self._stream(event, event.id, found)
                if stream.is_fed:
                    return None
                return "data", self._feed(stream, event, event.data)
            case ToolCall() if self._is_tool_content and len(event.content) == 1:
                shown = event.content[0]
                if not isinstance(shown, str):
                    return None
                stream = self._stream(event, event.id, found)
                if stream.is_fed:
                    return None
                return "content", (self._tool_text(stream, event, shown, found),)
            case _:
                return None

    def _tool_text(self, stream: _Stream, event: ToolCall, shown: str, found: Redactor) -> str:
        text: str = self._feed(stream, event, str(shown))
        if not isinstance(shown, TextContent):
            return text
        return TextContent(text, annotations=shown.annotations, meta=found.value(shown.meta))

    def _stream(self, event: Any, name: str, found: Redactor) -> _Stream:
        key: tuple[type, str] = (event.__class__, name)
        streams = self._streams.setdefault(key, {})
        stream = streams.get(found)
        if stream is None:
            is_data = isinstance(event, TerminalOutputChunk)
            stream = _Stream(event, found.data_stream() if is_data else found.text_stream())
            streams[found] = stream
            if len(self._streams) > _MAX_STREAMS:
                oldest = self._streams.pop(next(iter(self._streams)))
                self._released += _flushed(oldest.items())
            if len(streams) > _MAX_STREAMS:
                self._released += self._flushed_from(event.__class__, stream)
                del streams[next(iter(streams))]
        return stream

    def _flushed_from(self, kind: type, first: _Stream) -> list[Any]:
        """Return what a stream of text holds back, through those that read what it releases."""
        streams = list(self._streams[kind, ""].items())
        at = next(n for n, (_, stream) in enumerate(streams) if stream is first)
        return _flushed(streams[at:])

    @staticmethod
    def _feed(stream: _Stream, event: Any, part: Any) -> Any:
        stream.event, stream.is_fed = event, True
        return stream.redactor.feed(part)

    def flush(self) -> list[Any]:
        """Return events with what was held back, before an update of other streams passes."""
        released, self._released = self._released, []
        for streams in self._streams.values():
            released += _flushed(streams.items())
        return released

    def end_turn(self) -> list[Any]:
        """Return events with what was held back.

        The streams stay: the next turn can begin with the rest of a secret.
        """
        self.start(is_tool_content=False)
        return self.flush()


_MAX_TOOL_CALLS = 1000  # of one session, that are not final
_MAX_UNREAD = 16  # updates of one call
_MAX_UNREAD_BYTES = 16 * 1024  # of one update
_MAX_SESSIONS = 10_000  # that were not closed


class ProxiedSession:
    """One session: only what later messages need."""

    __slots__ = (
        "_read",
        "_tool_calls",
        "_unread",
        "cwd",
        "has_commands",
        "id",
        "redaction",
        "state",
        "turns",
    )

    def __init__(self, session_id: str) -> None:
        self.id: str = session_id
        self.cwd: str = ""
        self.redaction: SessionRedaction = SessionRedaction()
        self.has_commands: bool = False  # the agent has sent its slash commands
        self.turns: list[Any] = []  # the running ones; version 2 allows several
        self.state: StateChanged | None = None  # in version 2
        self._tool_calls: dict[str, ToolCall] = {}
        self._unread: dict[str, list[Frame]] = {}  # updates of tool calls, after what is kept
        self._read: Callable[[ProxiedSession, Frame], None] | None = None

    def tool_call(self, call_id: str) -> ToolCall | None:
        """Return a tool call that is not final."""
        for text in self._unread.pop(call_id, ()):
            assert self._read is not None, "something was kept unread"
            self._read(self, text)
        return self._tool_calls.get(call_id)

    @property
    def calls(self) -> Any:
        """This session, where a reader of tool calls needs a transcript."""
        return self

    def keep(self, call: ToolCall) -> None:
        """Keep the state of a tool call until it is final."""
        self._forget(call.id)
        if not call.is_final:
            _keep_some(self._tool_calls, call.id, call)

    def keep_unread(
        self,
        call_id: str,
        status: str | None,
        text: Frame,
        read: Callable[[ProxiedSession, Frame], None],
    ) -> None:
        """Keep an update of a tool call; `read` keeps what it says when the call is asked for."""
        if status in FINAL_STATUSES:
            self._forget(call_id)
            return
        self._read = read
        texts = self._unread.pop(call_id, [])
        texts.append(text)
        _keep_some(self._unread, call_id, texts)
        if len(texts) > _MAX_UNREAD or len(text) > _MAX_UNREAD_BYTES:
            self.tool_call(call_id)

    def _forget(self, call_id: str) -> None:
        self._tool_calls.pop(call_id, None)
        self._unread.pop(call_id, None)

    def end_turn(self) -> None:
        """Forget what belonged to the turn."""
        self._tool_calls.clear()
        self._unread.clear()


def _keep_some(kept: dict[str, Any], call_id: str, value: Any) -> None:
    kept[call_id] = value
    if len(kept) > _MAX_TOOL_CALLS:
        del kept[next(iter(kept))]


class ProxiedSessions:
    """The sessions of one chain."""

    def __init__(self) -> None:
        self._sessions: dict[str, ProxiedSession] = {}

    def __getitem__(self, session_id: str) -> ProxiedSession:
        found = self._sessions.get(session_id)
        if found is None:
            found = self._sessions[session_id] = ProxiedSession(session_id)
            if len(self._sessions) > _MAX_SESSIONS:
                idle = (key for key, session in self._sessions.items() if not session.turns)
                self._sessions.pop(next(idle, session_id), None)
        return found

    def drop(self, session_id: str) -> None:
        """Forget a session that was closed."""
        self._sessions.pop(session_id, None)
