"""Prints what is new in one session: each entry with a word in front, sentence by sentence.

`Sentences` cuts streamed text, so that a listener does not hear half a word.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from accord.client.events import Compaction, SessionMessage, ToolCall
from accord.client.transcript import Message
from accord.text.excerpt import visible
from accord.types.content import ResourceLink, text_of
from accord_chat.lines import words
from accord_chat.lines.words import Printer
from accord_chat.live_session import LiveSession
from accord_chat.model.conversation import Entry, Remark
from accord_terminal.toolkit.text import one_line

MAX_WAITING = 1000  # characters; a longer piece is cut at a space
# At least two letters before the dot: neither "e.g." nor the number of a list ends a sentence.
_END = re.compile(r"(?:[^\W\d_]{2}|[)\]\"'`*])[.!?…]+[)\]\"'`*]*\s|[。！？]\s?")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([^`]*)$")


class Sentences:
    """Cuts the text of one message into sentences and lines while it grows."""

    def __init__(self) -> None:
        self._rest = ""
        self._is_line_start = True
        self._fence = ""  # that a block of code began with

    @property
    def has_rest(self) -> bool:
        """Whether something waits for its end."""
        return bool(self._rest.strip())

    def feed(self, text: str) -> Iterator[str]:
        """Yield what is complete with this text."""
        *lines, self._rest = (self._rest + text).replace("\r\n", "\n").split("\n")
        for line in lines:
            yield from self._line(line)
        if self._fence or (self._is_line_start and self._rest.lstrip()[:1] in ("`", "~")):
            return
        *pieces, self._rest = _cut(self._rest)
        if pieces:
            self._is_line_start = False
        yield from (piece.strip() for piece in pieces if piece.strip())

    def end(self) -> Iterator[str]:
        """Yield the rest."""
        rest, self._rest = self._rest, ""
        if rest.strip():
            yield from self._line(rest)
        self._is_line_start = True

    def _line(self, line: str) -> Iterator[str]:
        fence = _FENCE.match(line) if self._is_line_start else None
        self._is_line_start = True
        if fence is not None and not self._fence:
            self._fence = fence[1]
            yield f"Code, {fence[2].strip()}:" if fence[2].strip() else "Code:"
        elif fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
            yield "End of code."
        elif self._fence:
            yield line
        else:
            yield from (piece.strip() for piece in _cut(line) if piece.strip())


def _cut(line: str) -> Iterator[str]:
    """Yield the sentences of a line, none of them too long; the last one may be unfinished."""
    start = 0
    for found in _END.finditer(line):
        yield from _short(line[start : found.end()])
        start = found.end()
    yield from _short(line[start:])


def _short(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > MAX_WAITING:
        space = sentence.rfind(" ", start, start + MAX_WAITING)
        end = space + 1 if space > start else start + MAX_WAITING
        yield sentence[start:end]
        start = end
    yield sentence[start:]


SPEAKERS = {"user": "You", "agent": "Agent", "thought": "Thought"}
SEVERITIES = {"error": "Error", "warning": "Warning"}
MAX_NEW = 10  # entries that are read when a session is shown; the others are counted


class _Progress(Struct):
    """How much of a message was printed."""

    sentences: Sentences = field(default_factory=Sentences)
    text: str = ""
    parts: int = 0  # other than text
    is_short: bool = False  # a thought whose beginning was printed
    is_muted: bool = False  # a prompt that the user has just typed
    is_noted: bool = False  # its outcome was printed


class SessionReader:
    """Reads a session aloud, from where it was left."""

    def __init__(self, session: LiveSession, printer: Printer) -> None:
        self.session = session
        self._printer = printer
        self._changed: set[int] = set()
        self._next = 0  # the first entry that was never printed
        self._open: dict[int, _Progress] = {}
        self._statuses: dict[int, str] = {}  # of tool calls, as printed
        self._speaker: tuple[int, str] | None = None  # who had the last word
        self._typed: deque[str] = deque(maxlen=1)
        self._plan = ""
        self._settings: dict[str, str] | None = None
        self._subagents: dict[str, str] = {}
        self._state = ""
        self._is_restored = session.has_prompts  # what it has said before is mostly known

    def typed(self, text: str) -> None:
        """Do not print the next prompt, if it is this one: the user sees it already."""
        self._typed.append(text)

    def interrupted(self) -> None:
        """Say again who speaks: other lines were printed."""
        self._speaker = None

    @property
    def is_behind(self) -> bool:
        """Whether the state is another one than the user knows."""
        return self._state != self.session.state

    def read(self) -> bool:
        """Print what is new; return whether the rest of a sentence waits, which may be the end."""
        session = self.session
        if session.state in ("starting", "logging_in"):
            self._read_state()
            return False
        timeline = session.timeline
        timeline.sync()
        self._changed |= timeline.take_changed()
        new = len(timeline.entries) - self._next
        self._read_ready()
        if self._is_restored and new > MAX_NEW:
            skipped = new - MAX_NEW
            self._say(f"Note: {skipped:,} earlier entries are not read; :history reads them.")
            self._next += skipped
        self._is_restored = False
        for at in sorted(self._changed):
            if at >= self._next or at in self._open or at in self._statuses:
                entry = timeline.entries[at]
                if isinstance(entry.content, Remark) and entry.content.ends_turn:
                    self._read_side()
                if at >= self._next:
                    self._finish_before(at)
                self._read_entry(at, entry)
        self._read_side()
        self._next = len(timeline.entries)
        self._changed.clear()
        for at in [at for at in self._open if at < self._next - 1]:  # the last one may grow
            if not timeline.entries[at].is_open:
                del self._open[at]
        self._read_state()
        return any(progress.sentences.has_rest for progress in self._open.values())

    def _say(self, text: str) -> None:
        self._speaker = None
        self._printer.say(text)

    # The conversation.

    def _read_entry(self, at: int, entry: Entry) -> None:
        match entry.content:
            case Message() as message:
                self._read_message(at, entry, message)
            case ToolCall() as call:
                self._read_call(at, entry, call)
            case Compaction() | SessionMessage() | Remark():
                first, *rest = entry_texts(entry, str(self.session.cwd))
                self._say(first)
                self._printer.below(rest)

    def _read_message(self, at: int, entry: Entry, message: Message) -> None:
        progress = self._open.get(at)
        if progress is None:
            progress = self._open[at] = _Progress()
            if message.role == "user" and self._typed and message.text.startswith(self._typed[0]):
                progress.is_muted = True
                self._typed.clear()
        more = ""
        texts = [part for part in message.content if isinstance(part, str | ResourceLink)]
        text = "\n\n".join(map(_text, texts))
        if not text.startswith(progress.text):
            progress.sentences, progress.text = Sentences(), ""
            more = ", instead of the last message"
        new = text[len(progress.text) :]
        progress.text = text
        lines = list(progress.sentences.feed(new))
        if not entry.is_open or not (new or self.session.is_busy):
            lines += progress.sentences.end()
        others = [one for one in message.content if not isinstance(one, str | ResourceLink)]
        lines += map(words.content_words, others[progress.parts :])
        progress.parts = len(others)
        self._speak_new(at, message, progress, lines, more)
        if entry.note and not progress.is_noted:
            progress.is_noted = True
            self._say(f"Note: {one_line(entry.note, 200)}.")

    def _finish_before(self, at: int) -> None:
        """Print what waits for its end, since something follows."""
        for earlier, progress in self._open.items():
            message = self.session.timeline.entries[earlier].content
            if earlier < at and isinstance(message, Message):
                self._speak_new(earlier, message, progress, list(progress.sentences.end()))

    def _speak_new(
        self, at: int, message: Message, progress: _Progress, lines: list[str], more: str = ""
    ) -> None:
        if progress.is_muted or not lines:
            return
        if message.role == "thought":
            if not progress.is_short:
                progress.is_short = True
                self._speak(at, SPEAKERS[message.role], lines[:1])
        else:
            self._speak(at, SPEAKERS[message.role] + more, lines)

    def _speak(self, at: int, speaker: str, lines: list[str]) -> None:
        if not lines:
            return
        if self._speaker != (at, speaker):
            # Its own word and one line: the rest is indented, as all text of agents.
            self._printer.say(f"{speaker}: {visible(lines[0])}")
            self._speaker = at, speaker
            lines = lines[1:]
        self._printer.below(lines)

    def _read_call(self, at: int, entry: Entry, call: ToolCall) -> None:
        status = words.status_word(call)
        if self._statuses.get(at) == status:
            return
        self._statuses[at] = status
        cwd = str(self.session.cwd)
        self._say(f"Tool: {words.call_title(call, cwd)}, {status}")
        if not call.is_open:
            del self._statuses[at]
            self._printer.below(words.change_lines(call, cwd))
            self._printer.below(words.output_lines(call, entry.terminals))

    # What is around it.

    def _read_side(self) -> None:
        if not self.session.timeline.side_changed:
            return
        self.session.timeline.side_changed = False
        transcript = self.session.transcript
        plan = transcript.plan
        line = "" if plan is None else words.plan_line(plan)
        if line and line != self._plan:
            self._say(line)
        self._plan = line
        settings = words.setting_lines(transcript)
        if self._settings is not None:
            for option, value in settings.items():
                if self._settings.get(option) != value:
                    self._say(f"Note: {value}")
        if settings or self._settings:
            self._settings = settings
        for subagent in transcript.subagents.values():
            state = "" if subagent.state is None else str(subagent.state.state)
            if self._subagents.get(subagent.id) != state:
                self._subagents[subagent.id] = state
                name = one_line(subagent.title or subagent.id, 80)
                self._say(f"Subagent: {name}, {one_line(state, 40) or 'started'}")

    def _read_ready(self) -> None:
        """Say that the agent has started, before what it does."""
        if self._state in ("", "starting", "logging_in") and self.session.state != "failed":
            self._state = "idle"
            settings = self._settings = words.setting_lines(self.session.transcript)
            name = one_line(self.session.agent_name, 60)
            self._say(". ".join([f"Note: {name} is ready", *settings.values()]) + ".")

    def _read_state(self) -> None:
        before, state = self._state, self.session.state
        self._state = state
        if state == before:
            return
        match state:
            case "starting":
                self._say(f"Note: starting {one_line(self.session.agent_name, 60)}.")
            case "logging_in":
                self._say(f"Note: {one_line(self.session.agent_name, 60)} needs a login.")
            case "failed":
                self._say("Note: the session is not open. :reconnect tries again.")
            case _:
                pass


def _text(part: str | ResourceLink) -> str:
    return part if isinstance(part, str) else f"Link: {one_line(part.uri, 400)}"


def entry_texts(entry: Entry, cwd: str) -> list[str]:
    """Return the whole of an entry: its line, and the lines below it."""
    match entry.content:
        case Message(role=role) as message:
            sentences = Sentences()
            lines = [*sentences.feed(message.text), *sentences.end()] or [""]
            return [f"{SPEAKERS[role]}: {visible(lines[0])}", *lines[1:]]
        case ToolCall() as call:
            title = f"Tool: {words.call_title(call, cwd)}, {words.status_word(call)}"
            return [title, *words.change_lines(call, cwd)]
        case Compaction() as compaction:
            status = one_line(str(compaction.status), 40).replace("_", " ")
            texts = [part for part in compaction.summary if isinstance(part, str)]
            return [f"Note: compaction of the conversation: {status}", *texts[:20]]
        case SessionMessage() as message:
            ends = [one_line(end or "unknown", 40) for end in (message.sender, message.recipient)]
            return [f"Message: from {ends[0]} to {ends[1]}", text_of(message.content)]
        case Remark(text=text, severity=severity, details=details, ends_turn=ends_turn):
            word = "Done" if ends_turn else SEVERITIES.get(severity, "Note")
            return [f"{word}: {text.replace(' · ', ', ')}", *([details] if details else [])]
