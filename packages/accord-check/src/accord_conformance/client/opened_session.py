"""The sessions that a client under test opens, and its prompts in them."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

from msgspec import Struct, field

Json: TypeAlias = dict[str, Any]


class ClientOpenedSession(Struct, eq=False):
    """A session that the client opened; `sent_updates` are replayed when it is loaded."""

    id: str
    cwd: str
    additional_directories: list[str] = field(default_factory=list[str])
    mode: str = "kind"
    sent_updates: list[Json] = field(default_factory=list[Json])
    cancels: int = 0
    # Set when its first updates are sent.
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def directories(self) -> list[str]:
        """The directories in which the session may use files."""
        return [self.cwd, *self.additional_directories]


class ActivePrompt(Struct, eq=False):
    """A prompt in progress; `text` is what the user wrote."""

    session: ClientOpenedSession
    text: str
    cancels: int  # of the session, when the prompt arrived
