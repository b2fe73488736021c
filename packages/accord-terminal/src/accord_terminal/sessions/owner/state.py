"""What the parts of an owner share: the agent, its session, the queue and the journal."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from msgspec import Raw

from accord import v1, v2
from accord.agent.work import Background
from accord.types import convert_v1, convert_v2
from accord.wire.codec import decoder, encode
from accord_terminal.sessions.owner.contexts import Contexts
from accord_terminal.sessions.owner.prompts import PromptQueue

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.session import ClientSession
    from accord.types.content import ContentBlock
    from accord_terminal.sessions.entries import Entry
    from accord_terminal.sessions.journal import Journal
    from accord_terminal.sessions.owner.agent_frames import AgentFrames
    from accord_terminal.sessions.records import Record


class OwnerState(ABC):
    """The state of an owner, for what serves its clients."""

    agent: ConnectedAgent
    session: ClientSession
    frames: AgentFrames

    def __init__(self, record: Record, journal: Journal) -> None:
        self.record = record
        self.journal = journal
        self.queue: PromptQueue = PromptQueue()
        self.contexts: Contexts = Contexts()
        self.protocol: int = record.protocol or 1
        self.joined: asyncio.Event = asyncio.Event()  # replaced when a client opens the session
        self.no_background: Background = Background({}, [])

    @abstractmethod
    def add(self, entry: Entry) -> Entry:
        """Write an entry, and then show it."""

    @abstractmethod
    def client_names(self) -> list[str]:
        """Return the names of the clients that have opened the session."""

    def content_to_wire(self, content: tuple[ContentBlock, ...]) -> Raw:
        """Return content in the agent's version."""
        convert = convert_v1 if self.protocol == 1 else convert_v2
        return Raw(encode([convert.content_to_wire(block) for block in content]))

    def content_from_wire(self, content: Raw) -> tuple[ContentBlock, ...]:
        """Return content that is stored in the agent's version."""
        if self.protocol == 1:
            blocks = decoder(list[v1.ContentBlock])(bytes(content))
            return tuple(map(convert_v1.content_from_wire, blocks))
        return tuple(
            map(convert_v2.content_from_wire, decoder(list[v2.ContentBlock])(bytes(content)))
        )
