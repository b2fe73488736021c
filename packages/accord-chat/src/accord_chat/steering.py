"""What the user says while the agent works: steered, or queued, and with which outcome.

`Steering` belongs to a session. It passes messages on in their order, notes at each in the
conversation its outcome, and puts what was not sent back into the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol, TypeAlias

from accord.client.connect import ConnectedAgent
from accord.client.turn import ClientTurn, Fallback, Steered
from accord.errors import AccordError, LocalProtocolError, RequestError
from accord.types.content import ContentBlock
from accord_chat.model.conversation import Timeline
from accord_chat.model.prompts import PromptQueue, QueuedPrompt
from accord_terminal.toolkit.text import steered_text

SETTLE_S = 5.0  # after a turn, for the agent to report the outcome of a message

# What is done with a prompt that is written while the agent works.
Sending: TypeAlias = Literal["queue", "steer", "cancel"]
# How the agent takes a message while it works; `none` if it does not.
SteerWay: TypeAlias = Literal["native", "second prompt", "none"]
Contents: TypeAlias = Sequence[ContentBlock]

CANNOT = "the agent cannot be steered"
QUESTION = "a question of the agent is open"


class CanBeSteered(Protocol):
    """A turn, or a session in which another client has started one."""

    def steer(
        self, *contents: ContentBlock, fallback: Fallback = "queue"
    ) -> Awaitable[Steered]: ...


class Host(Protocol):
    """The session, as this uses it."""

    timeline: Timeline
    queue: PromptQueue

    def tell(self, text: str) -> None:
        """Show a text for some seconds."""
        ...

    def wake(self) -> None:
        """Draw again, and send what is in the queue if nothing runs."""
        ...


def steer_way(agent: ConnectedAgent | None) -> SteerWay:
    """Return how an agent takes a message while it works."""
    if agent is None:
        return "none"
    if agent.supports("steer"):
        return "native"
    return "second prompt" if agent.version == 2 else "none"


class Steering:
    """The messages of one session that are on their way, or that wait in its turn."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks: dict[asyncio.Task[None], QueuedPrompt] = {}
        self._held: list[tuple[Contents, QueuedPrompt]] = []  # given to the turn

    @property
    def unsent(self) -> list[QueuedPrompt]:
        """What is on its way, and what waits in the turn, here or at the agent."""
        waits = self._host.timeline.waits_for
        held = (prompt for _, prompt in self._held if waits(prompt.text))
        return [*held, *self._tasks.values()]

    def say(
        self, target: CanBeSteered, prompt: QueuedPrompt, contents: Contents, fallback: Fallback
    ) -> None:
        """Say a prompt to the agent in the running turn."""
        self._host.timeline.sync()
        since = len(self._host.timeline.entries)
        work = self._say(target, prompt, contents, fallback, since)
        task = asyncio.create_task(work, name="accord chat steer")
        self._tasks[task] = prompt
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._host.wake()

    async def _say(
        self,
        target: CanBeSteered,
        prompt: QueuedPrompt,
        contents: Contents,
        fallback: Fallback,
        since: int,
    ) -> None:
        host = self._host
        try:
            said = await target.steer(*contents, fallback=fallback)
        except LocalProtocolError:  # the turn has just ended, or is being cancelled
            host.queue.put_back(prompt)
        except RequestError as error:
            host.queue.put_back(prompt)
            host.timeline.remark(
                "The agent refuses this while it works, so it is queued", "warning", str(error)
            )
        except (AccordError, asyncio.CancelledError) as error:
            host.timeline.remark(
                "It is not known whether the agent has received this message:",
                "warning",
                prompt.text,
            )
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            if said.outcome in ("queued", "restarted"):
                self._held.append((contents, prompt))
            text = steered_text(said.outcome, said.by, said.reason)
            host.timeline.note_said(prompt.text, text, since)
            if said.outcome != "injected":
                host.tell(f"{text[:1].upper()}{text[1:]}")

    async def settle(self, turn: ClientTurn) -> None:
        """Wait for the outcome of each message; queue what was not sent."""
        if self._tasks:
            this = asyncio.current_task()
            is_leaving = this is not None and this.cancelling() > 0
            await asyncio.wait(self._tasks, timeout=0 if is_leaving else SETTLE_S)
            await self.aclose()
        for contents in reversed(turn.unsent):
            prompt = self._find(contents)
            if prompt is not None:
                self._host.queue.put_back(prompt)
                self._host.timeline.drop_note(prompt.text)
        self._held = []

    def _find(self, contents: Contents) -> QueuedPrompt | None:
        """Return the prompt whose contents these are, maybe after a note about what was cut."""
        for known, prompt in self._held:
            if tuple(contents[-len(known) :]) == tuple(known):
                return prompt
        return None

    async def aclose(self) -> None:
        """Give up what is on its way; a remark has its text."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
