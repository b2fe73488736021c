"""Reads the updates of either version as events, and applies changes of the events to them.

An event has what its one update says: the fields of a `ToolCall` that are not in `changed` have
their defaults.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from accord.agent.client_adapter import cost_to_wire
from accord.client.agent_adapter import UpdateReader
from accord.client.events import (
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
from accord.types.content import TextContent
from accord.wire.base import UNSET

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
