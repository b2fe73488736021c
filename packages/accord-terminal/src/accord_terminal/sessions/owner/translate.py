"""Turns updates of one protocol version into version-neutral ones, for clients of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from accord.agent.updates import (
    CommandsUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    NoticeUpdate,
    OptionsUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    Update,
)
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
    TerminalOutputChunk,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UsageChanged,
    UserText,
)
from accord.client.transcript import Transcript
from accord.errors import DecodeError
from accord.proxy.updates import proxied_version
from accord.types.content import ContentBlock
from accord_terminal.sessions.owner.forgetting import Forgetting

_TOOL_FIELDS = (
    "title",
    "kind",
    "status",
    "name",
    "content",
    "locations",
    "raw_input",
    "raw_output",
    "cancellable",
)
_ROLES: dict[type, MessageRole] = {Text: "agent", Thought: "thought", UserText: "user"}


class Translator:
    """Reads the updates of one session in their order; it keeps the state that they change.

    With `forgets`, only the end of the conversation is kept, however long it is.
    """

    def __init__(self, version: int, *, forgets: bool = True) -> None:
        self._version = proxied_version(version)
        self.transcript: Transcript = Transcript()
        self._forgetting = Forgetting() if forgets else None
        self._tools: set[str] = set()
        self._terminals: set[str] = set()
        self._role: MessageRole | None = None  # of the current message, if it has no id
        self._messages = 0

    def events(self, update: Raw) -> tuple[Event, ...]:
        """Return the events of an update; none for one that cannot be read."""
        try:
            decoded = self._version.decode(self._version.types.SessionUpdate, update)
        except (DecodeError, msgspec.MsgspecError):
            return ()
        found = self._version.read(decoded, self.transcript)
        events = () if found is None else found if isinstance(found, tuple) else (found,)
        for event in events:
            self.transcript.apply(event)
        if self._forgetting is not None:
            self._forgetting.updated((self.transcript,))
        return events

    def neutral(self, event: Event) -> Iterator[Update]:
        """Yield the neutral updates of an event; those of subagents are `SessionTranslator`'s."""
        match event:
            case Text(text, message_id) | Thought(text, message_id) | UserText(text, message_id):
                yield self._message(_ROLES[type(event)], message_id, (text,))
            case ContentChunk(content, role, message_id):
                yield self._message(role, message_id, (content,))
            case MessageReplaced(role, message_id, content):
                yield self._message(role, message_id, content)
            case ToolCall():
                self._role = None
                is_new = event.id not in self._tools
                self._tools.add(event.id)
                yield tool_call_update(event, is_new=is_new)
            case Plan():
                yield _plan(event)
            case CommandsChanged(commands):
                yield CommandsUpdate(commands)
            case OptionsChanged(options):
                yield OptionsUpdate(options)
            case ModeChanged():
                yield OptionsUpdate(self.transcript.options, mode_changed=True)
            case UsageChanged(usage):
                yield ContextUsageUpdate(usage)
            case TitleChanged(title):
                yield TitleUpdate(title)
            case Notice(severity, title, description):
                yield NoticeUpdate(severity, title, description)
            case Compaction():
                yield CompactionUpdate(
                    event.id,
                    event.status,
                    UNSET if event.error is None else event.error,
                    event.summary or UNSET,
                )
            case AgentTerminal():
                yield from self._terminal(event)
            case TerminalOutputChunk(terminal_id, data):
                yield TerminalOutputUpdate(terminal_id, data)
            case _:
                return

    def _message(
        self, role: MessageRole, message_id: str | None, content: tuple[ContentBlock, ...]
    ) -> MessageUpdate:
        if message_id is None:
            if role != self._role:
                self._messages += 1
            message_id = f"message-{self._messages}"
        self._role = role
        return MessageUpdate(role, message_id, content)

    def _terminal(self, event: AgentTerminal) -> Iterator[Update]:
        if event.id not in self._terminals:
            self._terminals.add(event.id)
            command, cwd = event.command or "", event.cwd or ""
            yield TerminalStarted(event.id, command, cwd, event.cancellable)
        if event.exited:
            yield TerminalExited(event.id, event.exit_code, event.signal)


def tool_call_update(event: ToolCall, *, is_new: bool) -> ToolCallUpdate:
    """Return a tool call, all of it if it is new, else what has changed."""
    names = _TOOL_FIELDS if is_new else [name for name in _TOOL_FIELDS if name in event.changed]
    values: dict[str, Any] = {name: getattr(event, name) for name in names}
    if "content" in values:
        values["content"] = tuple(values["content"])
    for name in ("name", "raw_input", "raw_output"):
        if values.get(name, UNSET) is None:
            del values[name]
    return ToolCallUpdate(id=event.id, is_new=is_new, **values)


def _plan(event: Plan) -> Update:
    plan_id = event.id or "plan"
    if event.removed:
        return PlanRemoved(plan_id)
    if event.markdown is not None:
        return PlanMarkdownUpdate(plan_id, event.markdown)
    if event.uri is not None:
        return PlanFileUpdate(plan_id, event.uri)
    return PlanUpdate(plan_id, event.entries)
