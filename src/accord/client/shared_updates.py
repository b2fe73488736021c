"""What updates say of subagents and of messages between sessions; both versions say it alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from accord.client.events import SessionMessage, StateChanged, Subagent
from accord.client.message import merge_texts
from accord.client.transcript import Transcript
from accord.types.content import ContentBlock
from accord.wire.base import UNSET

if TYPE_CHECKING:
    from accord import v1, v2

__all__ = ("append_session_message", "apply_session_message", "apply_subagent")


def apply_subagent(
    update: v1.SubagentUpdate | v2.SubagentUpdate,
    transcript: Transcript,
    state_of: Callable[[Any], StateChanged],
) -> Subagent | None:
    """Return a subagent with a patch applied (R-SUBAG-04); None when nothing changed."""
    known = transcript.subagents.get(update.session_id)
    changes: dict[str, Any] = {
        name: value
        for name in ("title", "description", "cwd")
        if (value := getattr(update, name)) is not UNSET
    }
    if update.capabilities is not UNSET:
        offered = update.capabilities
        changes["cancellable"] = offered is not None and offered.cancel is not None
    if update.state is not UNSET:
        changes["state"] = None if update.state is None else state_of(update.state)
    if update.additional_directories is not UNSET:
        roots = update.additional_directories
        changes["additional_directories"] = None if roots is None else tuple(roots)
    new = replace(known or Subagent(id=update.session_id), **changes)
    return None if new == known else new


def apply_session_message(
    update: v1.SessionMessage | v2.SessionMessage,
    transcript: Transcript,
    content_of: Callable[[Any], ContentBlock],
) -> SessionMessage | None:
    """Return a message between sessions with a patch applied; None when nothing changed."""
    known = transcript.session_message(update.message_id)
    named = {
        "sender": update.sender_session_id,
        "recipient": update.recipient_session_id,
        "sender_message_id": update.sender_message_id,
        "recipient_message_id": update.recipient_message_id,
    }
    changes: dict[str, Any] = {key: value for key, value in named.items() if value is not UNSET}
    if update.content is not UNSET:
        changes["content"] = merge_texts(map(content_of, update.content or ()))
    new = replace(known or SessionMessage(id=update.message_id), **changes)
    return None if new == known else new


def append_session_message(
    update: v1.SessionMessageChunk | v2.SessionMessageChunk,
    transcript: Transcript,
    content_of: Callable[[Any], ContentBlock],
) -> SessionMessage:
    """Return a message between sessions with one more block."""
    known = transcript.session_message(update.message_id)
    new = known or SessionMessage(id=update.message_id)
    return replace(new, content=merge_texts([*new.content, content_of(update.content)]))
