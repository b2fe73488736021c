"""Session updates: everything that an agent reports about a session (v2)."""

from __future__ import annotations

from typing import TypeAlias

from accord.v2.commands import AvailableCommandsUpdate
from accord.v2.compaction import CompactionSummaryChunk, CompactionUpdate, Notice
from accord.v2.config import ConfigOptionUpdate
from accord.v2.content import ContentBlock
from accord.v2.ids import DateTime, MessageId, SessionId
from accord.v2.plan import PlanRemoved, PlanUpdate
from accord.v2.state import StateUpdate
from accord.v2.subagent import SessionMessage, SessionMessageChunk, SubagentUpdate
from accord.v2.terminal import TerminalOutputChunk, TerminalUpdate
from accord.v2.tool_call import ToolCallContentChunk, ToolCallUpdate
from accord.wire.base import (
    UNSET,
    Lenient,
    LenientList,
    Open,
    Patch,
    UInt64,
    UnsetType,
    Unstable,
    Wire,
)
from accord.wire.method import Method

__all__ = (
    "AgentMessage",
    "AgentMessageChunk",
    "AgentThought",
    "AgentThoughtChunk",
    "ContentChunk",
    "Cost",
    "MessageUpdateBase",
    "SessionInfoUpdate",
    "SessionUpdate",
    "UpdateSessionNotification",
    "UsageUpdate",
    "UserMessage",
    "UserMessageChunk",
)


class ContentChunk(Wire):
    """One more block of a message."""

    message_id: MessageId
    content: ContentBlock


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """One more block of a message of the user."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """One more block of a message of the agent."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """One more block of the agent's thinking."""


class MessageUpdateBase(Patch):
    """Creates or patches a message; `content` replaces all previous content."""

    message_id: MessageId
    content: Lenient[LenientList[ContentBlock] | None | UnsetType] = UNSET


class UserMessage(MessageUpdateBase, tag_field="sessionUpdate", tag="user_message"):
    """A message of the user; it confirms that a prompt is inserted in the conversation."""


class AgentMessage(MessageUpdateBase, tag_field="sessionUpdate", tag="agent_message"):
    """A message of the agent."""


class AgentThought(MessageUpdateBase, tag_field="sessionUpdate", tag="agent_thought"):
    """A piece of the agent's thinking."""


class SessionInfoUpdate(Patch, tag_field="sessionUpdate", tag="session_info_update"):
    """Patches the session's metadata; `updated_at` is RFC 3339."""

    title: Lenient[str | None | UnsetType] = UNSET
    updated_at: Lenient[DateTime | None | UnsetType] = UNSET


class Cost(Wire):
    """The cost of the session so far; `currency` is an ISO 4217 code or another unit."""

    amount: float
    currency: str


class UsageUpdate(Wire, tag_field="sessionUpdate", tag="usage_update"):
    """The used part of the context window, in tokens; `cost` is three-state."""

    used: UInt64
    size: UInt64
    cost: Lenient[Cost | None | UnsetType] = UNSET


SessionUpdate: TypeAlias = Open[
    UserMessageChunk
    | UserMessage
    | AgentMessageChunk
    | AgentMessage
    | AgentThoughtChunk
    | AgentThought
    | StateUpdate
    | ToolCallContentChunk
    | ToolCallUpdate
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdate
    | Unstable[PlanRemoved]
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | Unstable[SubagentUpdate]
    | Unstable[SessionMessage]
    | Unstable[SessionMessageChunk]
]


class UpdateSessionNotification(Wire):
    """An update of a session; updates are applied in the order of arrival."""

    session_id: SessionId
    update: SessionUpdate


METHODS: tuple[Method, ...] = (
    Method(
        name="session/update",
        call="session_update",
        params=UpdateSessionNotification,
        to="client",
    ),
)
