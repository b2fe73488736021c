"""Sessions that a session started, and messages between them (v1, unstable)."""

from __future__ import annotations

from typing import ClassVar

from accord.v1.content import ContentBlock
from accord.v1.ids import MessageId, SessionId
from accord.v1.state import SessionState
from accord.wire.base import UNSET, Lenient, LenientList, Patch, UnsetType, Wire

__all__ = (
    "SessionCancelCapabilities",
    "SessionMessage",
    "SessionMessageChunk",
    "SubagentSessionCapabilities",
    "SubagentUpdate",
)


class SessionCancelCapabilities(Wire):
    """The subagent can be cancelled."""

    __unstable__: ClassVar[bool] = True


class SubagentSessionCapabilities(Wire):
    """What the client can do with a subagent."""

    __unstable__: ClassVar[bool] = True

    cancel: Lenient[SessionCancelCapabilities | None] = None


class SubagentUpdate(Patch, tag_field="sessionUpdate", tag="subagent_update"):
    """A new or changed subagent. UNSET keeps the previous value, None clears it."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId  # of the subagent
    title: Lenient[str | None | UnsetType] = UNSET
    description: Lenient[str | None | UnsetType] = UNSET
    capabilities: Lenient[SubagentSessionCapabilities | None | UnsetType] = UNSET
    state: Lenient[SessionState | None | UnsetType] = UNSET
    cwd: str | None | UnsetType = UNSET  # while unknown: the parent's
    additional_directories: list[str] | None | UnsetType = UNSET  # while unknown: the parent's


class SessionMessage(Patch, tag_field="sessionUpdate", tag="session_message"):
    """A message between sessions. UNSET keeps the previous value, None clears it."""

    __unstable__: ClassVar[bool] = True

    message_id: MessageId
    sender_session_id: Lenient[SessionId | None | UnsetType] = UNSET
    recipient_session_id: Lenient[SessionId | None | UnsetType] = UNSET
    sender_message_id: Lenient[MessageId | None | UnsetType] = UNSET
    recipient_message_id: Lenient[MessageId | None | UnsetType] = UNSET
    content: Lenient[LenientList[ContentBlock] | None | UnsetType] = UNSET


class SessionMessageChunk(Wire, tag_field="sessionUpdate", tag="session_message_chunk"):
    """One more block of a message between sessions."""

    __unstable__: ClassVar[bool] = True

    message_id: MessageId
    content: ContentBlock
