"""Commands about sessions, agents and remembered permissions."""

from __future__ import annotations

import asyncio

from accord.client.agent_adapter import SessionInfo
from accord.errors import AccordError
from accord_chat.chat import Chat
from accord_chat.lines import words
from accord_chat.lines.command_group import CommandGroup, Host
from accord_chat.lines.dialogs import ReadLine
from accord_chat.lines.printer import Printer
from accord_chat.live_session import LiveSession
from accord_terminal.toolkit.text import one_line, printable

LIST_S = 30.0  # for the agent to list its sessions
STATES = {
    "starting": "the agent is starting",
    "logging_in": "the agent needs a login",
    "idle": "the agent is waiting for you",
    "running": "the agent is working",
    "cancelling": "the turn is being cancelled",
    "failed": "it is not open",
}


class SessionCommands(CommandGroup):
    """The open sessions, the earlier ones, and what is remembered."""

    def __init__(self, chat: Chat, host: Host, printer: Printer, read: ReadLine) -> None:
        super().__init__(chat, host, printer, read)
        self._listed: list[SessionInfo] = []

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


def _session_row(session: LiveSession) -> str:
    notes = ["asks a question"] * bool(session.questions)
    notes += ["has finished"] * (session.needs_attention and not session.questions)
    title = session.title or "new session"
    parts = [f"{one_line(session.agent_name, 60)}, {title}", STATES[session.state], *notes]
    return ", ".join(parts)
