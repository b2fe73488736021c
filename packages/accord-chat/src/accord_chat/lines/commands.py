"""The commands of the chat in lines: the table for `:help` and the docs, and what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from accord.client.agent_adapter import SessionInfo
from accord.client.events import ToolCall
from accord.client.session import SessionView, SubagentSession
from accord.client.transcript import Message
from accord.errors import AccordError
from accord.types.session import SelectOption, SessionOption
from accord_chat.chat import Chat
from accord_chat.lines import words
from accord_chat.lines.questions import ReadLine, review
from accord_chat.lines.reader import entry_texts
from accord_chat.lines.words import Printer
from accord_chat.live_session import LiveSession
from accord_chat.model.changes import location_of
from accord_chat.model.conversation import FORMATS, Entry, Format, Timeline, exported, write_export
from accord_chat.model.prompts import best_matches, mention_text
from accord_chat.steering import Sending
from accord_terminal.toolkit.session_setup import option_of
from accord_terminal.toolkit.text import one_line, printable


class Host(Protocol):
    """The program around the commands."""

    def send(self, text: str, sending: Sending | None = None) -> None:
        """Send a prompt; while the agent works, what is chosen is done with it."""
        ...

    def quit(self) -> None:
        """End the program."""
        ...

    def show_session(self) -> None:
        """Say which session is current, and read what is new in it."""
        ...

    def cancel(self) -> None:
        """Cancel the turn."""
        ...

    def show_question(self) -> bool:
        """Read the open question again; return whether there is one."""
        ...

    async def write_prompt(self, text: str) -> str | None:
        """Let the user edit a prompt in an editor; None if that is not possible."""
        ...


class LineCommand(Struct, frozen=True):
    """A line that begins with a colon; the method is `Commands.NAME`."""

    name: str
    argument: str
    summary: str

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f":{self.name} {self.argument}".rstrip()


COMMANDS = (
    LineCommand("help", "", "List the commands"),
    LineCommand("status", "", "Say what the agent does, the settings, the queue and the usage"),
    LineCommand("cancel", "", "Cancel the turn; the session stays. Ctrl-C does it too"),
    LineCommand("again", "", "Read the question of the agent again"),
    LineCommand("queue", "", "List the queued prompts"),
    LineCommand("withdraw", "[NUMBER]", "Take a queued prompt back into the draft; else the last"),
    LineCommand("steer", "TEXT", "Say TEXT to the agent while it works"),
    LineCommand("cut", "TEXT", "Cancel the turn, and continue with TEXT"),
    LineCommand("later", "TEXT", "Queue TEXT until the turn has ended"),
    LineCommand(
        "enter", "[queue|steer]", "Say what a line does while the agent works, or choose it"
    ),
    LineCommand("draft", "", "Read what is not sent yet; it goes before your next prompt"),
    LineCommand("send", "", "Send the draft"),
    LineCommand("drop", "", "Forget the draft"),
    LineCommand("edit", "", "Write the prompt in your editor; it is sent when you leave it"),
    LineCommand("mode", "[NAME]", "Say which modes there are, or choose one"),
    LineCommand("model", "[NAME]", "Say which models there are, or choose one"),
    LineCommand("set", "[ID VALUE]", "List all options, or set one"),
    LineCommand("review", "", "Review the changes, hunk by hunk: accept or undo each"),
    LineCommand("plan", "", "Read the whole plan"),
    LineCommand("tools", "[NUMBER]", "List the tool calls, or read all of one"),
    LineCommand("thought", "", "Read the last thought as a whole"),
    LineCommand("history", "[COUNT]", "Read the last entries of the conversation again"),
    LineCommand("subagents", "[NUMBER]", "List the subagents, or read what one has done"),
    LineCommand("stop", "NUMBER", "Cancel one subagent"),
    LineCommand("commands", "", "List the slash commands of the agent"),
    LineCommand("files", "WORDS", "Search the files that a prompt can mention"),
    LineCommand("open", "[FILE]", "Open the file that the agent works on in your editor, or FILE"),
    LineCommand("sessions", "[NUMBER]", "List the open sessions, or go to one"),
    LineCommand("next", "", "Go to the next open session"),
    LineCommand("new", "[AGENT]", "Open a new session"),
    LineCommand("close", "", "Close the session"),
    LineCommand("resume", "[NUMBER]", "List the earlier sessions of the agent, or open one"),
    LineCommand("memory", "[NUMBER]", "List the remembered permissions, or forget one"),
    LineCommand(
        "export", "[md|html|json]", "Write the conversation to a file; Markdown by default"
    ),
    LineCommand("traffic", "[COUNT]", "Read the last messages of the protocol, and stderr"),
    LineCommand("reconnect", "", "Start the agent again after a failure"),
    LineCommand("quit", "", "Quit; sessions and drafts are kept. Ctrl-D does it too"),
)


def find_command(word: str) -> LineCommand | list[LineCommand]:
    """Return the command with this name or beginning; a list unless it is exactly one."""
    named = [one for one in COMMANDS if one.name == word]
    found = named or [one for one in COMMANDS if word and one.name.startswith(word)]
    return found[0] if len(found) == 1 else found


MAX_FOUND = 20  # files
HISTORY = 10
TRAFFIC = 20
MAX_MESSAGE = 2000  # characters
MAX_LEVELS = 8  # of subagents
LIST_S = 30.0  # for the agent to list its sessions
STATES = {
    "starting": "the agent is starting",
    "logging_in": "the agent needs a login",
    "idle": "the agent is waiting for you",
    "running": "the agent is working",
    "cancelling": "the turn is being cancelled",
    "failed": "it is not open",
}


class Commands:
    """All commands; each is a method with its name in the table."""

    def __init__(self, chat: Chat, host: Host, printer: Printer, read: ReadLine) -> None:
        self.chat = chat
        self.host = host
        self.printer = printer
        self.read = read
        self._listed: list[SessionInfo] = []  # by `:resume`

    async def run(self, name: str, argument: str) -> None:
        """Run a command of the table."""
        result = getattr(self, name)(argument)
        if result is not None:
            await result

    @property
    def session(self) -> LiveSession:
        """The current session."""
        return self.chat.current

    def say(self, text: str) -> None:
        """Print a line."""
        self.printer.say(text)

    def list_rows(self, title: str, rows: Iterable[str]) -> None:
        """Print a title, and rows below it."""
        self.say(title)
        self.printer.below(rows)

    def chosen(self, argument: str, count: int) -> int | None:
        """Return the position for a number, from 0; None and a message for other text."""
        if argument.isascii() and argument.isdigit() and 1 <= int(argument) <= count:
            return int(argument) - 1
        self.say(f"Error: type a number from 1 to {count}." if count else "Error: there is none.")
        return None

    # The prompt and the queue.

    def help(self, _: str) -> None:
        """List the commands."""
        self.list_rows("Commands:", (f"{one.usage}: {one.summary}" for one in COMMANDS))
        self.say(
            "Everything else that you type is a prompt. A backslash at the end of a line continues "
            "the prompt on the next line. Two colons begin a prompt that begins with a colon. "
            "The beginning of a command is enough, if no other begins so: :rev is :review."
        )

    def cancel(self, _: str) -> None:
        """Cancel the turn."""
        self.host.cancel()

    def again(self, _: str) -> None:
        """Read the question again."""
        if not self.host.show_question():
            self.say("Note: no question is open.")

    def queue(self, _: str) -> None:
        """List the queued prompts."""
        prompts = list(self.session.queue)
        if not prompts:
            self.say("Note: no prompt is queued.")
            return
        rows = (f"{n}: {one_line(prompt.text, 200)}" for n, prompt in enumerate(prompts, 1))
        self.list_rows(f"Queue: {words.count(len(prompts), 'prompt')}", rows)

    def withdraw(self, argument: str) -> None:
        """Take a queued prompt back."""
        session = self.session
        prompts = list(session.queue)
        at = self.chosen(argument or str(len(prompts)), len(prompts))
        prompt = None if at is None else session.queue.withdraw(prompts[at].number)
        if prompt is not None:
            session.draft = "\n".join(filter(None, [prompt.text, session.draft]))
            session.attachments = [*prompt.images, *session.attachments]
            self.chat.save()
            self.draft("")

    def steer(self, argument: str) -> None:
        """Say something to the agent while it works."""
        self._send(argument, "steer")

    def cut(self, argument: str) -> None:
        """Cancel the turn, and continue with a text."""
        self._send(argument, "cancel")

    def later(self, argument: str) -> None:
        """Queue a text."""
        self._send(argument, "queue")

    def _send(self, argument: str, sending: Sending) -> None:
        text = "\n".join(filter(None, [self.session.draft, argument])).strip()
        self.session.draft = ""
        if text or self.session.attachments:
            self.host.send(text, sending)
        else:
            self.say("Error: type a text after it.")

    def enter(self, argument: str) -> None:
        """Choose what a line does while the agent works."""
        choices = self.chat.choices
        if argument not in ("", "queue", "steer"):
            self.say("Error: type queue or steer.")
            return
        if argument and argument != choices.enter:
            try:
                choices.switch_enter()
            except OSError as error:
                self.say(f"Warning: not kept: {error.strerror}.")
        does = "says it to the agent" if choices.enter == "steer" else "queues it"
        other = ":later queues it" if choices.enter == "steer" else ":steer says it at once"
        self.say(f"Note: while the agent works, a line {does}; {other}. In a pipe, lines queue.")

    def draft(self, _: str) -> None:
        """Read the draft."""
        rows = draft_rows(self.session)
        if not rows:
            self.say("Note: the draft is empty.")
            return
        self.list_rows("Draft:", rows)
        self.say("Note: your next line is added to it. :send sends it, :drop forgets it.")

    def send(self, _: str) -> None:
        """Send the draft."""
        text, self.session.draft = self.session.draft.strip(), ""
        if text or self.session.attachments:
            self.host.send(text)
        else:
            self.say("Note: the draft is empty.")

    def drop(self, _: str) -> None:
        """Forget the draft."""
        self.session.draft, self.session.attachments = "", []
        self.chat.save()
        self.say("Note: the draft is empty.")

    async def edit(self, _: str) -> None:
        """Write the prompt in an editor."""
        text = await self.host.write_prompt(self.session.draft)
        if text is not None:
            self.session.draft = text
            self.send("")

    def commands(self, _: str) -> None:
        """List the slash commands of the agent."""
        known = self.session.transcript.commands
        rows = (
            f"/{one_line(one.name, 60)}: {one_line(one.description, 200)}"
            + (f" ({one_line(one.hint, 100)})" if one.hint else "")
            for one in known
        )
        self.list_rows(f"The agent has {words.count(len(known), 'slash command')}.", rows)

    async def files(self, argument: str) -> None:
        """Search the files of the folder."""
        files = self.session.files
        await asyncio.to_thread(files.refresh)
        found = best_matches(argument.replace(" ", ""), files.paths, MAX_FOUND)
        self.list_rows(
            f"Files: {len(found)} found. Put one of these into your prompt, to attach the file:"
            if found
            else "Files: none found.",
            map(mention_text, found),
        )

    # Settings.

    async def mode(self, argument: str) -> None:
        """Choose the mode."""
        await self._choose("mode", argument)

    async def model(self, argument: str) -> None:
        """Choose the model."""
        await self._choose("model", argument)

    async def _choose(self, category: str, argument: str) -> None:
        options = self.session.transcript.options
        option = option_of([one for one in options if isinstance(one, SelectOption)], category)
        if option is None:
            self.say(f"Note: the agent has no {category}s to choose from.")
        elif argument:
            await self._set_option(option, argument)
        else:
            self.list_rows(f"{one_line(option.name, 60)}:", _values(option))

    async def set(self, argument: str) -> None:
        """List the options, or set one."""
        options = self.session.transcript.options
        option_id, _, value = argument.partition(" ")
        if not argument:
            for option in options:
                self.list_rows(
                    f"Option {one_line(option.id, 60)}, {one_line(option.name, 60)}:",
                    _values(option),
                )
            if not options:
                self.say("Note: the agent has no modes, models or options.")
            return
        option = next((one for one in options if one.id == option_id), None)
        if option is None or not value.strip():
            self.say("Error: type `:set`, the id of an option, and its value. :set lists them.")
            return
        await self._set_option(option, value.strip())

    async def _set_option(self, option: SessionOption, given: str) -> None:
        value: str | bool | None
        if isinstance(option, SelectOption):
            given = given.casefold()
            value = next(
                (
                    choice.value
                    for choice in option.choices
                    if given in (choice.value.casefold(), one_line(choice.name).casefold())
                ),
                None,
            )
        else:
            value = {"on": True, "off": False}.get(given.lower())
        if value is None:
            self.list_rows("Error: it has only these values:", _values(option))
        else:
            await self.session.set_option(option.id, value)

    # What the agent has done.

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

    # Sessions, agents and remembered permissions.

    def status(self, _: str) -> None:
        """Say how things are."""
        session, transcript = self.session, self.session.transcript
        title = f", {session.title}" if session.title else ""
        self.say(f"Status: {one_line(session.agent_name, 60)}{title}: {STATES[session.state]}")
        rows = [*words.setting_lines(transcript).values()]
        if len(session.queue):
            rows.append(f"Queued: {words.count(len(session.queue), 'prompt')}")
        if session.questions:
            rows.append(f"Open: {words.count(len(session.questions), 'question')}; :again reads")
        if transcript.plan is not None:
            rows.append(words.plan_line(transcript.plan))
        usage = transcript.usage
        if usage is not None:
            size = f" of {usage.size:,}" if usage.size else ""
            rows.append(f"Context: {usage.used:,}{size} tokens")
            if usage.cost is not None:
                rows.append(f"Cost: {usage.cost.amount:.2f} {one_line(usage.cost.currency, 5)}")
        if len(self.chat.sessions) > 1:
            rows.append(f"Session {self.chat.active + 1} of {len(self.chat.sessions)}")
        self.printer.below(rows)

    def sessions(self, argument: str) -> None:
        """List the open sessions, or go to one."""
        sessions = self.chat.sessions
        if not argument:
            rows = (f"{n}: {_session_row(one)}" for n, one in enumerate(sessions, 1))
            current = self.chat.active + 1
            self.list_rows(f"Sessions: {len(sessions)} open, you are in {current}.", rows)
            return
        at = self.chosen(argument, len(sessions))
        if at is not None:
            self._go_to(at)

    def next(self, _: str) -> None:
        """Go to the next session."""
        self._go_to((self.chat.active + 1) % len(self.chat.sessions))

    def _go_to(self, at: int) -> None:
        self.chat.active = at
        self.host.show_session()
        self.chat.save()

    def new(self, argument: str) -> None:
        """Open a new session."""
        try:
            self.chat.open_session(argument or self.session.agent_name)
        except (AccordError, ValueError) as error:
            self.say(f"Error: {error}")
            return
        self._go_to(len(self.chat.sessions) - 1)

    async def close(self, _: str) -> None:
        """Close the session; the last one is followed by a new one."""
        session = self.session
        if len(self.chat.sessions) == 1:
            self.chat.open_session(session.agent_name)
        await self.chat.close_session(session)
        self.say("Note: closed.")
        self._go_to(self.chat.active)

    async def resume(self, argument: str) -> None:
        """List the earlier sessions, or open one."""
        if not argument:
            await self._list_earlier()
            return
        if not self._listed:
            await self._list_earlier()
        at = self.chosen(argument, len(self._listed))
        if at is None:
            return
        session_id, before = self._listed[at].id, self.session
        for number, session in enumerate(self.chat.sessions):
            if session.session_id == session_id:
                self._go_to(number)
                return
        self.chat.open_session(before.agent_name, session_id=session_id)
        if before.has_prompts or before.queue or before.draft or before.attachments:
            self._go_to(len(self.chat.sessions) - 1)
            return
        # Nothing of the new session is read before the user is told that it is the current one.
        self.chat.active = self.chat.sessions.index(before)
        closing = asyncio.create_task(self.chat.close_session(before), name="accord chat close")
        await asyncio.sleep(0)  # it has left the list; its agent may take longer
        self._go_to(len(self.chat.sessions) - 1)
        await closing

    async def _list_earlier(self) -> None:
        session = self.session
        try:
            agent = await session.link.agent()
            if not agent.supports("list_sessions"):
                self.say("Note: the agent cannot list its sessions.")
                return
            async with asyncio.timeout(LIST_S):
                listed = [info async for info in agent.list_sessions(session.cwd)]
        except (AccordError, OSError, TimeoutError) as error:
            text = one_line(str(error)) or "the agent did not respond in time"
            self.say(f"Error: {text}")
            return
        self._listed = sorted(listed, key=lambda info: info.updated_at or "", reverse=True)
        rows = (
            f"{n}: {one_line(info.title or info.id, 100)}"
            + (f", {info.updated_at[:10]}" if info.updated_at else "")
            for n, info in enumerate(self._listed, 1)
        )
        found = words.count(len(listed), "earlier session")
        self.list_rows(
            f"The agent has {found} in this folder. :resume and a number opens one.", rows
        )

    def memory(self, argument: str) -> None:
        """List the remembered permissions, or forget one."""
        memory = self.chat.memory
        rules = memory.rules()
        if memory.problem is not None:
            self.say(f"Error: {printable(memory.problem)}")
            return
        if not argument:
            rows = (
                f"{n}: {one.decision} {one.summary}, for {one_line(one.agent, 60)}"
                for n, one in enumerate(rules, 1)
            )
            self.list_rows(f"Remembered: {words.count(len(rules), 'permission')}.", rows)
            return
        at = self.chosen(argument, len(rules))
        if at is None:
            return
        try:
            memory.forget(rules[at])
        except OSError as error:
            self.say(f"Error: {printable(str(error))}")
        else:
            self.say(f"Note: forgotten: {rules[at].summary}")

    def reconnect(self, _: str) -> None:
        """Start the agent again."""
        if self.session.state == "failed":
            self.session.reconnect()
        else:
            self.say("Note: the agent is running.")

    def quit(self, _: str) -> None:
        """Quit."""
        self.host.quit()


def draft_rows(session: LiveSession) -> list[str]:
    """Return the draft of a session, line by line, and what is attached to it."""
    rows = session.draft.split("\n") if session.draft else []
    return [*rows, *(f"Attached: {one_line(one.name, 100)}" for one in session.attachments)]


def _values(option: SessionOption) -> list[str]:
    if not isinstance(option, SelectOption):
        return ["on, chosen" if option.value else "on", "off" if option.value else "off, chosen"]
    rows: list[str] = []
    for choice in option.choices:
        chosen = ", chosen" if choice.value == option.value else ""
        name, value = one_line(choice.name, 80), one_line(choice.value, 80)
        known_as = f" ({value})" if value.casefold() != name.casefold() else ""
        more = f": {one_line(choice.description, 200)}" if choice.description else ""
        rows.append(f"{name}{known_as}{chosen}{more}")
    return rows


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


def _session_row(session: LiveSession) -> str:
    notes = ["asks a question"] * bool(session.questions)
    notes += ["has finished"] * (session.needs_attention and not session.questions)
    title = session.title or "new session"
    parts = [f"{one_line(session.agent_name, 60)}, {title}", STATES[session.state], *notes]
    return ", ".join(parts)
