"""The client of a recording: sends what the recorded client sent, and collects the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from accord.errors import ConnectionLost, TransportError
from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord.transports.base import Frame, Transport
from accord.types.steering import STEERING
from accord_trace.diff import canonical, json_text
from accord_trace.replay.comparison import (
    AgentMessage,
    Difference,
    compare,
    label_of,
    recorded_message,
)
from accord_trace.replay.script import Script, Step, ValueMap, is_idle

_LATE_S = 1.0  # for messages that came after the last response
# Sent at their place in the turn.
_DURING_A_TURN = frozenset(("session/cancel", "$/cancel_request", STEERING))
_INTERNAL_ERROR = -32603
_SHOWN = 100


class _StoppedError(Exception):
    """The replay cannot continue."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(str(difference))
        self.difference = difference


class ClientReplay:
    """Replays one connection of a recording as its client (R-TRACE-04).

    The messages of the client are sent in the recorded order, each after the responses and the
    ends of turns that had come before it. Requests of the agent get the recorded answers. `cwd` is
    the directory of the sessions. A response may take `timeout_s`. `speed` 0 waits for nothing
    else, 1 as long as the recorded client did.
    """

    def __init__(
        self,
        script: Script,
        transport: Transport,
        *,
        cwd: str,
        timeout_s: float,
        speed: float = 0.0,
    ) -> None:
        self._script = script
        self._transport = transport
        self._cwd = cwd
        self._timeout_s = timeout_s
        self._speed = speed
        self._values = ValueMap()
        self._sent: set[int] = set()
        self._skipped: set[int] = set()  # of sessions that could not be opened
        self._requests: dict[str, Step] = {}  # by live id
        self._answered: set[int] = set()
        self._passed = 0  # steps whose milestones have come
        self._ends: dict[str | None, int] = {}  # recorded ends of turns, by session
        self._came_before: dict[int, int] = {}  # the number of live messages before a request
        self._idle: dict[str | None, int] = {}  # ends of turns, by live session
        self._asked: list[tuple[Any, Step]] = []  # requests of the agent that wait for an answer
        self._used: set[int] = set()  # recorded requests of the agent
        self._came: list[tuple[str, str, str | None, Any, bool, Step | None]] = []
        self._changed = asyncio.Event()
        self._end: tuple[Exception | None] | None = None
        self._compared = 0

    async def run(self, *, strict: bool = False) -> list[Difference]:
        """Run the replay, close the transport, and return the differences.

        Raise `TransportError` if the agent cannot be started or reached, or ends before it answers
        `initialize`.
        """
        stopped: list[Difference] = []
        try:
            await self._transport.start(self)
            try:
                for step in self._script.steps:
                    if step.from_client:
                        await self._step(step)
                await self._finish()
            except _StoppedError as reason:
                stopped.append(reason.difference)
        finally:
            await self._transport.aclose()
        return [*stopped, *self._compare(strict, stopped)]

    @property
    def compared(self) -> int:
        """The number of recorded messages of the agent that were compared."""
        return self._compared

    # What is sent.

    async def _step(self, step: Step) -> None:
        if step.kind not in ("request", "notification"):
            return  # an answer is sent when the agent asks
        if self._is_lost(step):
            self._skipped.add(step.number)
            return
        await self._until_ready(step)
        if self._speed:
            at = self._script.steps.index(step)
            before = self._script.steps[at - 1].ts if at else 0.0
            await asyncio.sleep(max(step.ts - before, 0.0) / self._speed)
        message = step.message()
        params = message.get("params")
        if is_object(params):
            if isinstance(params.get("cwd"), str):
                self._values.bind_directories(step.session, params, {"cwd": self._cwd})
            message["params"] = self._values.to_live(params, step.session)
            if isinstance(params.get("cwd"), str):
                message["params"]["cwd"] = self._cwd
        if step.kind == "request":
            self._requests[step.id] = step
            self._came_before[step.number] = len(self._came)
        self._sent.add(step.number)
        self._transport.write([lenient_json.dumps(message)])
        self._answer_waiting()

    async def _until_ready(self, step: Step) -> None:
        """Wait for what the recorded client had got before it sent this."""
        await self._milestones(step.number)
        turn = self._turn_of(step) if step.method in _DURING_A_TURN else None
        if turn is None:
            return
        seen = {
            (one.session, one.label)
            for one, of in zip(self._expected(), self._agent_steps(), strict=True)
            if of.cause is turn and of.number < step.number
        }
        start = self._came_before[turn.number]
        await self._until(
            lambda: seen <= self._recorded_labels(start) or self._has_ended(turn),
            step,
            f"the {len(seen)} kinds of messages before it",
        )

    def _has_ended(self, turn: Step) -> bool:
        """Return whether a turn has ended, or another request has got its response."""
        result = turn.response.value() if turn.response is not None else None
        if turn.method != "session/prompt" or not is_object(result) or "stopReason" in result:
            return turn.number in self._answered
        live = self._live_session(turn.session)  # of version 2: the response only begins the turn
        return self._idle.get(live, 0) > self._ends.get(turn.session, 0)

    async def _milestones(self, end: int) -> None:
        """Wait for the responses and the ends of turns before a recorded message."""
        steps = self._script.steps
        while self._passed < len(steps) and steps[self._passed].number < end:
            step = steps[self._passed]
            self._passed += 1
            if not step.from_client:
                await self._milestone(step)

    async def _milestone(self, one: Step) -> None:
        """Wait for a response, or for the end of a turn of version 2."""
        request = one.request
        if one.kind == "response" and request is not None and request.number in self._sent:
            await self._until(
                lambda: request.number in self._answered, one, f"a response to {request.method}"
            )
            if request.method == "initialize":
                self._check_version(one, request)
        elif is_idle(one) and one.cause is not None and one.cause.number in self._sent:
            ends = self._ends[one.session] = self._ends.get(one.session, 0) + 1
            live = self._live_session(one.session)
            await self._until(lambda: self._idle.get(live, 0) >= ends, one, "the end of the turn")

    def _check_version(self, recorded: Step, request: Step) -> None:
        """Stop if another version was agreed: its messages have other forms."""
        # Other messages may have come since, in the same read.
        came = next(item for item in self._came if item[0] == "response" and item[5] is request)
        old, (new, is_error) = recorded.value(), came[3:5]
        if not (is_object(old) and is_object(new)):
            return
        expected, got = old.get("protocolVersion"), new.get("protocolVersion")
        if expected != got:
            texts = json_text(expected), one_line(json_text(new if is_error else got), 120)
            raise _StoppedError(_stopped(recorded, f"protocol version {texts[0]}", texts[1]))

    async def _finish(self) -> None:
        """Wait for the last responses, and a short time for what came after them."""
        await self._milestones(self._script.steps[-1].number + 1)
        expected = {(one.session, one.label) for one in self._expected()}
        try:
            async with asyncio.timeout(min(_LATE_S, self._timeout_s)):
                while self._end is None and not expected <= self._recorded_labels():
                    await self._next_change()
        except TimeoutError:
            pass

    async def _until(self, condition: Callable[[], bool], step: Step, what: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                while self._end is None and not condition():
                    await self._next_change()
        except TimeoutError:
            nothing = f"nothing within {self._timeout_s:g} s"
            raise _StoppedError(_stopped(step, what, nothing)) from None
        if self._end is not None and not condition():
            await self._stop(step, what, self._end[0])

    async def _stop(self, step: Step, what: str, error: Exception | None) -> None:
        """Stop at the end of the agent; before the answer to `initialize` nothing can be said."""
        error = await self._transport.exit_error() or error
        request = step.request
        if not self._answered and request is not None and request.method == "initialize":
            if isinstance(error, TransportError):
                raise error
            raise ConnectionLost("The agent ended before it answered initialize") from error
        end = "the end of the agent" if error is None else str(error)
        raise _StoppedError(_stopped(step, what, one_line(end, 400)))

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _is_lost(self, step: Step) -> bool:
        """Return whether a message belongs to a session that the agent did not open."""
        for opening in self._script.requests:
            recorded = opening.response
            if opening.number >= step.number or recorded is None or recorded.is_error:
                continue
            result = recorded.value()
            session = result.get("sessionId") if is_object(result) else None
            if session is not None and session == step.session and step is not opening:
                return opening.number in self._skipped
        return False

    def _turn_of(self, step: Step) -> Step | None:
        earlier = [one for one in self._script.requests if one.number < step.number]
        if step.method == "$/cancel_request":
            params = step.value()
            number = json_text(params.get("requestId")) if is_object(params) else ""
            return next((one for one in reversed(earlier) if one.id == number), None)
        prompts = (one for one in reversed(earlier) if one.method == "session/prompt")
        return next((one for one in prompts if one.session == step.session), None)

    # What comes.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            try:
                message = lenient_json.loads(frame)
            except lenient_json.NotJson:
                continue  # noise
            if is_object(message):
                self._receive(message)
        self._changed.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        pass

    def eof_received(self, error: Exception | None) -> None:
        self._end = (error,)
        self._changed.set()

    def writable(self) -> None:
        pass

    def _receive(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            self._response(message)
            return
        session = params.get("sessionId") if is_object(params) else None
        session = session if isinstance(session, str) else None
        kind = "request" if "id" in message else "notification"
        self._add(kind, method, session, params)
        if kind == "request":
            self._request(message, method, session, params)
        elif method == "session/update" and is_object(params):
            update = params.get("update")
            if is_object(update) and update.get("state") == "idle" and "stopReason" in update:
                self._idle[session] = self._idle.get(session, 0) + 1

    def _response(self, message: dict[str, Any]) -> None:
        request = self._requests.pop(json_text(message.get("id")), None)
        if request is None:
            return
        is_error = "error" in message
        value = message.get("error" if is_error else "result")
        recorded = request.response
        if recorded is not None and not is_error and not recorded.is_error:
            self._values.bind_ids_of(recorded.value(), value)
        if is_error and recorded is not None and not recorded.is_error:
            self._skipped.add(request.number)  # it opened no session
        self._answered.add(request.number)
        self._add("response", request.method, None, value, is_error, request)

    def _add(
        self,
        kind: str,
        method: str,
        session: str | None,
        value: Any,
        is_error: bool = False,
        request: Step | None = None,
    ) -> None:
        self._came.append((kind, method, session, value, is_error, request))

    def _request(
        self, message: dict[str, Any], method: str, session: str | None, params: Any
    ) -> None:
        step = self._recorded_request(method, self._recorded_session(session), params)
        if step is None or step.response is None:
            error = {"code": _INTERNAL_ERROR, "message": f"The recording has no answer to {method}"}
            self._transport.write([_reply(message["id"], "error", error)])
            return
        self._values.bind_ids_of(step.value(), params)
        self._asked.append((message, step))
        self._answer_waiting()

    def _recorded_request(self, method: str, session: str | None, params: Any) -> Step | None:
        """Return the next recorded request; if all were used, one with the same params."""
        same = [
            step
            for step in self._script.steps
            if not step.from_client and step.kind == "request" and step.method == method
            if step.session == session
        ]
        fresh = [step for step in same if step.number not in self._used]
        got = canonical(self._values.to_recorded(params, session))
        equal = [step for step in fresh or same if canonical(step.value()) == got]
        found = (equal or fresh or [None])[0]
        if found is not None:
            self._used.add(found.number)
        return found

    def _answer_waiting(self) -> None:
        """Answer the requests of the agent for which the time has come."""
        waiting, self._asked = self._asked, []
        for message, step in waiting:
            answer = step.response
            assert answer is not None
            before = (
                one
                for one in self._script.steps
                if one.from_client and step.number < one.number < answer.number
                if one.method in _DURING_A_TURN and one.number not in self._sent
            )
            if any(one.session == step.session for one in before):
                self._asked.append((message, step))  # the recorded client sent that first
                continue
            value = self._values.to_live(answer.value(), step.session)
            if step.method == "session/request_permission":
                _choose_option(step.value(), message.get("params"), value)
            key = "error" if answer.is_error else "result"
            self._transport.write([_reply(message["id"], key, value)])

    # What is compared.

    def _expected(self) -> list[AgentMessage]:
        return list(map(recorded_message, self._agent_steps()))

    def _compare(self, strict: bool, stopped: list[Difference]) -> list[Difference]:
        expected = self._expected()
        if stopped:  # what follows cannot have come
            last = max(self._sent, default=0)
            expected = [
                one
                for one, step in zip(expected, self._agent_steps(), strict=True)
                if step.cause is None or step.cause.number in self._sent
                if step.number <= last or step.request is None
            ]
        self._compared = len(expected)
        self._bind_other_sessions(expected)
        got = list(map(self._message, range(len(self._came)), self._came))
        return list(compare(expected, got, strict=strict))

    def _agent_steps(self) -> list[Step]:
        return [
            step
            for step in self._script.steps
            if not step.from_client and step.kind not in ("end", "invalid")
        ]

    def _message(
        self, number: int, came: tuple[str, str, str | None, Any, bool, Step | None]
    ) -> AgentMessage:
        kind, method, live, value, is_error, request = came
        session = request.session if request is not None else self._recorded_session(live)
        return AgentMessage(
            number=number + 1,
            session=session,
            label=label_of(kind, method, value, is_error=is_error),
            value=self._values.to_recorded(value, session),
            request=None if request is None else request.number,
        )

    def _bind_other_sessions(self, expected: list[AgentMessage]) -> None:
        """Bind sessions that no response names, such as those of subagents, in their order."""
        recorded = dict.fromkeys(one.session for one in expected if one.session is not None)
        came = dict.fromkeys(item[2] for item in self._came if item[2] is not None)
        old = [one for one in recorded if not self._values.live_id("sessionId", one)]
        new = [one for one in came if not self._values.recorded_id("sessionId", one)]
        left = (one for one in old if one not in came)
        right = (one for one in new if one not in old)
        for session, live in zip(left, right, strict=False):
            self._values.bind_id("sessionId", session, live)

    def _recorded_session(self, live: str | None) -> str | None:
        return None if live is None else self._values.recorded_id("sessionId", live) or live

    def _live_session(self, recorded: str | None) -> str | None:
        return None if recorded is None else self._values.live_id("sessionId", recorded) or recorded

    def _recorded_labels(self, start: int = 0) -> set[tuple[str | None, str]]:
        """Return sessions and labels of what has come, from a live message on."""
        return {
            (
                self._recorded_session(live) if request is None else request.session,
                label_of(kind, method, value, is_error=is_error),
            )
            for kind, method, live, value, is_error, request in self._came[start:]
        }


def _stopped(step: Step, expected: str, got: str) -> Difference:
    return Difference(
        kind="stopped",
        method=step.title.rpartition(" (")[0],
        message=step.number,
        session=step.session,
        expected=expected,
        got=got,
    )


def _reply(live_id: Any, key: str, value: Any) -> bytes:
    return lenient_json.dumps({"jsonrpc": "2.0", "id": live_id, key: value})


def _choose_option(recorded: Any, live: Any, answer: Any) -> None:
    """Choose the live option of the recorded kind: the agent may have given it another id."""
    outcome = answer.get("outcome") if is_object(answer) else None
    if not is_object(outcome) or not is_object(recorded) or not is_object(live):
        return
    chosen = outcome.get("optionId")
    kinds = {item.get("optionId"): item.get("kind") for item in _objects(recorded.get("options"))}
    options = {item.get("optionId"): item.get("kind") for item in _objects(live.get("options"))}
    if chosen in options or chosen not in kinds:
        return
    for ident, kind in options.items():
        if kind == kinds[chosen]:
            outcome["optionId"] = ident
            return


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if is_object(item)] if is_array(value) else []
