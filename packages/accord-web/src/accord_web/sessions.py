"""The sessions of this machine as their journals tell them: nothing is started to look at one.

`Overview` has a line for each, `JournalLog` the conversation of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from accord.client.events import (
    CommandsChanged,
    ContentChunk,
    Notice,
    OptionsChanged,
    StateChanged,
    UserText,
)
from accord.client.session import ClientSession
from accord.client.transcript import Transcript
from accord.errors import DecodeError, RequestError
from accord.text.excerpt import one_line
from accord.types.content import ContentBlock
from accord.types.tool_calls import Diff
from accord_terminal.conversation import ApiError, Clock, SessionLog, Stamp, wire_of
from accord_terminal.conversation import Entry as Shown
from accord_terminal.sessions.journal import (
    Answered,
    Asked,
    Ended,
    Entry,
    JournalReader,
    OwnerStarted,
    Queued,
    Started,
    Steered,
    Updated,
)
from accord_terminal.sessions.named import owner_states
from accord_terminal.sessions.owner.state import Contexts
from accord_terminal.sessions.records import JournalError, Record, Store, has_owner
from accord_terminal.toolkit.text import steered_text

_SLICE = 200  # entries that are applied before others run
_LISTED = 200  # sessions, the last ones to be used


class JournalLog:
    """The conversation of a session, and those of its subagents, by `/` and their id."""

    def __init__(self, store: Store, record: Record) -> None:
        self.record: Record = record
        self._path = store.journal_path(record.id)
        self._clock = Clock()
        self._busy = asyncio.Lock()
        self.queued: dict[str, dict[str, str]] = {}  # prompts that wait, by id
        self._start()

    def _start(self) -> None:
        self._reader = JournalReader(self._path)
        self._contexts = Contexts()
        self._protocol = self.record.protocol or 1
        self._logs: dict[str, SessionLog] = {}
        self._asked: dict[str, Shown] = {}
        self._has_updates = False
        self._unended = False
        self._by = ""  # of a message that the agent will echo
        self.queued.clear()

    @property
    def log(self) -> SessionLog:
        """The conversation of the session itself."""
        return self._log(None)

    def _log(self, subagent: str | None) -> SessionLog:
        key = self.record.id if subagent is None else f"{self.record.id}/{subagent}"
        if key not in self._logs:
            log = SessionLog(key, wire_of(2 if self._protocol == 2 else 1), self._clock, Stamp())
            log.cwd = self.record.cwd
            log.is_opened = True
            self._logs[key] = log
        return self._logs[key]

    def find(self, session_id: str) -> SessionLog:
        """Return the log of the session or of a subagent; raise `ApiError` for another one."""
        if session_id == self.record.id:
            return self.log
        if session_id not in self._logs:
            raise ApiError(404, f"Unknown session {one_line(session_id, 100)}")
        return self._logs[session_id]

    async def refresh(self) -> bool:
        """Read what is new in the journal; return whether something is. Raises `ApiError`."""
        async with self._busy:
            try:
                entries = await asyncio.to_thread(lambda: [*self._reader.new_entries()])
                if self._begins_again(entries):
                    epochs = {key: log.epoch + 1 for key, log in self._logs.items()}
                    self._start()
                    for key, epoch in epochs.items():
                        self._log(key.partition("/")[2] or None).epoch = epoch
                    entries = await asyncio.to_thread(lambda: [*self._reader.new_entries()])
            except JournalError as error:
                raise ApiError(409, str(error)) from None
            for entry in entries:
                self._contexts.read(entry)
            for number, entry in enumerate(entries, 1):
                self._add(entry)
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
            return bool(entries)

    def _begins_again(self, entries: Sequence[Entry]) -> bool:
        """Return whether the agent has lost its context since: then its earlier ids change."""
        return self._has_updates and any(
            isinstance(entry, OwnerStarted) and entry.restored in ("new", "lost")
            for entry in entries
        )

    def _add(self, entry: Entry) -> None:
        log = self.log.at(Stamp(None, _seconds(entry.at)))
        match entry:
            case Updated():
                self._update(entry)
            case Queued(prompt=str() as prompt):
                self.queued[prompt] = {"id": prompt, "by": entry.by, "text": entry.text}
                log.touch()
            case Started(prompt=str() as prompt):
                self.queued.pop(prompt, None)
                self._started(log, entry)
            case Ended(prompt=str() as prompt):
                if self.queued.pop(prompt, None) is None:
                    self._ended(log, entry)
                log.touch()
            case Steered():
                by = f"{entry.by}, {steered_text(entry.outcome)}"
                if log.wire.echoes_prompts and entry.outcome == "injected":
                    self._by = by
                else:
                    self._say(log, self._content(log, entry.content), f"steered {entry.seq}", by)
            case Asked():
                value = {"what": entry.what, "title": entry.title, "by": "", "answer": ""}
                self._asked[entry.request] = log.add("asked", value)
                log.touch()
            case Answered():
                asked = self._asked.pop(entry.request, None)
                if asked is not None:
                    asked.value |= {"by": entry.by, "answer": entry.answer}
                    log.change(asked)
                    log.touch()
            case OwnerStarted():
                if entry.protocol != self._protocol:
                    self._protocol = entry.protocol
                    log.restart(wire_of(2 if entry.protocol == 2 else 1), log.last)
                if entry.restored == "lost":
                    text = "The agent could not restore the conversation: its context is new"
                    log.apply(Notice("warning", text, None))
            case _:
                log.touch()

    def _update(self, entry: Updated) -> None:
        self._has_updates = True
        log = self._log(entry.session).at(self.log.last)
        count = len(log.entries)
        update = bytes(self._contexts.update_of(entry))
        try:
            _, read = log.wire.update(Raw(b'{"sessionId":"","update":' + update + b"}"))
        except DecodeError:
            log.add("unreadable", {"method": "session/update", "reason": "It is not valid"})
            return
        log.receive(read)
        if any(shown.kind == "end" for shown in log.entries[count:]):
            self._unended = False
        if self._by and len(log.entries) > count and _is_users(log.entries[-1]):
            log.entries[-1].by, self._by = self._by, ""

    def _started(self, log: SessionLog, entry: Started) -> None:
        assert entry.prompt is not None
        log.begin_turn()
        log.prompted = log.last
        self._unended = True
        if log.wire.echoes_prompts:
            self._by = entry.by
        else:
            log.prompts[entry.prompt] = log.last
            self._say(log, self._content(log, entry.content), entry.prompt, entry.by)
        log.apply(StateChanged(state="running"))

    def _ended(self, log: SessionLog, entry: Ended) -> None:
        began = log.prompts.pop(entry.prompt, None) or log.prompted
        if not self._unended:
            return  # a state of the agent has ended it
        log.prompted = None
        self._unended = False
        error = None
        if entry.error is not None:
            error = RequestError.of(entry.code or -32603, entry.error, None)
        state = StateChanged(
            state="idle", stop_reason=entry.stop_reason, error=error, token_usage=entry.usage
        )
        log.transcript.apply(state)
        seconds = None if began is None else max(log.last.seconds - began.seconds, 0.0)
        log.end_turn(state, seconds)

    def _content(self, log: SessionLog, content: Raw) -> tuple[ContentBlock, ...]:
        try:
            return log.wire.prompt(msgspec.json.decode(content))
        except (DecodeError, msgspec.MsgspecError):
            return ("A message that cannot be read",)

    def _say(
        self, log: SessionLog, contents: Sequence[ContentBlock], message_id: str, by: str
    ) -> None:
        for content in contents:
            is_text = isinstance(content, str)
            log.apply(
                UserText(content, message_id)
                if is_text
                else ContentChunk(content, "user", message_id)
            )
        if log.entries and _is_users(log.entries[-1]):
            log.entries[-1].by = by
            log.change(log.entries[-1])

    def take_options(self, session: ClientSession) -> None:
        """Show the options and commands of a client: the journal lacks the first ones."""
        log, now = self.log, session.transcript
        if now.options != log.transcript.options:
            log.apply(OptionsChanged(now.options))
        if now.commands and now.commands != log.transcript.commands:
            log.apply(CommandsChanged(now.commands))


def _is_users(entry: Shown) -> bool:
    return entry.kind == "message" and entry.value.role == "user"


def _seconds(at: str) -> float:
    with suppress(ValueError):
        return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
    return 0.0


class _Line:
    """What the list says of a session; it is made again when the journal has grown."""

    def __init__(self) -> None:
        self.size = -1
        self.log: JournalLog | None = None
        self.text = ""
        self.files = 0
        self.cost: str | None = None


class Overview:
    """The lines of the first screen: those that wait for the user first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: dict[str, _Line] = {}
        self.lines: list[dict[str, Any]] = []
        self.owned: list[str] = []  # the sessions whose agent runs, the last one to be used first

    async def look(self) -> bool:
        """Look at all sessions; return whether a line has changed."""
        records = [record for record in self._store if not record.closed]
        records = sorted(records, key=lambda record: record.used_at)[-_LISTED:]
        owned = [record for record in records if has_owner(record.id)]
        self.owned = [record.id for record in reversed(owned)]
        states = await owner_states(owned)
        lines: list[dict[str, Any]] = []
        for record in reversed(records):
            line = self._lines.setdefault(record.id, _Line())
            await self._read(record, line)
            state, status = states.get(record.id, ("stopped", {}))
            lines.append(_line_json(record, line, state, status))
        order = ["waits", "works", "starting", "failed", "idle"]
        lines.sort(key=lambda line: order.index(line["state"]))
        for gone in self._lines.keys() - {record.id for record in records}:
            del self._lines[gone]
        changed, self.lines = lines != self.lines, lines
        return changed

    async def _read(self, record: Record, line: _Line) -> None:
        try:
            size = self._store.journal_path(record.id).stat().st_size
        except OSError:
            size = 0
        if size == line.size:
            return
        line.size = size
        line.log = line.log or JournalLog(self._store, record)
        try:
            await line.log.refresh()
        except ApiError as error:
            line.text = error.text
            return
        log = line.log.log
        line.text = last_line(log)
        line.files = len(changed_files(log.transcript))
        usage = log.transcript.usage
        if usage is not None and usage.cost is not None:
            line.cost = f"{usage.cost.amount:.2f} {one_line(usage.cost.currency, 10)}"

    def log_of(self, record: Record) -> JournalLog:
        """Return the log of a session, which the list has read."""
        line = self._lines.setdefault(record.id, _Line())
        line.log = line.log or JournalLog(self._store, record)
        return line.log


def _line_json(record: Record, line: _Line, owner: str, status: dict[str, Any]) -> dict[str, Any]:
    questions = status.get("questions", [])
    state = {"running": "works", "starting": "starting", "no response": "failed"}.get(owner, "idle")
    if questions:
        state = "waits"
    elif state == "idle" and line.log is not None and _has_failed(line.log.log):
        state = "failed"
    title = record.name or (line.log and line.log.log.transcript.title) or "Session without a name"
    return {
        "id": record.id,
        "title": one_line(title, 100),
        "project": record.cwd,
        "agent": one_line(record.agent_info or record.agent, 100),
        "state": state,
        "question": one_line(questions[0], 200) if questions else "",
        "line": line.text,
        "files": line.files,
        "cost": line.cost,
        "queued": max(len(status.get("queue", [])) - 1, 0),
        "clients": sorted(one_line(name, 40) for name in status.get("clients", []))[:10],
        "usedAt": record.used_at,
    }


def _has_failed(log: SessionLog) -> bool:
    last = next((entry for entry in reversed(log.entries) if entry.kind == "end"), None)
    return last is not None and last.value[0].error is not None


def last_line(log: SessionLog) -> str:
    """Return the last line of the conversation, as one short line."""
    for entry in reversed(log.entries[-50:]):
        if entry.kind == "message" and entry.value.role != "thought":
            lines = [line for line in entry.value.text.splitlines() if line.strip()]
            if lines:
                return one_line(lines[-1], 200)
        elif entry.kind == "tool":
            return one_line(entry.value.title, 200)
        elif entry.kind == "end" and entry.value[0].error is not None:
            return one_line(entry.value[0].error.message, 200)
    return ""


def changed_files(transcript: Transcript) -> list[str]:
    """Return the files that tool calls have changed, in order."""
    found: dict[str, None] = {}
    for call in transcript.tool_calls:
        if call.status in ("failed", "cancelled"):
            continue
        for part in call.content:
            if isinstance(part, Diff):
                found.update(dict.fromkeys((part.path, *part.others)))
    return [*found]
