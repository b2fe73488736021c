"""The conversations of an inspection: one for each recording, and the client of a live agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from accord_inspector.talk.conversation import Conversation, RecordedMessages
from accord_inspector.talk.live_client import LiveClient


class _Hub(Protocol):
    def provide(self, name: str, value: Callable[[], Any]) -> None: ...
    def changed(self, name: str) -> None: ...


class _Inspection(Protocol):
    hub: Any

    def messages(self, recording: str = "") -> RecordedMessages: ...
    def now(self, since: float) -> float | None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


class Conversations:
    """Makes a conversation when it is first used; from then on it follows its recording.

    Its state is pushed to the pages under the name `conversation`, or `conversation:RECORDING`.
    """

    def __init__(self, inspection: _Inspection) -> None:
        self._inspection = inspection
        self._made: dict[str, Conversation] = {}

    def of(self, recording: str) -> Conversation:
        """Return the conversation of a recording; raise `ApiError` if it is unknown."""
        found = self._made.get(recording)
        if found is None:
            messages = self._inspection.messages(recording)
            hub: _Hub = self._inspection.hub
            name = f"conversation:{recording}" if recording else "conversation"
            found = Conversation(messages, lambda: hub.changed(name), self._inspection.now)
            self._made[recording] = found
            hub.provide(name, found.json)
            self._inspection.spawn(found.follow())
        return found

    def live_client(self, cwd: Path, command: Sequence[str]) -> LiveClient:
        """Return the client for a live agent with this command; its sessions start in `cwd`."""
        conversation = self.of("")
        client = LiveClient(
            cwd,
            command,
            self._inspection.spawn,
            conversation.client_changed,
            conversation.apply,
            conversation.problem,
        )
        conversation.attach(client)
        return client
