"""What sessions say to each other, shown in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from accord.agent.updates import SessionSaid

if TYPE_CHECKING:
    from accord.agent.session import Session
    from accord.types.content import Content

__all__ = ("send",)


async def send(sender: Session, recipient: Session, content: Sequence[Content]) -> None:
    """See `Verbs.send`."""
    if not sender.link.shows_subagents:
        return
    sent, received = sender.next_id("message"), recipient.next_id("message")
    both = sender.id, recipient.id
    await sender.report(_between(sent, *both, content, recipient_message_id=received))
    await recipient.report(_between(received, *both, content, sender_message_id=sent))


def _between(
    message_id: str,
    sender: str,
    recipient: str,
    content: Sequence[Content],
    *,
    sender_message_id: str | UnsetType = UNSET,
    recipient_message_id: str | UnsetType = UNSET,
) -> SessionSaid:
    return SessionSaid(
        id=message_id,
        sender=sender,
        recipient=recipient,
        sender_message_id=sender_message_id,
        recipient_message_id=recipient_message_id,
        content=tuple(content),
    )
