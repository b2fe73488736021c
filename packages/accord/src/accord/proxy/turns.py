"""Calls `Proxy.prompt`: one turn, in both versions.

In version 1 the response to the prompt is the end of the turn. In version 2 it comes when the
prompt is inserted, and an idle state ends the turn: that state waits until `Proxy.prompt` returns.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from types import NoneType
from typing import Any

from msgspec import UNSET

from accord.client.events import StateChanged
from accord.client.session import PromptCompletion
from accord.errors import InternalError, RequestCancelled, RequestError
from accord.proxy.chain_part import ChainPart, ProxyInChain
from accord.proxy.ordered import session_id_of
from accord.proxy.overrides import Overrides, edited_json, raw_of
from accord.proxy.proxied_sessions import ProxiedSession
from accord.proxy.stage import Direction, Params
from accord.proxy.turn import ProxyTurn
from accord.types.content import ContentBlock
from accord.types.validation import require_type
from accord.wire.base import replace

log: logging.Logger = logging.getLogger("accord.proxy")


class RunningTurn:
    """A prompt that `Proxy.prompt` handles."""

    def __init__(self, session: ProxiedSession, params: Any) -> None:
        loop = asyncio.get_running_loop()
        self.session = session
        self.params = params
        self.hook: asyncio.Task[None] | None = None
        self.forwards: int = 0  # calls of `forward` that have not returned
        self.is_cancelled: bool = False
        self.failure: RequestError | None = None  # of `Proxy.update`
        self.result: Any = None  # of the last `forward` in version 1
        # In version 2:
        self.answered: asyncio.Future[Any] = loop.create_future()  # the response
        self.is_own: bool = False  # the proxy shows the prompt and its states
        self.message_id: str = ""  # of what the proxy says
        self.completion: PromptCompletion | None = None
        self.ended: asyncio.Future[Any] | None = None  # the end of the agent's turn
        # Set when it is known whether the last state passes, or the prompt is repeated.
        self.settled: asyncio.Future[bool] | None = None
        self.holds: bool = False  # the last state waits for `Proxy.prompt`
        self.is_over: bool = False  # `Proxy.prompt` has returned or raised
        self.stop_reason: str | None = None  # that it returned
        self.error: RequestError | None = None  # that it raised

    def settle(self, *, passes: bool) -> None:
        """Let the last state pass, or drop it because the prompt is repeated."""
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(passes)


class Turns(ChainPart):
    """The turns of one chain."""

    def __init__(self, chain: ProxyInChain) -> None:
        super().__init__(chain)
        self._label = f"{self._stage.name}.prompt"

    def add_to(self, to_agent: Overrides) -> None:
        """Handle prompts, and cancel those that the proxy answers itself."""
        handler = self._prompt_v1 if self._version.number == 1 else self._prompt_v2
        to_agent.add(self._version.methods["prompt"], handler, self._label)
        self._stage.on_session_cancel = self._cancel

    def _cancel(self, params: Params) -> None:
        session_id = session_id_of(params)
        turns: list[RunningTurn] = [] if session_id is None else self._sessions[session_id].turns
        for turn in turns:
            if not turn.forwards and turn.hook is not None:
                turn.is_cancelled = True
                turn.hook.cancel()

    def fail(self, session: ProxiedSession, label: str) -> None:
        """Fail the running turn of a session, because its updates cannot be checked."""
        failing: list[RunningTurn] = [turn for turn in session.turns if turn.failure is None]
        if not failing:
            return
        for turn in failing:
            turn.failure = InternalError(f"The proxy failed: {label} raised an exception")
        self._stage.agent.notify("session/cancel", raw_of({"sessionId": session.id}))

    # Both versions.

    def _start(self, params: Any) -> tuple[RunningTurn, ProxyTurn]:
        version = self._version
        session = self._sessions[params.session_id]
        running = RunningTurn(session, params)
        session.turns.append(running)
        content = version.editor.content_blocks(params.prompt)

        async def say(block: ContentBlock) -> None:
            await self._say(running, block)

        return running, ProxyTurn(session.id, session.cwd, content, params.meta, say)

    def _params(self, running: RunningTurn, turn: ProxyTurn) -> Any:
        """Return the prompt with the changes of the proxy."""
        params, editor = running.params, self._version.editor
        before = editor.content_blocks(params.prompt)
        if turn.content != before:
            prompt = editor.contents(params.prompt, before, turn.content)
            params = replace(params, prompt=prompt)
        if turn.meta != params.meta:
            params = replace(params, meta=turn.meta)
        return params

    async def _say(self, running: RunningTurn, content: ContentBlock) -> None:
        version = self._version
        if version.number == 2 and not running.answered.done() and not running.forwards:
            self._answer_itself(running)
        fields: dict[str, Any] = {}
        if version.number == 2:
            running.message_id = running.message_id or uuid.uuid4().hex
            fields["message_id"] = running.message_id
        block = version.adapter.content_to_wire(content)
        self.send(running.session, version.types.AgentMessageChunk(content=block, **fields))
        await self._stage.client.wait_for_room()

    def send(self, session: ProxiedSession, update: Any) -> None:
        """Send an update of this proxy to the client."""
        method = self._version.methods["session_update"]
        note = method.params(session_id=session.id, update=update)
        self._stage.client.notify(method.name, raw_of(note))

    def flush(self, session: ProxiedSession) -> None:
        """Send what was held back, at the end of a turn or a replay."""
        for event in session.redaction.end_turn():
            self.send(session, self._version.editor.chunk(event))

    # Version 1.

    async def _prompt_v1(self, params: Any, forward: Any) -> Any:
        running, turn = self._start(params)
        session = running.session
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def forward_turn() -> Any:
            running.forwards += 1
            try:
                running.result = result = await forward(self._params(running, turn))
            finally:
                running.forwards -= 1
                self.flush(session)
            if running.failure is not None:
                raise running.failure
            return result.stop_reason

        async def call() -> None:
            try:
                reason = await self._proxy.prompt(turn, forward_turn)
                require_type(f"the result of {self._label}", reason, str, NoneType)
            except asyncio.CancelledError:
                outcome.cancel()
                raise
            except Exception as exc:  # noqa: BLE001  # raised below
                outcome.set_exception(exc)
            else:
                outcome.set_result(reason)

        running.hook = self._stage.spawn(call(), f"accord {self._label}")
        try:
            reason = await outcome
        except asyncio.CancelledError:
            if not running.is_cancelled:
                raise
            reason = "cancelled"
        finally:
            running.hook.cancel()
            _forget(running)
            session.end_turn()
        if running.failure is not None:
            raise running.failure
        result = running.result
        if result is None:
            return self._version.types.PromptResponse(stop_reason=reason or "end_turn")
        if reason is None or reason == result.stop_reason:
            return result
        return replace(result, stop_reason=reason)

    # Version 2.

    async def _prompt_v2(self, params: Any, forward: Any) -> Any:
        running, turn = self._start(params)

        async def forward_turn() -> Any:
            running.forwards += 1
            try:
                return await self._forward_v2(running, self._params(running, turn), forward)
            finally:
                running.forwards -= 1

        running.hook = self._stage.spawn(
            self._call_v2(running, turn, forward_turn), f"accord {self._label}"
        )
        try:
            return await running.answered
        except asyncio.CancelledError:
            running.hook.cancel()
            raise

    async def _forward_v2(self, running: RunningTurn, params: Any, forward: Any) -> Any:
        running.completion = completion = PromptCompletion(running.session.state)
        running.ended = ended = asyncio.get_running_loop().create_future()
        running.settle(passes=False)
        running.settled = asyncio.get_running_loop().create_future()
        running.holds = False
        running.message_id = ""
        if running.answered.done():
            try:
                response = await self._repeat(params)
            except RequestError:
                running.completion = running.ended = None  # no state follows
                raise
        else:
            response = await forward(params)
            if not running.answered.done():
                running.answered.set_result(response)
        if (result := completion.on_message_id(response.message_id)) is None:
            result = await ended
        if running.failure is not None:
            raise running.failure
        if result.error is not None:
            raise result.error
        return result.stop_reason

    async def _repeat(self, params: Any) -> Any:
        """Send a prompt when the client already has the response to its own."""
        method = self._version.methods["prompt"]
        response = await self._stage.call(Direction.TO_AGENT, method.name, raw_of(params))
        if (error := response.request_error()) is not None:
            raise error
        assert response.result is not None, "neither a result nor an error"
        return self._version.decode(method.result, response.result)

    async def _call_v2(self, running: RunningTurn, turn: ProxyTurn, forward: Any) -> None:
        try:
            reason = await self._proxy.prompt(turn, forward)
            require_type(f"the result of {self._label}", reason, str, NoneType)
            running.stop_reason = reason
            running.error = running.failure
        except asyncio.CancelledError:
            running.stop_reason = "cancelled"
            if not running.answered.done():
                running.error = RequestCancelled()
            if not running.is_cancelled:
                raise
        except RequestError as exc:
            running.error = exc
        except Exception as exc:
            log.error("! %s failed", self._label, exc_info=exc)
            running.error = InternalError(f"The proxy failed: {self._label} raised an exception")
        finally:
            self._end_v2(running)

    def _end_v2(self, running: RunningTurn) -> None:
        running.is_over = True
        session = running.session
        if not running.answered.done():
            if running.error is not None:
                running.answered.set_exception(running.error)
                _forget(running)
                return
            self._answer_itself(running)
        ended = running.ended
        if running.completion is None:  # not forwarded
            idle = self._version.types.IdleStateUpdate(stop_reason="end_turn")
            self.send(session, self.last_state(running, idle))
        # Otherwise the last state still comes, or waits, and reports how the hook has ended.
        is_last = ended is None or (ended.done() and not running.holds)
        if is_last:
            _forget(running)
        running.settle(passes=True)

    def _answer_itself(self, running: RunningTurn) -> None:
        """Take over the prompt: respond, show it, and report that work is running."""
        types = self._version.types
        running.is_own = True
        message_id = uuid.uuid4().hex
        running.answered.set_result(types.PromptResponse(message_id=message_id))
        prompt = list(running.params.prompt)
        self.send(running.session, types.UserMessage(message_id=message_id, content=prompt))
        self.send(running.session, types.RunningStateUpdate())

    def last_state(self, running: RunningTurn, idle: Any) -> Any:
        """Return the last state of a turn with what `Proxy.prompt` returned or raised."""
        error = running.error or running.failure
        if error is not None:
            if idle.error is not None and running.failure is None:
                return idle  # the error of the agent
            wire = self._version.types.Error(
                code=error.code, message=error.message, data=error.data
            )
            return replace(idle, stop_reason="error", error=wire)
        reason = running.stop_reason
        if reason is None or reason == (idle.stop_reason or "end_turn"):
            return idle
        return replace(idle, stop_reason=reason)

    def observe(self, session: ProxiedSession, event: Any) -> list[RunningTurn]:
        """Note an event of version 2; return the turns that it ends."""
        if isinstance(event, StateChanged):
            session.state = event
        return [turn for turn in session.turns if _ends(turn, event)]

    def last_of(self, running: RunningTurn, params: Params, note: Any) -> Params:
        """Return the last state of a turn whose `Proxy.prompt` has returned."""
        _forget(running)
        running.session.end_turn()
        state = self.last_state(running, note.update)
        if state is note.update or params is UNSET:
            return params
        return edited_json(params, note, replace(note, update=state))


def _ends(running: RunningTurn, event: Any) -> bool:
    if running.completion is None or running.ended is None or running.ended.done():
        return False
    ended = running.completion.on_event(event)
    if ended is None:
        return False
    running.ended.set_result(ended)
    running.holds = True
    return True


def _forget(running: RunningTurn) -> None:
    if running in running.session.turns:
        running.session.turns.remove(running)
