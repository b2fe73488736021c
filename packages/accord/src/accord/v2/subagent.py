"""Subagents, and messages between sessions (v2, unstable)."""

from __future__ import annotations

from typing import ClassVar

from accord.v2.content import ContentBlock
from accord.v2.ids import AbsolutePath, MessageId, SessionId
from accord.v2.state import SessionState
from accord.wire.base import UNSET, Lenient, LenientList, Patch, UnsetType, Wire

__all__ = (
    "SessionCancelCapabilities",
    "SessionMessage",
    "SessionMessageChunk",
    "SubagentSessionCapabilities",
    "SubagentUpdate",
)


class SessionCancelCapabilities(Wire):
    """The child's work can be cancelled."""

    __unstable__: ClassVar[bool] = True


class SubagentSessionCapabilities(Wire):
    """What the client can do with the child."""

    __unstable__: ClassVar[bool] = True

    cancel: Lenient[SessionCancelCapabilities | None] = None


class SubagentUpdate(Patch, tag_field="sessionUpdate", tag="subagent_update"):
    """Creates or patches a child session; without a `cwd` it uses that of its parent."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    title: Lenient[str | None | UnsetType] = UNSET
    description: Lenient[str | None | UnsetType] = UNSET
    capabilities: Lenient[SubagentSessionCapabilities | None | UnsetType] = UNSET
    state: Lenient[SessionState | None | UnsetType] = UNSET
    cwd: AbsolutePath | None | UnsetType = UNSET
    additional_directories: list[AbsolutePath] | None | UnsetType = UNSET


class SessionMessage(Patch, tag_field="sessionUpdate", tag="session_message"):
    """Creates or patches a message from one session to another, as one of them sees it."""

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
