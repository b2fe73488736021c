"""The conversation of an inspection: one for each recording, and the client of a live agent.

`transcripts` builds the transcripts of all sessions from recorded messages, `live_client` is what
the user does on the page. Here are the conversation of one recording, and the routes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.client.events import Event
from accord.text.excerpt import one_line
from accord_inspector.json_http import json_words
from accord_inspector.talk.live_client import LiveClient
from accord_inspector.talk.transcripts import Transcripts
from accord_terminal.conversation import (
    ApiError,
    SessionLog,
    Stamp,
    body_of,
    changes_json,
    json_response,
    older_json,
)
from accord_trace.message_index import MessageRow
from accord_trace.records import Record

__all__ = (
    "Conversation",
    "Conversations",
    "RecordedMessages",
    "conversation_routes",
)


_logger: logging.Logger = logging.getLogger("accord.inspector")

SLICE_S = 0.02  # for which messages are added before others run
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
        return changes_json(self._log(session_id), since=since, epoch=epoch, first=first)

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
        return older_json(self._log(session_id), before)

    def _log(self, session_id: str) -> SessionLog:
        log = self._transcripts.sessions.get(session_id)
        if log is None:
            raise ApiError(404, f"Unknown session {one_line(session_id, 100)}")
        return log


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
