"""Commands about what the agent has done."""

from __future__ import annotations

from datetime import datetime

from accord.client.events import ToolCall
from accord.client.message import Message
from accord.client.session import SessionView, SubagentSession
from accord.errors import AccordError
from accord_chat.lines import words
from accord_chat.lines.command_group import CommandGroup
from accord_chat.lines.dialogs import review
from accord_chat.lines.reader import entry_texts
from accord_chat.model.export import FORMATS, Format, exported, write_export
from accord_chat.model.followed import location_of
from accord_chat.model.timeline import Entry, Timeline
from accord_terminal.toolkit.text import one_line

HISTORY = 10
TRAFFIC = 20
MAX_MESSAGE = 2000  # characters
MAX_LEVELS = 8  # of subagents


class RecordCommands(CommandGroup):
    """The changes, the plan, the tool calls, the conversation and the messages."""

    async def review(self, _: str) -> None:
        """Review the changes."""
        session = self.session
        undone = await review(session, self.printer, self.read)
        if undone:  # the agent does not know it
            text = f"I have undone your changes at {', '.join(undone)}."
            session.draft = "\n".join(filter(None, [text, session.draft]))
            self.chat.save()
            self.say("Note: your next prompt says that to the agent. :drop forgets it.")

    def plan(self, _: str) -> None:
        """Read the plan."""
        plans = list(self.session.transcript.plans.values())
        for plan in plans:
            self.list_rows(words.plan_line(plan), words.plan_lines(plan))
        if not plans:
            self.say("Note: the agent has no plan.")

    def tools(self, argument: str) -> None:
        """List the tool calls, or read one."""
        entries = [one for one in self.session.timeline.entries if _is_call(one)]
        cwd = str(self.session.cwd)
        if not argument:
            rows = (f"{n}: {entry_texts(one, cwd)[0]}" for n, one in enumerate(entries, 1))
            self.list_rows(f"The agent has made {words.count(len(entries), 'tool call')}.", rows)
            return
        at = self.chosen(argument, len(entries))
        if at is not None:
            self._read_whole(entries[at])

    def _read_whole(self, entry: Entry) -> None:
        call, cwd = entry.content, str(self.session.cwd)
        if isinstance(call, ToolCall):
            self.say(entry_texts(entry, cwd)[0])
            self.printer.below(words.whole_call(call, entry.terminals, cwd))

    def thought(self, _: str) -> None:
        """Read the last thought."""
        for entry in reversed(self.session.timeline.entries):
            if isinstance(entry.content, Message) and entry.content.role == "thought":
                self._read_entry(entry)
                return
        self.say("Note: the agent has shown no thoughts.")

    def history(self, argument: str) -> None:
        """Read the last entries again."""
        count = int(argument) if argument.isascii() and argument.isdigit() else HISTORY
        for entry in self.session.timeline.entries[-count:] if count else ():
            self._read_entry(entry)

    def _read_entry(self, entry: Entry) -> None:
        first, *rest = entry_texts(entry, str(self.session.cwd))
        self.say(first)
        self.printer.below(rest)

    def subagents(self, argument: str) -> None:
        """List the subagents, or read one."""
        session = self.session.session
        views = [] if session is None else list(_subagents(session, 0))
        if not argument:
            rows = (
                f"{n}: {'of the one above, ' * level}{name}"
                for n, (level, name, _) in enumerate(views, 1)
            )
            self.list_rows(f"The agent has {words.count(len(views), 'subagent')}.", rows)
            return
        at = self.chosen(argument, len(views))
        if at is not None:
            _, name, view = views[at]
            timeline = Timeline(view.transcript)
            timeline.sync()
            self.say(f"Subagent: {name}")
            for entry in timeline.entries:
                self.printer.below(entry_texts(entry, view.cwd))

    async def stop(self, argument: str) -> None:
        """Cancel one subagent."""
        session = self.session.session
        views = [] if session is None else list(_subagents(session, 0))
        at = self.chosen(argument, len(views))
        if at is None:
            return
        _, name, view = views[at]
        try:
            await view.cancel()
        except AccordError as error:
            self.say(f"Error: {one_line(str(error))}")
        else:
            self.say(f"Note: the agent was asked to cancel {name}.")

    def open(self, argument: str) -> None:
        """Open a file in the editor."""
        call = self.session.latest_call()
        place = (argument, None) if argument else None if call is None else location_of(call)
        if place is None:
            self.say("Note: the agent named no file.")
        else:
            self.session.wants_editor(*place)

    def export(self, argument: str) -> None:
        """Write the conversation to a file."""
        session = self.session
        kinds: dict[str, Format] = {one: one for one in FORMATS}
        kind = kinds.get(argument or "md")
        if kind is None:
            self.say("Error: type md, html or json.")
            return
        title, cwd = session.title or "Chat", str(session.cwd)
        try:
            text = exported(kind, title, cwd, session.timeline.entries, session.transcript)
            path = write_export(session.cwd, kind, text, datetime.now())
        except OSError as error:
            self.say(f"Error: not written: {error.strerror}")
        else:
            self.say(f"Note: written: {path.name}")

    def traffic(self, argument: str) -> None:
        """Read the last messages of the protocol."""
        count = int(argument) if argument.isascii() and argument.isdigit() else TRAFFIC
        traffic = self.chat.traffic
        messages = list(traffic.since(max(traffic.total - count, 0)))
        self.list_rows(
            f"Messages of the protocol, the last {len(messages)}:",
            (
                f"{one.number + 1}: {one_line(one.line.decode('utf-8', 'replace'), MAX_MESSAGE)}"
                for one in messages
            ),
        )
        output = self.session.link.output
        if output and count:
            self.list_rows("The agent wrote to stderr:", output[-count:])


def _is_call(entry: Entry) -> bool:
    return isinstance(entry.content, ToolCall)


def _subagents(parent: SessionView, level: int) -> list[tuple[int, str, SubagentSession]]:
    found: list[tuple[int, str, SubagentSession]] = []
    for child_id, child in parent.transcript.subagents.items():
        view = parent.subagent(child_id)
        state = "" if child.state is None else f", {one_line(str(child.state.state), 40)}"
        found.append((level, one_line(child.title or child_id, 100) + state, view))
        if level < MAX_LEVELS:
            found += _subagents(view, level + 1)
    return found
