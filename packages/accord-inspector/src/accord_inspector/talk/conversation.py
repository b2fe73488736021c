"""The conversation of one recording, as the page shows it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from time import perf_counter
from typing import Any, Protocol

from accord.client.events import Event
from accord.text.excerpt import one_line
from accord_inspector.json_http import ApiError
from accord_inspector.json_words import json_words
from accord_inspector.talk.entry_json import entry_json, session_json
from accord_inspector.talk.live_client import LiveClient
from accord_inspector.talk.session_log import SessionLog, Stamp
from accord_inspector.talk.shown import terminal_json
from accord_inspector.talk.transcripts import Transcripts
from accord_trace.message_index import MessageRow
from accord_trace.records import Record

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
        self._problems: deque[tuple[int, str, str]] = deque()
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

    def problem(self, session_id: str, text: str) -> None:
        """Add a problem of this side to a session."""
        self._messages.read_written()
        self._problems.append((len(self._messages), session_id, text))
        self._add_problems()
        self._changed()

    def _add_problems(self) -> None:
        while self._problems and self._problems[0][0] <= self._added:
            before, session_id, text = self._problems.popleft()
            log = self._transcripts.sessions.get(session_id)
            if log is not None:
                cause = self._unmatched(before - 1) or _cause(log)
                log.at(cause).add_failure(json_words(one_line(text)))

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
