"""The agent of a recording: reacts to a client as the recorded agent did (R-TRACE-04).

It does no I/O: frames of the client go in, the frames that are due come out. It finds the message
of the recording for each message of the client, and reports where the client departed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, to_builtins

from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.types.steering import STEERING
from accord_trace.diff import ValueDifference, canonical, json_text, value_differences
from accord_trace.replay.script import Script, Step, ValueMap, is_idle

# Where a client departed from a recording, and what of it was not used.

DepartureKind: TypeAlias = Literal["changed", "answer", "unknown", "cancelled", "invalid"]

_MAX_SHOWN = 3


class Departure(Struct, frozen=True, kw_only=True):
    """One place where the client did something else than in the recording.

    `changed`: its message has other params than `message` of the recording, which was used all the
    same. `answer`: it answered a request of the agent differently. `unknown`: the recording has no
    such message, or no further one. `cancelled`: it cancelled what was not cancelled then.
    `invalid`: it sent what is not a message. `client_message` counts its messages from 1.
    """

    kind: DepartureKind
    method: str
    client_message: int
    message: int | None = None
    session: str | None = None
    expected: str = ""
    got: str = ""
    differences: list[ValueDifference] = []

    def __str__(self) -> str:
        place = f"client message {self.client_message}"
        where = place if self.message is None else f"message {self.message}, {place}"
        return f"{self.method or 'not a message'} ({where}): {self.reason}"

    @property
    def reason(self) -> str:
        """What was expected, and what came."""
        if not self.differences:
            return f"expected {self.expected}, got {self.got}"
        shown = "; ".join(map(str, self.differences[:_MAX_SHOWN]))
        more = len(self.differences) - _MAX_SHOWN
        return f"{shown}; {more} more" if more > 0 else shown


class Unused(Struct, frozen=True):
    """A message of the recorded client that the client did not send."""

    message: int
    kind: str
    method: str

    def __str__(self) -> str:
        what = f"answer to {self.method}" if self.kind == "response" else self.method
        return f"{what or self.kind} (message {self.message})"


class ReplayReport(Struct, frozen=True):
    """The result of a replay as agent, for one connection or several."""

    departures: list[Departure] = []
    unused: list[Unused] = []
    used: int = 0  # messages of the recorded client

    @classmethod
    def joined(cls, reports: Sequence[ReplayReport]) -> ReplayReport:
        """Return one report of several connections."""
        return cls(
            [item for report in reports for item in report.departures],
            [item for report in reports for item in report.unused],
            sum(report.used for report in reports),
        )

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        total = self.used + len(self.unused)
        yield f"{self.used} of {total} messages of the client used"
        for number, departure in enumerate(self.departures, 1):
            yield f"departure {number}: {departure}"
        for item in self.unused:
            yield f"not used: {item}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as builtin values."""
        return to_builtins(self)


# Finds the message of the recording for a message of the live client.

_DIRECTORIES = ("cwd", "additionalDirectories")  # mapped, not compared


class Match(Struct, frozen=True, eq=False):
    """The recorded message, and what is different from it."""

    step: Step
    differences: list[ValueDifference]


class Matcher:
    """Matches by method, session and canonical params (R-TRACE-04); each message is used once.

    If no params are equal, the next unused message of the method and the session is the match.
    """

    def __init__(self, script: Script, values: ValueMap) -> None:
        self._values = values
        self._unused: dict[int, Step] = {step.number: step for step in script.steps}
        self._sessions = {step.session for step in script.steps}
        for step in script.steps:
            if not step.from_client or step.kind in ("end", "invalid"):
                del self._unused[step.number]

    @property
    def unused(self) -> list[Step]:
        """The messages of the client that were not used, answers included."""
        return list(self._unused.values())

    def use(self, step: Step) -> None:
        """Mark a message as used."""
        self._unused.pop(step.number, None)

    def find(self, kind: str, method: str, params: Any) -> Match | None:
        """Return the match, which is not marked as used yet; None if there is none."""
        found = [
            step for step in self._unused.values() if step.kind == kind and step.method == method
        ]
        live = params.get("sessionId") if is_object(params) else None
        session = self.session_of(live)
        if isinstance(live, str):
            here = [step for step in found if step.session == session]
            if session is None:  # the client names a session of its own, such as a stored one
                here = [step for step in found if self._is_free(step.session)]
            found = here or found
        first: Match | None = None
        for match in self._compared(found, params, session, live):
            if not match.differences:
                return match
            first = first or match
        return first

    def bind(self, step: Step, params: Any) -> None:
        """Pair the session and the directories in params with those of a match."""
        recorded = step.value()
        if is_object(params) and is_object(recorded):
            old, new = recorded.get("sessionId"), params.get("sessionId")
            if isinstance(old, str) and isinstance(new, str):
                self._values.bind_id("sessionId", old, new)
        self._values.bind_directories(step.session, recorded, params)

    def session_of(self, live: Any) -> str | None:
        """Return the recorded id of a live session; None if the session is not known."""
        if not isinstance(live, str):
            return None
        bound = self._values.recorded_id("sessionId", live)
        if bound is not None:
            return bound
        return live if live in self._sessions and self._is_free(live) else None

    def _is_free(self, session: str | None) -> bool:
        return session is None or self._values.live_id("sessionId", session) is None

    def _compared(
        self, steps: Iterable[Step], params: Any, session: str | None, live: Any
    ) -> Iterable[Match]:
        for step in steps:
            recorded = step.value()
            got = self._values.to_recorded(params, step.session)
            if is_object(params) and "cwd" in params:
                opened = ValueMap()  # as it would be if this were the match
                opened.bind_directories(None, recorded, params)
                got = opened.to_recorded(params, None)
            differences = list(value_differences(_compared(recorded), _compared(got)))
            if step.method == "initialize" and _is_agreed(step, params):
                differences = [one for one in differences if one.path != "protocolVersion"]
            if isinstance(live, str) and step.session not in (session, None) and session:
                old = f'session "{step.session}"'
                differences.append(ValueDifference("sessionId", old, f'session "{session}"'))
            yield Match(step, differences)


def _compared(params: Any) -> Any:
    """Return the part of params that is compared; the session and the directories are mapped."""
    found = canonical(params)
    if is_object(found):
        left_out = (*_DIRECTORIES, "sessionId") if "cwd" in found else ("sessionId",)
        return {key: item for key, item in found.items() if key not in left_out}
    return {} if found is None else found


def _is_agreed(step: Step, params: Any) -> bool:
    """Return whether a client would agree on the recorded version: it may offer a newer one."""
    result = step.response.value() if step.response is not None else None
    offered = params.get("protocolVersion") if is_object(params) else None
    agreed = result.get("protocolVersion") if is_object(result) else None
    return isinstance(offered, int) and isinstance(agreed, int) and offered >= agreed


_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND = -32700, -32600, -32601
_INVALID_PARAMS, _INTERNAL_ERROR, _CANCELLED = -32602, -32603, -32800
_SHOWN = 100
# For a client that the recorded one left in a turn, because a test does the same; and for one that
# does not say what the recorded one said while a turn ran.
_LEFT_S = 2.0


class _Course(Struct, eq=False):
    """The reactions to one request of the live client, in order."""

    request: Step | None  # None: what the agent sends without a request
    steps: list[Step]
    live_id: Any = None
    at: int = 0
    is_answered: bool = False
    has_no_end: bool = False  # the recording ends, or its client left, before that
    live_s: float = 0.0  # when the last step was sent, or what it waited for came
    recorded_s: float = 0.0

    @property
    def head(self) -> Step | None:
        return self.steps[self.at] if self.at < len(self.steps) else None


class AgentReplay:
    """Replays one connection of a recording as its agent.

    `speed` 0 sends everything as soon as what it was a reaction to has come; 1 waits as long as
    the recorded agent, 2 half as long. With `strict`, a request that departs from the recording is
    answered with an error, otherwise the best match is used. `on_departure` gets each departure
    when it happens.
    """

    def __init__(
        self,
        script: Script,
        *,
        speed: float = 0.0,
        strict: bool = False,
        on_departure: Callable[[Departure], None] | None = None,
    ) -> None:
        self.departures: list[Departure] = []
        self.is_ended: bool = False  # the recorded agent has ended here
        self._script = script
        self._speed = speed
        self._strict = strict
        self._on_departure = on_departure
        self._values = ValueMap()
        self._matcher = Matcher(script, self._values)
        self._courses: list[_Course] = [_Course(None, script.opening)] if script.opening else []
        self._came: dict[int, float] = {}  # by number of a step of the client
        self._waiting: dict[str, tuple[Step, _Course]] = {}  # requests of the agent, by live id
        self._agent_ids: dict[str, str] = {}  # JSON texts, recorded to live
        self._client_ids: dict[str, str] = {}
        self._own: list[bytes] = []  # errors and other frames that are not recorded
        self._client_messages = 0

    def report(self) -> ReplayReport:
        """Return the departures so far, and what the client has not sent."""
        unused = self._matcher.unused
        total = sum(
            step.from_client and step.kind not in ("end", "invalid") for step in self._script.steps
        )
        return ReplayReport(
            list(self.departures),
            [Unused(step.number, step.kind, step.method) for step in unused],
            total - len(unused),
        )

    def start(self, now: float) -> None:
        """Start the clock."""
        for course in self._courses:
            course.live_s = now

    def receive(self, frame: bytes | bytearray, now: float) -> None:
        """Accept a frame of the client."""
        self._client_messages += 1
        try:
            message = lenient_json.loads(frame)
        except lenient_json.NotJson as wrong:
            self._invalid(_PARSE_ERROR, f"Parse error: {wrong}", frame)
            return
        if not is_object(message):
            self._invalid(_INVALID_REQUEST, "Expected an object", frame)
        elif isinstance(message.get("method"), str):
            if "id" in message:
                self._request(message, now)
            else:
                self._notification(message, now)
        elif "id" in message:
            self._response(message, now)
        else:
            self._invalid(_INVALID_REQUEST, "Expected a method or an id", frame)

    def take(self, now: float, limit: int = 256) -> list[bytes]:
        """Return frames that are due, at most `limit`, in the recorded order."""
        frames, self._own = self._own, []
        while len(frames) < limit and not self.is_ended:
            course = self._next(now)
            if course is None:
                break
            frames += self._advance(course, now)
        return frames

    def next_due_s(self) -> float | None:
        """Return when the next frame is due; None if it waits for the client."""
        due = [self._due(course) for course in self._courses]
        return min((at for at in due if at is not None), default=None)

    # What is sent.

    def _next(self, now: float) -> _Course | None:
        best: tuple[int, _Course] | None = None
        for course in self._courses:
            due, head = self._due(course), course.head
            if due is None or due > now:
                continue
            number = sys.maxsize if head is None else head.number
            if best is None or number < best[0]:
                best = number, course
        return None if best is None else best[1]

    def _due(self, course: _Course) -> float | None:
        head = course.head
        if head is None:  # of a course that has no end
            return course.live_s + (_LEFT_S if self._script.client_ended else 0.0)
        live, recorded, patience = course.live_s, course.recorded_s, 0.0
        for step in head.awaits:
            came = self._came.get(step.number)
            if came is None and step.method == STEERING:
                patience = course.live_s + _LEFT_S  # the client may say nothing
                continue
            if came is None:
                return None
            live, recorded = max(live, came), max(recorded, step.ts)
        due = live + max(head.ts - recorded, 0.0) / self._speed if self._speed else 0.0
        return max(due, patience)

    def _advance(self, course: _Course, now: float) -> Iterator[bytes]:
        if course.head is None:
            yield from self._end_early(course)
            return
        step = course.steps[course.at]
        course.at += 1
        course.live_s, course.recorded_s = now, step.ts
        frame = self._frame(step, course)
        if step.kind == "end":
            self.is_ended = True
        elif frame:
            yield frame
        if course.at == len(course.steps) and not course.has_no_end:
            self._courses.remove(course)

    def _end_early(self, course: _Course) -> Iterator[bytes]:
        """Answer with an error, or end the connection: the client would wait without end."""
        self._courses.remove(course)
        if course.request is None or course.request.response:
            self.is_ended = True
            return
        what = "The recorded client left" if self._script.client_ended else "The recording ends"
        text = f"{what} before the response to {course.request.title}"
        yield _error_frame(course.live_id, _INTERNAL_ERROR, text)

    def _frame(self, step: Step, course: _Course) -> bytes:
        """Return the recorded frame with the ids and directories of the live client."""
        number = step.id
        if step.kind == "response":
            number = json_text(course.live_id) if course.request is step.request else step.id
            course.is_answered = course.is_answered or course.request is step.request
        elif step.kind == "request":
            number = self._free_id(step.id)
            self._agent_ids[step.id] = number
            self._waiting[number] = (step, course)
        elif step.kind in ("invalid", "end"):
            return step.frame
        has_request_id = b'"requestId"' in step.frame
        if (
            number == step.id
            and not has_request_id
            and not self._values.may_change(step.frame, step.session)
        ):
            return step.frame
        message = step.message()
        if "id" in message:
            message["id"] = lenient_json.loads(number.encode())
        for key in ("params", "result", "error"):
            if key in message:
                message[key] = self._values.to_live(message[key], step.session)
        params = message.get("params")
        if has_request_id and is_object(params) and "requestId" in params:
            ids = self._agent_ids if step.method == "$/cancel_request" else self._client_ids
            live = ids.get(json_text(params["requestId"]))
            if live is not None:
                params["requestId"] = lenient_json.loads(live.encode())
        return lenient_json.dumps(message)

    def _free_id(self, recorded: str) -> str:
        number, free = 0, recorded
        while free in self._waiting:
            number += 1
            free = json_text(f"replay-{number}")
        return free

    # What the client sends.

    def _request(self, message: dict[str, Any], now: float) -> None:
        method, params = message["method"], message.get("params")
        match = self._matcher.find("request", method, params)
        if match is None or (self._strict and match.differences):
            departure = self._unmatched("request", method, params, match)
            self._answer_departure(message["id"], departure, method)
            return
        self._use(match, params, now)
        if match.differences:
            self._changed(match)
        step = match.step
        self._client_ids[step.id] = json_text(message["id"])
        course = _Course(step, step.reactions or [], message["id"], live_s=now, recorded_s=step.ts)
        course.has_no_end = self._script.has_no_end(step)
        if course.steps or course.has_no_end:
            self._courses.append(course)

    def _notification(self, message: dict[str, Any], now: float) -> None:
        method, params = message["method"], message.get("params")
        if method == "$/cancel_request":
            self._cancel_request(params, now)
            return
        match = self._matcher.find("notification", method, params)
        if match is not None and not (self._strict and match.differences):
            self._use(match, params, now)
            if match.differences:
                self._changed(match)
        elif method == "session/cancel":
            self._cancel_turn(params)
        else:
            self._unmatched("notification", method, params, match)

    def _response(self, message: dict[str, Any], now: float) -> None:
        number = json_text(message["id"])
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            self._depart(
                Departure(
                    kind="unknown",
                    method="response",
                    client_message=self._client_messages,
                    expected="the id of a request of the agent",
                    got=f"id {one_line(number, _SHOWN)}",
                )
            )
            return
        step, course = waiting
        recorded = step.response
        if recorded is None:
            return
        self._matcher.use(recorded)
        self._came[recorded.number] = now
        is_error = "error" in message
        value = message.get("error" if is_error else "result")
        expected = recorded.value()
        self._values.bind_ids_of(expected, value)
        got = self._values.to_recorded(value, step.session)
        if is_error is recorded.is_error:
            found = list(value_differences(canonical(expected), canonical(got)))
            found = [] if is_error else found  # the text of an error is the client's own
            if not found:
                return
            texts = ("", "")
        else:
            found = []
            texts = (_outcome(recorded.is_error, expected), _outcome(is_error, value))
        departure = Departure(
            kind="answer",
            method=step.method,
            client_message=self._client_messages,
            message=recorded.number,
            session=step.session,
            expected=texts[0],
            got=texts[1],
            differences=found,
        )
        self._depart(departure)
        if self._strict and course in self._courses and not course.is_answered:
            self._courses.remove(course)
            self._answer_departure(course.live_id, departure, step.method)

    def _use(self, match: Match, params: Any, now: float) -> None:
        self._matcher.use(match.step)
        self._matcher.bind(match.step, params)
        self._came[match.step.number] = now

    def _cancel_turn(self, params: Any) -> None:
        """End the running turn as an agent does: the recording has no cancel here."""
        session = self._matcher.session_of(params.get("sessionId") if is_object(params) else None)
        turn = self._running_turn(session)
        self._depart(
            Departure(
                kind="cancelled",
                method="session/cancel",
                client_message=self._client_messages,
                session=session,
                expected="no cancel here",
                got="a cancel, which ends the turn" if turn else "a cancel without a turn",
            )
        )
        if turn is None:
            return
        rest = turn.steps[turn.at :]
        if turn.has_no_end and turn.request and turn.request.response:
            # Of version 2, and no update ends it.
            turn.steps = turn.steps[: turn.at]
        else:
            self._courses.remove(turn)
        if not turn.is_answered:
            result = turn.request.response if turn.request is not None else None
            value = result.value() if result is not None and not result.is_error else None
            if is_object(value) and "stopReason" not in value:  # of version 2
                self._own.append(self._frame(result, turn))  # type: ignore[arg-type]  # it has a value
            else:
                answer = {"jsonrpc": "2.0", "id": turn.live_id}
                self._own.append(
                    lenient_json.dumps({**answer, "result": {"stopReason": "cancelled"}})
                )
        for step in rest:
            update = _idle_update(step)
            if update is not None:
                update["params"]["update"]["stopReason"] = "cancelled"
                update["params"] = self._values.to_live(update["params"], step.session)
                self._own.append(lenient_json.dumps(update))

    def _running_turn(self, session: str | None) -> _Course | None:
        for course in self._courses:
            request = course.request
            if request is None or request.method != "session/prompt":
                continue
            if session is None or request.session == session:
                return course
        return None

    def _cancel_request(self, params: Any, now: float) -> None:
        live = params.get("requestId") if is_object(params) else None
        course = next((one for one in self._courses if one.request and one.live_id == live), None)

        def is_of_request(step: Step) -> bool:
            value = step.value()
            number = value.get("requestId") if is_object(value) else None
            if course is not None and course.request is not None:
                return json_text(number) == course.request.id
            return self._client_ids.get(json_text(number)) == json_text(live)

        unused = [step for step in self._matcher.unused if step.method == "$/cancel_request"]
        match = next(filter(is_of_request, unused), None)
        if match is not None:
            self._matcher.use(match)
            self._came[match.number] = now
            return
        self._depart(
            Departure(
                kind="cancelled",
                method="$/cancel_request",
                client_message=self._client_messages,
                expected="no cancel here",
                got=f"a cancel of request {one_line(json_text(live), _SHOWN)}",
            )
        )
        if course is not None and not course.is_answered:
            self._courses.remove(course)
            self._error(live, _CANCELLED, "The request was cancelled")

    # Departures.

    def _changed(self, match: Match) -> None:
        step = match.step
        self._depart(
            Departure(
                kind="changed",
                method=step.method,
                client_message=self._client_messages,
                message=step.number,
                session=step.session,
                differences=match.differences,
            )
        )

    def _unmatched(self, kind: str, method: str, params: Any, match: Match | None) -> Departure:
        session = self._matcher.session_of(params.get("sessionId") if is_object(params) else None)
        departure = Departure(
            kind="unknown" if match is None else "changed",
            method=one_line(method, _SHOWN),
            client_message=self._client_messages,
            message=None if match is None else match.step.number,
            session=session,
            expected=self._expected(kind, method),
            got=f"a {kind} with params {one_line(json_text(canonical(params)), _SHOWN)}",
            differences=[] if match is None else match.differences,
        )
        self._depart(departure)
        return departure

    def _expected(self, kind: str, method: str) -> str:
        recorded = [step for step in self._script.steps if step.from_client and step.kind == kind]
        same = sum(step.method == method for step in recorded)
        if same:
            return f"at most {same}, which the recording has"
        methods = ", ".join(dict.fromkeys(step.method for step in recorded))
        return f"one of the recorded {kind}s: {methods or 'none'}"

    def _answer_departure(self, live_id: Any, departure: Departure, method: str) -> None:
        known = any(step.method == method for step in self._script.requests)
        code = _INVALID_PARAMS if departure.differences else _INTERNAL_ERROR
        text = f"Not in the recording: {departure}"
        self._error(live_id, code if known else _METHOD_NOT_FOUND, text)

    def _invalid(self, code: int, why: str, frame: bytes | bytearray) -> None:
        self._depart(
            Departure(
                kind="invalid",
                method="",
                client_message=self._client_messages,
                expected="a message",
                got=one_line(bytes(frame[:_SHOWN]).decode("utf-8", "replace"), _SHOWN),
            )
        )
        self._error(None, code, why)

    def _depart(self, departure: Departure) -> None:
        self.departures.append(departure)
        if self._on_departure is not None:
            self._on_departure(departure)

    def _error(self, live_id: Any, code: int, text: str) -> None:
        self._own.append(_error_frame(live_id, code, text))


def _error_frame(live_id: Any, code: int, text: str) -> bytes:
    error = {"code": code, "message": text}
    return lenient_json.dumps({"jsonrpc": "2.0", "id": live_id, "error": error})


def _outcome(is_error: bool, value: Any) -> str:
    return f"{'an error' if is_error else 'a result'}: {one_line(json_text(value), _SHOWN)}"


def _idle_update(step: Step) -> dict[str, Any] | None:
    """Return the message of a step that ends a turn of version 2."""
    return step.message() if is_idle(step) else None
