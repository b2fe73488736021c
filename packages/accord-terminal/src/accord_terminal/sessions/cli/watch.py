"""`accord session watch` and `history`: show the journal of a session."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import click
import msgspec

from accord.client.events import ContentChunk, Event, Plan, Text, ToolCall
from accord.client.transcript import calls_left_open
from accord.types.content import text_of
from accord_terminal.ask.views import stderr_lines, write_stderr
from accord_terminal.sessions.cli.options import (
    AGAIN_S,
    QUIET_S,
    agent_option,
    cwd_option,
    has_terminal,
    name_option,
    still_text,
    wait_text,
)
from accord_terminal.sessions.journal import (
    Answered,
    Asked,
    Ended,
    Entry,
    JournalReader,
    OptionsSet,
    OwnerEnded,
    OwnerStarted,
    Queued,
    Started,
    Steered,
    Updated,
    cursor_of,
    place_of,
)
from accord_terminal.sessions.owner.translate import Translator
from accord_terminal.sessions.owners import open_socket
from accord_terminal.sessions.records import (
    OwnerStarts,
    Record,
    SessionsError,
    Store,
    existing_session,
    has_owner,
)
from accord_terminal.toolkit.text import one_line, printable, steered_text


class JournalText:
    """Writes entries; the text of the agent as it comes, everything else in lines of its own."""

    def __init__(self, version: int, out: TextIO) -> None:
        self._out = out
        self._version = version
        self._translator = Translator(version)
        self._in_text = False
        self._tools: dict[str, str] = {}  # the status that was shown
        self._prompts: dict[str, str] = {}

    def skip(self, entry: Entry) -> None:
        """Take notice of an entry that is not shown."""
        match entry:
            case Updated(session=None):
                for event in self._translator.events(entry.update):
                    if isinstance(event, ToolCall):
                        self._tools[event.id] = event.shown_status
            case Ended():
                for call in self._left_open():
                    self._tools[call.id] = call.shown_status
            case Queued(prompt=str() as prompt):
                self._prompts[prompt] = entry.text
            case _:
                pass

    def show(self, entry: Entry) -> None:
        """Write an entry."""
        match entry:
            case Updated(session=None):
                for event in self._translator.events(entry.update):
                    self._event(event)
            case Queued():
                self._prompts[entry.prompt or ""] = entry.text
                self._line(f"+ {entry.prompt} queued by {entry.by}: {entry.text}")
            case Started():
                self._line(f"> {self._prompts.get(entry.prompt or '', entry.prompt)}")
            case Ended():
                for call in self._left_open():
                    self._event(call)
                why = entry.stop_reason if entry.error is None else f"failed: {entry.error}"
                self._line(f"= {entry.prompt} {why}")
                for line in stderr_lines(entry.stderr, why):
                    self._out.write(f"  {printable(line)}\n")
            case Asked():
                self._line(f"? {entry.what}: {entry.title}")
            case Steered():
                self._line(f"< {entry.by}: {entry.text} ({steered_text(entry.outcome)})")
            case Answered():
                self._line(f"! {entry.answer}, by {entry.by}")
            case OptionsSet():
                self._line(f"* {entry.option}: {entry.value}, by {entry.by}")
            case OwnerStarted():
                context = {"new": "", "lost": ", without the earlier context"}
                how = context.get(entry.restored, f", {entry.restored}")
                self._line(f"* {entry.agent} started (process {entry.pid}){how}")
            case OwnerEnded():
                self._line(f"* the agent has ended: {entry.reason}")
            case _:
                pass

    def _left_open(self) -> list[ToolCall]:
        """Return the tool calls that the turn has left open, and apply this to the transcript."""
        transcript = self._translator.transcript
        calls = calls_left_open(transcript, self._version)
        for call in calls:
            transcript.apply(call)
        return calls

    def _event(self, event: Event) -> None:
        match event:
            case Text(text) | ContentChunk(str() as text, "agent"):
                self._in_text = True
                self._out.write(printable(text))
                self._out.flush()
            case ContentChunk(content, "agent"):
                self._line(f"  [{text_of((content,)) or type(content).__name__}]")
            case ToolCall() if self._tools.get(event.id) != event.shown_status:
                self._tools[event.id] = event.shown_status
                self._line(f"- {event.title} [{event.shown_status}]")
            case Plan(entries) if entries:
                for each in entries:
                    self._line(f"  {each.status}: {each.content}")
            case _:
                pass

    def _line(self, text: str) -> None:
        self.close()
        self._out.write(f"{one_line(text)}\n")
        self._out.flush()

    def close(self) -> None:
        """End the line of the agent's text."""
        if self._in_text:
            self._in_text = False
            self._out.write("\n")
            self._out.flush()


_PAUSE_S = 0.1  # between looks at the file


class StartNotes:
    """Says at a terminal that the agent of a session is starting, for a command that follows it."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._next = time.monotonic() + QUIET_S if has_terminal() else math.inf
        self._since: float | None = None

    def look(self) -> None:
        """Look at the session, once in a while; call this often."""
        at = time.monotonic()
        if at < self._next:
            return
        self._next = at + QUIET_S
        if not has_owner(self._record.id) or not asyncio.run(_is_starting(self._record.id)):
            self._since = None
        elif self._since is None:
            self._since = at
            write_stderr([f"accord session watch: {wait_text(self._record)}"])
        elif at - self._since >= AGAIN_S:
            self._next = at + AGAIN_S
            write_stderr([still_text("accord session watch", at - self._since)])


async def _is_starting(record_id: str) -> bool:
    try:
        opened = await open_socket(record_id)
    except OwnerStarts:
        return True
    except SessionsError:
        return False
    if opened is not None:
        opened.close()
    return False


@click.command("watch")
@name_option
@agent_option
@cwd_option
@click.option("--cursor", metavar="CURSOR", help="Begin after this place [default: the end].")
@click.option("--from-start", is_flag=True, help="Begin at the first entry.")
@click.option("--no-follow", is_flag=True, help="End with the journal: do not wait for more.")
@click.option("--json", "as_json", is_flag=True, help="Print entries as JSON lines, with cursors.")
def watch_command(
    name: str | None,
    agent: str | None,
    cwd: Path,
    cursor: str | None,
    from_start: bool,
    no_follow: bool,
    as_json: bool,
) -> int:
    """Show what happens in a session until it is closed or you press Ctrl-C.

    Each line of --json has a cursor; `--cursor` continues after it. Watching needs no agent: it
    continues when the owner has ended and another one starts.
    """
    store = Store()
    record = existing_session(store, name, cwd, agent)
    reader = JournalReader(store.journal_path(record.id))
    entries = reader.new_entries()
    after = 0
    if cursor is not None:
        after = place_of(cursor, record.id)
    elif not from_start:
        newest = deque(entries, maxlen=1)
        after = newest[-1].seq if newest else 0
    shown = JournalText(record.protocol or 1, sys.stdout)
    is_last = no_follow
    start = StartNotes(record)
    while True:
        for entry in entries:
            if entry.seq <= after:
                shown.skip(entry)
            elif as_json:
                click.echo(_json(record, entry))
            else:
                shown.show(entry)
        if is_last:
            break
        start.look()
        time.sleep(_PAUSE_S)
        record = store.read(record.id)
        is_last = record.closed and not has_owner(record.id)  # all has been written
        entries = reader.new_entries()
    if not as_json:
        shown.close()
    return 0


@click.command("history")
@name_option
@agent_option
@cwd_option
@click.option("--tail", metavar="N", type=click.IntRange(min=1), help="Only the last N turns.")
@click.option("--json", "as_json", is_flag=True, help="Print entries as JSON lines.")
def history_command(
    name: str | None, agent: str | None, cwd: Path, tail: int | None, as_json: bool
) -> int:
    """Show the turns of a session."""
    store = Store()
    record = existing_session(store, name, cwd, agent)
    path = store.journal_path(record.id)
    entries = JournalReader(path).new_entries()
    if tail is not None:
        last = _last_prompts(entries, tail)
        entries = (entry for entry in JournalReader(path).new_entries() if entry.prompt in last)
    shown = JournalText(record.protocol or 1, sys.stdout)
    for entry in entries:
        if as_json:
            click.echo(_json(record, entry))
        else:
            shown.show(entry)
    if not as_json:
        shown.close()
    return 0


def _last_prompts(entries: Iterable[Entry], count: int) -> set[str]:
    prompts = dict.fromkeys(entry.prompt for entry in entries if entry.prompt is not None)
    return set([*prompts][-count:])


def _json(record: Record, entry: Entry) -> str:
    row: dict[str, Any] = {"cursor": cursor_of(record.id, entry.seq), "entry": entry}
    return msgspec.json.encode(row).decode()
