"""A turn: what the user said, and all that the agent does about it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from accord.agent.background import working_for
from accord.agent.verbs import Verbs
from accord.errors import InternalError, RequestError, TransportError
from accord.tasks import is_being_cancelled
from accord.wire.base import UNSET

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.reports import Ended
    from accord.agent.session import Session
    from accord.model.content import Audio, Content, Image, Link, Resource
    from accord.model.session import Tokens

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("Turn",)

log = logging.getLogger("accord.agent")


class Turn(Verbs):
    """One prompt being worked on; `content` is what the user said.

    `tokens` are what it took: set them, and they are told with its end (unstable).
    """

    def __init__(self, session: Session, content: tuple[Content, ...]) -> None:
        self.session = session
        self.content = content
        self.message_id = ""
        self.cancelled = False
        self.tokens: Tokens | None = None
        self.is_over = False  # what it began and has not ended goes on in the background
        self._task: asyncio.Task[object] | None = None
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.finished = asyncio.Event()

    # What the user said.

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources stand in it as Markdown."""
        from accord.model.content import text_of

        return text_of(self.content)

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the prompt."""
        from accord.model.content import Image

        return tuple(part for part in self.content if isinstance(part, Image))

    @property
    def audio(self) -> tuple[Audio, ...]:
        """The sounds of the prompt."""
        from accord.model.content import Audio

        return tuple(part for part in self.content if isinstance(part, Audio))

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that came with their content."""
        from accord.model.content import Resource

        return tuple(part for part in self.content if isinstance(part, Resource))

    @property
    def links(self) -> tuple[Link, ...]:
        """The resources that the agent can read by itself."""
        from accord.model.content import Link

        return tuple(part for part in self.content if isinstance(part, Link))

    @property
    def turn_here(self) -> Turn | None:
        """See `Verbs`."""
        return working_for.get(self)

    # How it goes.

    def cancel(self) -> None:
        """Stop it: however its handler ends now, it ends as cancelled."""
        if not self.cancelled:
            self.cancelled = True
            if self._task is not None:
                self._task.cancel()

    def queue(self) -> None:
        """Take a place behind the turns before."""
        self.session.turns.append(self)
        if self.session.turns[0] is self:
            self.go()

    def go(self) -> None:
        """It is the first now."""
        if not self._first.done():
            self._first.set_result(None)

    async def wait_first(self) -> None:
        """Return when the turns before are over; withdraw when cancelled until then."""
        try:
            await self._first
        except asyncio.CancelledError:
            self.leave()
            raise

    def leave(self) -> None:
        """Let the next turn begin."""
        turns = self.session.turns
        turns.remove(self)
        self.finished.set()
        if turns:
            turns[0].go()

    async def insert(self) -> None:
        """Give the prompt its place in the conversation; a cancel has to wait for that."""
        from accord.agent.reports import Said

        session = self.session
        self.message_id = session.next_id("message")
        storing = asyncio.ensure_future(session.record(Said("user", self.message_id, self.content)))
        while not storing.done():
            try:
                await asyncio.shield(storing)
            except asyncio.CancelledError:
                self.cancelled = True
        storing.result()
        session.end_message()

    async def work(self, agent: Agent) -> Ended:
        """Let the agent work, and return how that ended; it is stored, not yet sent."""
        from accord.agent.reports import Ended

        self._task = asyncio.current_task()
        working_for.set(self)
        ended = Ended("cancelled") if self.cancelled else await self._handled(agent)
        if self.cancelled or is_being_cancelled():
            ended = Ended("cancelled")
            await self._settle()
        self._task = None
        self.is_over = True
        if self.tokens is not None and agent.unstable:
            ended = replace(ended, tokens=self.tokens)
        self.session.end_message()
        if not self.session.closed:
            await self.session.record(ended)
        return ended

    async def _settle(self) -> None:
        """Take what is left of the cancel, so that the end of the turn can be told."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        while self._task is not None and self._task.uncancel():
            pass

    async def _handled(self, agent: Agent) -> Ended:
        from accord.agent.reports import Ended, Failure

        try:
            reason = await agent.prompt(self) or "end_turn"
            if reason != "error":
                return Ended(reason)
            error: RequestError = InternalError()  # v1 has no such reason
        except asyncio.CancelledError:
            if self.cancelled or is_being_cancelled():
                return Ended("cancelled")
            log.exception("! the turn awaited something that was cancelled")
            error = InternalError()
        except RequestError as exc:
            error = exc
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as exc:  # groups, too; a turn that nobody ends is waited for
            if isinstance(exc, TransportError) and self.session.link.is_gone:
                log.debug("! the client has gone in the middle of a turn", exc_info=True)
                return Ended("cancelled")
            # R-CANCEL-06: what an aborted operation raises is not an error.
            if self.cancelled or is_being_cancelled():
                log.debug("! the turn failed while being cancelled", exc_info=True)
            else:
                log.error("! the turn failed", exc_info=exc)
            error = InternalError()  # nothing of it goes to the client (R-ERR-05)
        return Ended("error", Failure(error.code, error.message, _data_of(error)))


def _data_of(error: RequestError) -> Any:
    """Return what goes along with an error, as far as it can be written."""
    from accord.wire.codec import encode

    if error.data is None:
        return UNSET
    try:
        encode(error.data)
    except Exception:
        log.exception("! the data of an error cannot be written")
        return UNSET
    return error.data
