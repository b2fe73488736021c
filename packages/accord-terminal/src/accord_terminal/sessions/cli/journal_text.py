"""Shows the entries of a journal as lines of text."""

from __future__ import annotations

from typing import TextIO

from accord.client.events import ContentChunk, Event, Plan, Text, ToolCall
from accord.client.transcript import calls_left_open
from accord.types.content import text_of
from accord_terminal.ask.views import stderr_lines
from accord_terminal.sessions.entries import (
    Answered,
    Asked,
    Ended,
    Entry,
    OptionsSet,
    OwnerEnded,
    OwnerStarted,
    Queued,
    Started,
    Updated,
)
from accord_terminal.sessions.owner.translate import Translator
from accord_terminal.toolkit.text import one_line, printable


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
