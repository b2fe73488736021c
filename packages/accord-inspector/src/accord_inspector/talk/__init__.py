"""The conversation of an inspection: one for each recording, and the client of a live agent.

`transcripts` builds the transcripts of all sessions from recorded messages, `session_log` is one
session as a list of entries for the page, `live_client` is what the user does on the page. Here are
the entries and states of sessions as JSON, the conversation of one recording, and the routes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.client.events import Compaction, Event, Notice, SessionMessage, Subagent, UnknownUpdate
from accord.client.transcript import Message
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.types.steering import outcome_of
from accord_inspector.json_http import ApiError, body_of, json_response, json_words
from accord_inspector.talk.live_client import LiveClient
from accord_inspector.talk.session_log import (
    Entry,
    SessionLog,
    Stamp,
    bounded,
    contents_json,
    error_json,
    option_json,
    plan_json,
    state_json,
    terminal_json,
    token_usage_json,
    tool_call_json,
    value_text,
)
from accord_inspector.talk.transcripts import Transcripts
from accord_trace.message_index import MessageRow
from accord_trace.records import Record

__all__ = (
    "Conversation",
    "Conversations",
    "RecordedMessages",
    "conversation_routes",
    "entry_json",
    "session_json",
)

MAX_COMMANDS = 500


def entry_json(entry: Entry, since: int, now: int) -> dict[str, Any]:
    """Return an entry; of a message, the parts that changed after the time `since`."""
    value = entry.value
    shown: dict[str, Any] = {
        "id": entry.id,
        "kind": entry.kind,
        "message": entry.stamp.number,
        "last": entry.last,
        "seconds": round(entry.stamp.seconds, 3),
    }
    match entry.kind:
        case "message":
            assert isinstance(value, Message)
            assert entry.parts is not None
            first, parts = entry.parts.since(since, now)
            shown |= {"role": value.role, "from": first, "parts": parts}
        case "tool":
            shown |= tool_call_json(value)
        case "plan":
            shown |= plan_json(value)
        case "end":
            state, seconds = value
            shown |= {
                "stopReason": one_line(state.stop_reason or "", 60),
                "error": None if state.error is None else error_json(state.error),
                "tokens": token_usage_json(state.token_usage),
                "took": seconds,
                "problem": entry.problem,
            }
        case "permission":
            shown |= _permission(value)
        case "steer":
            shown |= _steer(value)
        case "elicitation":
            shown |= {
                "mode": one_line(str(value["mode"]), 60),
                "text": bounded(str(value["message"]))["text"],
                "url": None if value["url"] is None else one_line(str(value["url"])),
                "outcome": _action(value["outcome"]),
            }
        case "error":
            shown |= {"method": one_line(value["method"]), "error": error_json(value["error"])}
        case "connection":
            shown |= {"side": one_line(value["side"]), "reason": one_line(value["reason"])}
        case "unreadable":
            shown |= {
                "method": one_line(value["method"]),
                "reason": json_words(one_line(value["reason"])),
            }
        case "unanswered":
            pass
        case "skipped":
            shown |= {"count": value}
        case "failure":
            shown |= {"reason": value}
        case _:
            shown |= _other(value)
    return shown


def _other(value: Any) -> dict[str, Any]:
    match value:
        case Notice():
            return {
                "severity": one_line(value.severity, 60),
                "title": one_line(value.title),
                "text": bounded(value.description or "")["text"],
            }
        case Compaction():
            return {
                "status": one_line(value.status, 60),
                "parts": contents_json(value.summary),
                "reason": one_line(value.error or ""),
            }
        case Subagent():
            return {
                "session": value.id,
                "title": one_line(value.title or value.id, 200),
                "text": bounded(value.description or "")["text"],
                "state": state_json(value.state),
            }
        case SessionMessage():
            return {
                "sender": one_line(value.sender or "?", 200),
                "recipient": one_line(value.recipient or "?", 200),
                "parts": contents_json(value.content),
            }
        case UnknownUpdate():
            return value_text(value.raw)
        case _:
            return {}


def _permission(value: dict[str, Any]) -> dict[str, Any]:
    options = {
        option["optionId"]: option
        for option in value["options"]
        if is_object(option) and isinstance(option.get("optionId"), str)
    }
    outcome, chosen = value["outcome"], None
    if outcome is not None:
        result: Any = outcome["value"]
        is_read = is_object(result) and not outcome["isError"]
        selected: Any = result.get("outcome") if is_read else None
        option_id = selected.get("optionId") if is_object(selected) else None
        option = options.get(option_id) if isinstance(option_id, str) else None
        if option is not None:
            chosen = {
                "name": one_line(str(option.get("name")), 200),
                "kind": one_line(str(option.get("kind")), 60),
            }
        elif isinstance(option_id, str):
            chosen = {"name": one_line(option_id, 200), "kind": "unknown"}
        else:
            kind = "cancelled" if selected is not None else "unanswered"
            chosen = {"name": _refusal(outcome) or kind, "kind": kind}
    return {
        "title": one_line(str(value["title"] or ""), 500),
        "description": one_line(str(value["description"] or "")),
        "command": None if value["command"] is None else one_line(str(value["command"])),
        "callId": value["callId"],
        "outcome": chosen,
    }


def _steer(value: dict[str, Any]) -> dict[str, Any]:
    """Return what the user said while a turn ran; if the agent took it, a message has the text."""
    answer, outcome = value["outcome"], "waiting"
    if answer is not None:
        known = None if answer["isError"] else outcome_of(answer["value"])
        outcome = known or _refusal(answer) or "unanswered"
    is_message = outcome == "injected"
    return {"outcome": outcome, "parts": [] if is_message else contents_json(value["content"])}


def _action(outcome: dict[str, Any] | None) -> str | None:
    if outcome is None:
        return None
    if outcome["isError"] or not is_object(outcome["value"]):
        return _refusal(outcome) or "unanswered"
    return one_line(str(outcome["value"].get("action")), 60)


def _refusal(outcome: dict[str, Any]) -> str:
    """Return the error that the client answered a question with; empty if it did not."""
    error: Any = outcome["value"]
    if not outcome["isError"] or not is_object(error):
        return ""
    return f"refused: {one_line(str(error.get('message', '')), 500)}"


def session_json(log: SessionLog) -> dict[str, Any]:
    """Return the state of a session."""
    transcript = log.transcript
    usage = transcript.usage
    return {
        "id": log.id,
        "label": one_line(log.id, 200),
        "title": None if transcript.title is None else one_line(transcript.title, 200),
        "cwd": None if log.cwd is None else one_line(log.cwd),
        "running": log.is_running,
        "closed": log.is_closed,
        "message": log.first.number,
        "state": state_json(transcript.state),
        "mode": None if transcript.mode is None else one_line(transcript.mode, 100),
        "options": [option_json(option) for option in transcript.options],
        "commands": [
            {
                "name": one_line(command.name, 100),
                "description": one_line(command.description),
                "hint": None if command.hint is None else one_line(command.hint, 200),
            }
            for command in transcript.commands[:MAX_COMMANDS]
        ],
        "usage": None
        if usage is None
        else {
            "used": usage.used,
            "size": usage.size,
            "cost": None if usage.cost is None else usage.cost.amount,
            "currency": None if usage.cost is None else one_line(usage.cost.currency, 10),
        },
    }


_logger: logging.Logger = logging.getLogger("accord.inspector")

SLICE_S = 0.02  # for which messages are added before others run
MAX_ENTRIES = 100  # in one answer, if everything is sent
MAX_CHANGED = 500
FAR = 20_000  # messages that are still to be read: from there on, most updates are skipped
SAMPLED = 20  # of as many updates, one is shown
MAX_SESSIONS = 500  # in the list, the last ones to change


class RecordedMessages(Protocol):
    """The messages of a recording, which may grow."""

    grows: bool

    def __len__(self) -> int: ...
    def read_written(self) -> None: ...
    def record(self, n: int) -> Record: ...
    def row(self, n: int) -> MessageRow: ...
    def observe(self, observer: Callable[[int], None]) -> None: ...


class Conversation:
    """The sessions of a recording; `follow` adds the messages as they come.

    `changed` is called after each change. `client` is the client of a live agent. `now` returns the
    time in the recording at which a message of another time can still be answered.
    """

    def __init__(
        self,
        messages: RecordedMessages,
        changed: Callable[[], None],
        now: Callable[[float], float | None] = lambda _: None,
    ) -> None:
        self.client: LiveClient | None = None
        self._messages = messages
        self._changed = changed
        self._now = now
        self._added = 0
        # Problems, each with the number of messages that come before it.
        self._problems: deque[tuple[int, str, str, bool]] = deque()
        self._more = asyncio.Event()
        self._transcripts = Transcripts()
        messages.observe(lambda _: self._more.set())

    def attach(self, client: LiveClient) -> None:
        """Set the client of the live agent."""
        self.client = client
        self._transcripts = Transcripts(is_live=True)

    async def follow(self) -> None:
        """Add the messages until this is cancelled."""
        while True:
            self._more.clear()
            while self._added < len(self._messages):
                self._add(perf_counter() + SLICE_S)
                self._changed()
                # A live agent can send faster than this reads.
                await asyncio.sleep(SLICE_S if self._messages.grows else 0)
            self._changed()
            await self._more.wait()

    def _add(self, until: float) -> None:
        for number in range(self._added, len(self._messages)):
            self._added = number + 1
            if self._messages.grows and self._is_skipped(number):
                continue
            try:
                self._transcripts.add(number, self._messages.record(number))
            except Exception:  # one message must not end the inspection
                _logger.exception("! message %d is not in the conversation", number)
            self._add_problems()
            if perf_counter() > until:
                return

    def _is_skipped(self, number: int) -> bool:
        """Skip most updates while the agent sends more than this can show."""
        if len(self._messages) - number < FAR or number % SAMPLED == 0:
            return False
        row = self._messages.row(number)
        log = self._transcripts.sessions.get(row.session or "")
        if row.method != "session/update" or row.kind != "notification" or log is None:
            return False
        log.skip()
        return True

    def apply(self, session_id: str, event: Event) -> None:
        """Apply an event that is in no message."""
        log = self._transcripts.sessions.get(session_id)
        if log is not None:
            log.apply(event)
            self._changed()

    def problem(self, session_id: str, text: str, *, is_of_message: bool = True) -> None:
        """Add a problem of this side to a session; by default the last message has caused it."""
        self._messages.read_written()
        self._problems.append((len(self._messages), session_id, text, is_of_message))
        self._add_problems()
        self._changed()

    def _add_problems(self) -> None:
        while self._problems and self._problems[0][0] <= self._added:
            before, session_id, text, is_of_message = self._problems.popleft()
            log = self._transcripts.sessions.get(session_id)
            if log is not None and is_of_message:
                cause = self._unmatched(before - 1) or _cause(log)
                log.at(cause).add_failure(json_words(one_line(text)))
            elif log is not None:
                log.at(log.last).add("failure", json_words(one_line(text)))

    def _unmatched(self, number: int) -> Stamp | None:
        """Return a message if it is a response to no request: it belongs to no session."""
        if number < 0:
            return None
        record = self._messages.record(number)
        is_unmatched = record.type == "response" and record.session is None and not record.method
        return Stamp(number, record.ts) if is_unmatched else None

    def client_changed(self) -> None:
        """Note that the state of the client has changed."""
        self._changed()

    # For the page.

    def json(self) -> dict[str, Any]:
        """Return the list of the sessions, the newest last, and the state of the client."""
        logs = list(self._transcripts.sessions.values())
        subagents = {key for log in logs for key in log.transcript.subagents}
        client = self.client
        return {
            "changed": self._transcripts.clock.now,
            "added": self._added,
            "behind": len(self._messages) - self._added,
            "sessions": [self._listed(log, subagents) for log in logs[-MAX_SESSIONS:]],
            "client": None if client is None else client.json(),
        }

    def _listed(self, log: SessionLog, subagents: set[str]) -> dict[str, Any]:
        return {
            "id": log.id,
            "label": one_line(log.transcript.title or log.id, 200),
            "changed": log.changed,
            "running": log.is_running,
            "closed": log.is_closed,
            "opened": log.is_opened or log.id in subagents,
            "entries": len(log.entries),
            "waits": self._waits(log),
            "questions": 0 if self.client is None else self.client.questions.waiting(log.id),
        }

    def session(
        self, session_id: str, *, since: int = -1, epoch: int = -1, first: int = -1
    ) -> dict[str, Any]:
        """Return what changed in a session after the time `since`.

        The page holds the entries from `first` on. At first, and after the session was loaded
        again (then `epoch` differs), the answer has the last entries. Raise `ApiError` for an
        unknown session.
        """
        log = self._log(session_id)
        now = self._transcripts.clock.now
        changed = list(islice(log.changes_since(since), MAX_CHANGED + 1))
        whole = since < 0 or first < 0 or epoch != log.epoch or len(changed) > MAX_CHANGED
        if whole:
            since, first = -1, max(len(log.entries) - MAX_ENTRIES, 0)
            changed = log.entries[first:]
        changed = sorted((e for e in changed if e.id >= first), key=lambda entry: entry.id)
        answer: dict[str, Any] = {
            "now": now,
            "epoch": log.epoch,
            "whole": whole,
            "first": first,
            "total": len(log.entries),
            "entries": [entry_json(entry, since, now) for entry in changed],
            "terminals": self._terminals(log, since),
        }
        if log.state_changed > since:
            answer["state"] = session_json(log)
        return answer

    def _waits(self, log: SessionLog) -> dict[str, Any] | None:
        """Return which prompt has no response, and for how many seconds.

        They are null if none will come. None without such a prompt, or while messages are read.
        """
        oldest = next(iter(log.prompts.values()), None)
        if oldest is None or self._added < len(self._messages):
            return None
        now = self._now(oldest.seconds)
        seconds = None if now is None else round(max(now - oldest.seconds, 0.0), 1)
        return {"message": oldest.number, "seconds": seconds}

    def older(self, session_id: str, before: int) -> dict[str, Any]:
        """Return the entries before one."""
        log = self._log(session_id)
        end = min(before, len(log.entries))
        first = max(end - MAX_ENTRIES, 0)
        now = self._transcripts.clock.now
        return {
            "epoch": log.epoch,
            "first": first,
            "entries": [entry_json(entry, -1, now) for entry in log.entries[first:end]],
        }

    def _log(self, session_id: str) -> SessionLog:
        log = self._transcripts.sessions.get(session_id)
        if log is None:
            raise ApiError(404, f"Unknown session {one_line(session_id, 100)}")
        return log

    @staticmethod
    def _terminals(log: SessionLog, since: int) -> dict[str, Any]:
        from_transcript = log.transcript.terminals
        return {
            key: terminal_json(from_transcript[key])
            for key, time in log.terminals_changed.items()
            if time > since and key in from_transcript
        }


def _cause(log: SessionLog) -> Stamp:
    """Return the message that a problem of the running turn most likely comes from."""
    began = log.turn_began.number or 0
    for entry in reversed(log.entries):
        number = entry.stamp.number
        if number is not None and number < began:
            break
        if entry.kind == "unreadable":
            return entry.stamp
    return log.last


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


_Action: TypeAlias = Callable[[LiveClient, dict[str, Any]], Coroutine[Any, Any, Any]]


def conversation_routes(conversation_of: Callable[[str], Conversation]) -> Sequence[BaseRoute]:
    """Return the routes; `conversation_of` returns the conversation of a recording by its name."""

    async def sessions(request: Request) -> Response:
        return json_response(_conversation(request).json())

    async def session(request: Request) -> Response:
        params = request.query_params
        session_id = params.get("session", "")
        conversation = _conversation(request)
        if "before" in params:
            return json_response(conversation.older(session_id, _number(params["before"])))
        known = {name: _number(params.get(name, "-1")) for name in ("since", "epoch", "first")}
        return json_response(conversation.session(session_id, **known))

    async def act(request: Request) -> Response:
        action = _ACTIONS.get(request.path_params["action"])
        if action is None:
            raise ApiError(404, f"Unknown address {request.url.path}")
        client = _conversation(request).client
        if client is None:
            raise ApiError(409, "This is a recording: only a live agent can be talked to")
        body = await body_of(request)
        return json_response({"result": await client.run(action(client, body))})

    def _conversation(request: Request) -> Conversation:
        return conversation_of(request.query_params.get("recording", ""))

    return (
        Route("/api/conversation", sessions),
        Route("/api/conversation/session", session),
        Route("/api/conversation/{action}", act, methods=["POST"]),
    )


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, f"Expected a whole number, got {text!r}") from None


async def _answer(client: LiveClient, body: dict[str, Any]) -> None:
    number = body.get("question")
    if not isinstance(number, int):
        raise ApiError(400, "question: expected a number")
    if body.get("dismiss") is True:
        client.questions.dismiss(number)
    else:
        client.questions.answer(number, body.get("answer"))


async def _access(client: LiveClient, body: dict[str, Any]) -> None:
    client.set_access(body.get("files"), body.get("terminals"))


def _opens(how: str) -> _Action:
    return lambda client, body: client.open_session(how, body)


_ACTIONS: dict[str, _Action] = {
    "new": lambda client, body: client.new_session(body),
    "load": _opens("load"),
    "resume": _opens("resume"),
    "fork": _opens("fork"),
    "list": lambda client, _: client.list_sessions(),
    "close": lambda client, body: client.close_session(str(body.get("session")), delete=False),
    "delete": lambda client, body: client.close_session(str(body.get("session")), delete=True),
    "prompt": lambda client, body: client.prompt(body),
    "steer": lambda client, body: client.steer(body),
    "cancel": lambda client, body: client.cancel(body.get("session")),
    "cancel-tool-call": lambda client, body: client.cancel_tool_call(body),
    "answer": _answer,
    "option": lambda client, body: client.set_option(body),
    "login": lambda client, body: client.authenticate(str(body.get("method"))),
    "logout": lambda client, _: client.logout(),
    "access": _access,
}
