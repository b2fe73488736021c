"""Session updates: everything that an agent reports about a session (v1)."""

from __future__ import annotations

from typing import TypeAlias

from accord.v1.commands import AvailableCommandsUpdate
from accord.v1.compaction import CompactionSummaryChunk, CompactionUpdate, Notice
from accord.v1.config import ConfigOptionUpdate
from accord.v1.content import ContentBlock
from accord.v1.ids import MessageId, SessionId, SessionModeId
from accord.v1.plan import Plan, PlanRemoved, PlanUpdate
from accord.v1.subagent import SessionMessage, SessionMessageChunk, SubagentUpdate
from accord.v1.tool_call import ToolCall, ToolCallUpdate
from accord.wire.base import UNSET, Lenient, Patch, UInt64, UnsetType, Unstable, Wire
from accord.wire.method import Method

__all__ = (
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "ContentChunk",
    "Cost",
    "CurrentModeUpdate",
    "SessionInfoUpdate",
    "SessionNotification",
    "SessionUpdate",
    "UsageUpdate",
    "UserMessageChunk",
)


class ContentChunk(Wire):
    """One more block of a message; a different `message_id` begins another message."""

    content: ContentBlock
    message_id: Lenient[MessageId | None] = None


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A block of a user message."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A block of an agent message."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A block of the agent's thinking."""


class CurrentModeUpdate(Wire, tag_field="sessionUpdate", tag="current_mode_update"):
    """The mode changed."""

    current_mode_id: SessionModeId


# Clearing all of `_meta` is read in v1 too.
class SessionInfoUpdate(Patch, tag_field="sessionUpdate", tag="session_info_update"):
    """The session's entry in the list changed. UNSET keeps a field, None clears it."""

    title: Lenient[str | None | UnsetType] = UNSET
    updated_at: Lenient[str | None | UnsetType] = UNSET  # ISO 8601


class Cost(Wire):
    """The cost of the session so far."""

    amount: float
    currency: str  # an ISO 4217 code or another unit, credits for instance


class UsageUpdate(Wire, tag_field="sessionUpdate", tag="usage_update"):
    """The used context and its size, in tokens."""

    used: UInt64
    size: UInt64
    cost: Lenient[Cost | None] = None


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | Unstable[PlanUpdate]
    | Unstable[PlanRemoved]
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | Unstable[SubagentUpdate]
    | Unstable[SessionMessage]
    | Unstable[SessionMessageChunk]
)


class SessionNotification(Wire):
    """An update of a session."""

    session_id: SessionId
    update: SessionUpdate


METHODS: tuple[Method, ...] = (
    Method(
        name="session/update",
        call="session_update",
        params=SessionNotification,
        to="client",
    ),
)
