"""The course of a turn: it queues in its session, takes its place, is worked on, and leaves."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from accord.agent.background import current_turn
from accord.agent.turn import Turn
from accord.connection.tasks import cancel, ends_process, is_being_cancelled, is_dropped, is_stopped
from accord.errors import (
    AccordError,
    InternalError,
    RemoteProtocolError,
    RequestError,
    TransportError,
)
from accord.wire.base import UNSET

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.session import Session
    from accord.agent.updates import TurnEnded
    from accord.types.content import ContentBlock

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("TurnRunner",)

_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")

log = logging.getLogger("accord.agent")


class TurnRunner:
    """Takes a turn through its session; what the agent sees of it is `turn`."""

    def __init__(
        self,
        session: Session,
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.turn = Turn(session, content, self._stop, meta)
        self.session = session
        self.finished = asyncio.Event()
        self.exit_error: BaseException | None = None  # raise it once the end of the turn is told
        self._task: asyncio.Task[object] | None = None
        self._may_start: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _stop(self) -> None:
        if self._task is not None:
            cancel(self._task)

    def enqueue(self) -> None:
        """Take a place behind the turns before."""
        self.session.turn_queue.append(self)
        if self.session.turn_queue[0] is self:
            self.start()

    def start(self) -> None:
        """It is the first now."""
        if not self._may_start.done():
            self._may_start.set_result(None)

    async def wait_for_turn(self) -> None:
        """Return when the turns before are over; withdraw when cancelled until then."""
        try:
            await self._may_start
        except asyncio.CancelledError:
            self.dequeue()
            raise

    def dequeue(self) -> None:
        """Let the next turn begin."""
        turns = self.session.turn_queue
        turns.remove(self)
        self.finished.set()
        if turns:
            turns[0].start()

    async def store_prompt(self) -> None:
        """Give the prompt its place in the conversation; a cancel has to wait for that."""
        from accord.agent.updates import MessageUpdate

        session = self.session
        self.turn.message_id = session.next_id("message")
        storing = asyncio.ensure_future(
            session.store_update(MessageUpdate("user", self.turn.message_id, self.turn.content))
        )
        while not storing.done():
            try:
                await asyncio.shield(storing)
            except asyncio.CancelledError:
                self.turn.cancelled = True
        storing.result()
        session.end_message()

    async def run(self, agent: Agent) -> TurnEnded:
        """Let the agent work, and return how that ended; it is stored, not yet sent."""
        from accord.agent.updates import TurnEnded

        self._task = asyncio.current_task()
        current_turn.set(self.turn)
        ended = TurnEnded("cancelled") if self.turn.cancelled else await self._call_handler(agent)
        if self.turn.cancelled or is_stopped() or ended.stop_reason == "cancelled":
            ended = TurnEnded("cancelled")
            await self._absorb_cancel()
        self._task = None
        self.turn.is_over = True
        if self.turn.token_usage is not None and agent.unstable:
            ended = replace(ended, tokens=self.turn.token_usage)
        self.session.end_message()
        if not self.session.closed:
            await self.session.store_update(ended)
        return ended

    async def _absorb_cancel(self) -> None:
        """Take what is left of the cancel, so that the end of the turn can be told."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        while self._task is not None and self._task.uncancel():
            pass

    async def _call_handler(self, agent: Agent) -> TurnEnded:
        from accord.agent.updates import TurnEnded, TurnError

        try:
            self.session.not_awaited.clear()
            working: Any = agent.prompt(self.turn)
            if not hasattr(working, "__await__"):
                name = type(agent).__name__
                raise TypeError(f"{name}.prompt returned no coroutine: write `async def prompt`")
            reason = _reason(agent, await working)
            if forgotten := self.session.not_awaited:
                raise RuntimeError(f"{forgotten[0]} was not awaited: write `await {forgotten[0]}`")
            if reason != "error":
                return TurnEnded(reason)
            error: RequestError = InternalError()  # v1 has no such reason
        except asyncio.CancelledError:
            if self.turn.cancelled or is_being_cancelled():
                return TurnEnded("cancelled")
            log.exception("! the turn awaited something that was cancelled")
            error = InternalError()
        except RequestError as exc:
            error = exc
            if self.session.client_adapter.is_clients_error(exc):
                # Its code is about a request of the agent, not about the prompt.
                _log_fault_of_client("! the turn failed by an error of the client", exc)
                error = InternalError("A request of the agent to the client failed")
        except BaseException as exc:  # groups, too; a turn that nobody ends is waited for
            if is_dropped(exc, self._task):
                raise
            if ends_process(exc):
                self.exit_error = exc
            elif isinstance(exc, TransportError) and self.session.client_adapter.is_closed:
                log.debug("! the client has gone in the middle of a turn", exc_info=True)
                return TurnEnded("cancelled")
            elif self.turn.cancelled or is_stopped():
                # R-CANCEL-06: what an aborted operation raises is not an error.
                log.debug("! the turn failed while being cancelled", exc_info=True)
            elif isinstance(exc, RemoteProtocolError):
                _log_fault_of_client("! the turn failed: the client broke the protocol", exc)
            else:
                log.error("! the turn failed", exc_info=exc)
            error = InternalError()  # nothing of it goes to the client (R-ERR-05)
        return TurnEnded("error", TurnError(error.code, error.message, _data_of(error)))


def _log_fault_of_client(what: str, error: AccordError) -> None:
    """Log in one line what a client can cause as often as it wants; the traceback at DEBUG."""
    from accord.text.excerpt import one_line

    log.error("%s: %s", what, one_line(str(error)))
    log.debug("! where the turn failed", exc_info=error)


def _reason(agent: Agent, returned: object) -> str:
    """Return the stop reason that a handler returned; raise `TypeError` for what is none."""
    if returned is None:
        return "end_turn"
    if isinstance(returned, str) and (returned in _REASONS or returned.startswith("_")):
        return returned
    from accord.text.excerpt import excerpt

    raise TypeError(
        f"{type(agent).__name__}.prompt returned {excerpt(repr(returned), 60)}, which is not a stop"
        " reason: say text with `await turn.say(…)`, and return None or one of"
        f" {', '.join(_REASONS)}, or a name of your own that begins with an underscore"
    )


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
