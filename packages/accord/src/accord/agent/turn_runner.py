"""Runs a turn: queue, wait, store the prompt, call the handler, start the next turn."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from accord.agent.files import file_failure
from accord.agent.toolbox import Toolbox
from accord.agent.turn import Turn
from accord.agent.turn_state import TurnState, current_turn
from accord.agent.updates import MessageUpdate, TurnEnded, TurnError
from accord.connection.tasks import ends_process, is_being_cancelled, is_dropped, is_stopped
from accord.errors import (
    AccordError,
    InternalError,
    RemoteProtocolError,
    RequestError,
    TransportError,
)
from accord.text.excerpt import excerpt, one_line
from accord.wire.base import UNSET
from accord.wire.codec import encode

if TYPE_CHECKING:
    from accord.agent.hooks import AgentHooks
    from accord.agent.session import Session
    from accord.agent.session_core import SessionCore
    from accord.types.content import ContentBlock


_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")

log: logging.Logger = logging.getLogger("accord.agent")


class TurnRunner:
    """Runs a turn in its session; the agent sees it as `turn`."""

    def __init__(
        self,
        agent: AgentHooks,
        session: Session,
        core: SessionCore,
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.state: TurnState = TurnState()
        self.turn: Turn = Turn(session, core, self.state, Toolbox, content, meta)
        self.core = core
        self.exit_error: BaseException | None = None  # the caller raises it after sending the end
        self._agent = agent

    def enqueue(self) -> None:
        """Append the turn to the queue of its session; start it if it is the first."""
        queue = self.core.turn_queue
        queue.append(self.state)
        if queue[0] is self.state:
            self.state.may_start.set()

    async def wait_for_turn(self) -> None:
        """Return when the earlier turns are over; leave the queue if cancelled before that."""
        try:
            await self.state.may_start.wait()
        except asyncio.CancelledError:
            self.dequeue()
            raise

    def dequeue(self) -> None:
        """Leave the queue and start the next turn."""
        queue = self.core.turn_queue
        queue.remove(self.state)
        self.state.finished.set()
        if queue:
            queue[0].may_start.set()

    async def store_prompt(self) -> None:
        """Store the prompt as the user's message; a cancel takes effect after that."""
        core = self.core
        self.state.message_id = core.next_id("message")
        work = core.store_update(MessageUpdate("user", self.state.message_id, self.turn.content))
        if not core.is_stored:
            await work  # which waits for nothing
            core.end_message()
            return
        storing = asyncio.ensure_future(work)
        while not storing.done():
            try:
                await asyncio.shield(storing)
            except asyncio.CancelledError:
                self.state.cancelled = True
        storing.result()
        core.end_message()

    async def run(self) -> TurnEnded:
        """Call the agent's handler; return how the turn ended, which is stored, not yet sent."""
        state, core = self.state, self.core
        state.task = asyncio.current_task()
        current_turn.set(state)
        ended = TurnEnded("cancelled") if state.cancelled else await self._call_handler()
        if state.cancelled or is_stopped() or ended.stop_reason == "cancelled":
            ended = TurnEnded("cancelled")
            await self._absorb_cancel()
        state.task = None
        state.is_over = True
        if self.turn.token_usage is not None and self._agent.unstable:
            ended = replace(ended, tokens=self.turn.token_usage)
        core.end_message()
        if not core.closed:
            await core.store_update(ended)
        return ended

    async def _absorb_cancel(self) -> None:
        """Withdraw the cancel from the task, so that the end of the turn can be sent."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task = self.state.task
        while task is not None and task.uncancel():
            pass

    async def _call_handler(self) -> TurnEnded:
        agent, core = self._agent, self.core
        try:
            core.not_awaited.clear()
            working: Any = agent.prompt(self.turn)
            if not hasattr(working, "__await__"):
                name = type(agent).__name__
                raise TypeError(f"{name}.prompt returned no coroutine: write `async def prompt`")
            reason = _reason(agent, await working)
            if forgotten := core.not_awaited:
                raise RuntimeError(f"{forgotten[0]} was not awaited: write `await {forgotten[0]}`")
            if reason != "error":
                return TurnEnded(reason)
            error: RequestError = InternalError()  # version 1 has no such reason
        except asyncio.CancelledError:
            if self.state.cancelled or is_being_cancelled():
                return TurnEnded("cancelled")
            log.exception("! the turn awaited something that was cancelled")
            error = InternalError()
        except RequestError as exc:
            error = exc
            if core.client_adapter.is_clients_error(exc):
                # Its code is about a request of the agent, not about the prompt.
                _log_clients_fault("! the turn failed by an error of the client", exc)
                error = InternalError("A request of the agent to the client failed")
        except BaseException as exc:  # groups, too: the client waits for the end of the turn
            if is_dropped(exc, self.state.task):
                raise
            if ends_process(exc):
                self.exit_error = exc
            elif isinstance(exc, TransportError) and core.client_adapter.is_closed:
                log.debug("! the client disconnected during a turn", exc_info=True)
                return TurnEnded("cancelled")
            elif self.state.cancelled or is_stopped():
                # R-CANCEL-06: an exception of an aborted operation is not an error.
                log.debug("! the turn failed while being cancelled", exc_info=True)
            elif isinstance(exc, RemoteProtocolError):
                _log_clients_fault("! the turn failed: the client broke the protocol", exc)
            else:
                log.error("! the turn failed", exc_info=exc)
            # Its text is not sent to the client (R-ERR-05), except for files that it named.
            error = file_failure(exc) or InternalError()
        return TurnEnded("error", TurnError(error.code, error.message, _data_of(error)))


def _log_clients_fault(what: str, error: AccordError) -> None:
    """Log in one line, because a client can cause this repeatedly; the traceback at DEBUG."""
    log.error("%s: %s", what, one_line(str(error)))
    log.debug("! where the turn failed", exc_info=error)


def _reason(agent: AgentHooks, returned: object) -> str:
    """Return the stop reason that a handler returned; raise `TypeError` for an invalid one."""
    if returned is None:
        return "end_turn"
    if isinstance(returned, str) and (returned in _REASONS or returned.startswith("_")):
        return returned
    raise TypeError(
        f"{type(agent).__name__}.prompt returned {excerpt(repr(returned), 60)}, which is not a stop"
        " reason: say text with `await turn.say(…)`, and return None or one of"
        f" {', '.join(_REASONS)}, or a name of your own that begins with an underscore"
    )


def _data_of(error: RequestError) -> Any:
    """Return the data of an error; UNSET if it has none or JSON cannot represent it."""
    if error.data is None:
        return UNSET
    try:
        encode(error.data)
    except Exception:
        log.exception("! the data of an error cannot be written")
        return UNSET
    return error.data
