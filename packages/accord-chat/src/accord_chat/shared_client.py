"""This program as one of the clients of a session that stays open: the queue and the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from accord_terminal.sessions.journal import OthersAnswers, place_of
from accord_terminal.sessions.named import CALL, QueuedPrompt, SessionStatus

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.handlers import Extension


class SharedClient:
    """Knows the queue and the other clients; `say` gets what the user has to know."""

    def __init__(self, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self.name = _own_name()
        self.others: tuple[str, ...] = ()  # the names of the other clients
        self.queue: tuple[QueuedPrompt, ...] = ()  # the running prompt, then those that wait
        self._say = say
        self._changed = changed
        self._answers = OthersAnswers(lambda: self.name, self._say_answer)
        self._agent: ConnectedAgent | None = None
        self._begin = 0  # the entries before are history

    @property
    def extensions(self) -> Mapping[str, Extension]:
        """What the owner of the session tells its clients."""
        return {f"{CALL}entry": self._take_entry, f"{CALL}clients": self._take_clients}

    async def begin(self, agent: ConnectedAgent) -> None:
        """Introduce this client, before it opens the session."""
        self._agent = agent
        settings = {"name": self.name, "decides": True, "entries": True}
        answer = await agent.call_extension(f"{CALL}client", settings)
        status = msgspec.convert(answer, SessionStatus)
        self._begin = place_of(status.cursor, status.session_id)
        self.queue = status.queue
        self.others = tuple(name for name in status.clients if name != self.name)
        if answer["contextLost"]:
            self._say("The agent could not restore the conversation: its context is new")
        self._changed()

    def is_own(self, prompt: QueuedPrompt) -> bool:
        """Return whether this client has submitted a prompt."""
        return prompt.by == self.name

    @property
    def running(self) -> QueuedPrompt | None:
        """The prompt whose turn it is."""
        return next((prompt for prompt in self.queue if prompt.state == "running"), None)

    @property
    def waiting(self) -> tuple[QueuedPrompt, int] | None:
        """The own prompt that waits, and how many are before it."""
        for number, prompt in enumerate(self.queue):
            if prompt.state == "queued" and self.is_own(prompt):
                return prompt, number
        return None

    async def withdraw(self, prompt_id: str) -> None:
        """Remove a prompt of any client, or cancel its turn; raise `RequestError` if it is over."""
        assert self._agent is not None, "it has begun"
        await self._agent.call_extension(f"{CALL}withdraw", {"promptId": prompt_id})

    def _take_clients(self, params: Mapping[str, Any]) -> None:
        names = [*params["clients"]]
        with suppress(ValueError):
            names.remove(self.name)
        self.others = tuple(names)
        self._changed()

    def _take_entry(self, params: Mapping[str, Any]) -> None:
        entry = params["entry"]
        if entry.get("seq", 0) <= self._begin:
            return
        prompt_id = entry.get("prompt")
        match entry.get("kind"):
            case "queued":
                added = QueuedPrompt(prompt_id, "queued", entry["by"], entry["text"])
                self.queue = (*self.queue, added)
            case "started":
                self.queue = tuple(
                    msgspec.structs.replace(one, state="running")
                    if one.prompt_id == prompt_id
                    else one
                    for one in self.queue
                )
            case "ended":
                self.queue = tuple(one for one in self.queue if one.prompt_id != prompt_id)
            case _:
                self._answers(params)
                return
        self._changed()

    def _say_answer(self, text: str) -> None:
        self._say(f"{text[:1].upper()}{text[1:]}")


def _own_name() -> str:
    """Return a name that tells the terminals of a user apart."""
    place = f"process {os.getpid()}"
    with suppress(OSError):
        place = os.ttyname(1).removeprefix("/dev/")
    return f"accord chat ({place})"
