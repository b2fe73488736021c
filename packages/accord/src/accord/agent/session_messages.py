"""Messages from one session to another, shown in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from accord.agent.updates import SessionMessageUpdate

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore
    from accord.types.content import ContentBlock


async def send(
    sender: SessionCore, recipient: SessionCore, content: Sequence[ContentBlock]
) -> None:
    """See `SessionActions.send_session_message`."""
    if not sender.client_adapter.shows_subagents:
        return
    sent, received = sender.next_id("message"), recipient.next_id("message")
    both = sender.id, recipient.id
    await sender.publish(_session_message(sent, *both, content, recipient_message_id=received))
    await recipient.publish(_session_message(received, *both, content, sender_message_id=sent))


def _session_message(
    message_id: str,
    sender: str,
    recipient: str,
    content: Sequence[ContentBlock],
    *,
    sender_message_id: str | UnsetType = UNSET,
    recipient_message_id: str | UnsetType = UNSET,
) -> SessionMessageUpdate:
    return SessionMessageUpdate(
        id=message_id,
        sender=sender,
        recipient=recipient,
        sender_message_id=sender_message_id,
        recipient_message_id=recipient_message_id,
        content=tuple(content),
    )
