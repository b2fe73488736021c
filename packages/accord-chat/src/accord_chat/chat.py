"""All open sessions of a chat: opens and closes them, passes questions on, saves what is open.

`prepare` makes the chat of a command line, for the screen and for lines.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from msgspec import Struct

from accord.errors import AccordError
from accord.types.tool_calls import rule_error
from accord_chat.agent_link import AgentLink
from accord_chat.live_session import LiveSession, Watcher
from accord_chat.model.prompts import readable
from accord_chat.model.questions import FormQuestion, PageQuestion, PermissionQuestion
from accord_chat.model.saved import Choices, PermissionMemory, SavedChat, SavedChats, SavedTab
from accord_chat.model.traffic import Traffic
from accord_chat.sources import (
    ChatOptions,
    KnownAgent,
    MissingAgent,
    SharedSession,
    Source,
    Sources,
)
from accord_terminal.sessions.named import find_or_create
from accord_terminal.sessions.records import SessionsError, Store
from accord_terminal.toolkit.agent_names import SettingsError, load_settings

if TYPE_CHECKING:
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, PermissionRequest

MAX_STRANGERS = 20  # lines


class Chat:
    """The sessions in their order, one of which is shown."""

    def __init__(
        self,
        folder: Path,
        saved: SavedChats,
        find_source: Callable[[str], Source],
        group: asyncio.TaskGroup,
        watcher: Watcher,
        memory: PermissionMemory,
        known_agents: Callable[[], Sequence[KnownAgent]] = tuple,
        traffic: Traffic | None = None,
    ) -> None:
        self.folder = folder
        self.memory = memory
        self.known_agents = known_agents  # those that have a name; raises `AccordError`
        self.sessions: list[LiveSession] = []
        self.active = 0
        self.traffic = Traffic() if traffic is None else traffic
        self.choices = Choices(saved.path.parent)
        self._saved = saved
        self._find_source = find_source
        self._group = group
        self._watcher = watcher
        self._links: dict[str, AgentLink] = {}
        self._strangers: set[str] = set()  # sessions that are not open, and that was said
        self._closed: set[str] = set()  # sessions of closed tabs: agents may still report on them
        self._runs: dict[LiveSession, asyncio.Task[None]] = {}
        self._not_opened: list[SavedTab] = []  # of the saved ones; they are saved again

    @property
    def current(self) -> LiveSession:
        """The session that is shown."""
        return self.sessions[self.active]

    def open_session(
        self, agent: str, *, session_id: str | None = None, title: str = "", draft: str = ""
    ) -> LiveSession:
        """Open a session of an agent in a new place at the end, and show it.

        Raises `ValueError` for words that name no agent, and `AccordError` for one in quarantine.
        """
        return self._open(self._link(agent), session_id, title, draft)

    def _open(
        self,
        link: AgentLink,
        session_id: str | None,
        title: str,
        draft: str,
        options: Mapping[str, str | bool] | None = None,
    ) -> LiveSession:
        session = LiveSession(
            link, self.folder, self._watcher, session_id=session_id, title=title, options=options
        )
        session.draft = draft
        if remark := self._saved.take_remark():
            session.remark(remark)
        self.sessions.append(session)
        self.active = len(self.sessions) - 1
        self._runs[session] = self._group.create_task(session.run(), name="accord chat session")
        return session

    def restore(self, agent: str | None) -> bool:
        """Open what was open when the program last ended here; return whether there was anything.

        If an agent is given, only its sessions come back; the others are kept for the next time.
        A session that its agent cannot open again comes back as its draft. Another program that is
        still running keeps its sessions.
        """
        if not self._saved.is_held:
            return False
        chat = self._saved.load()
        for tab in chat.tabs:
            if agent not in (None, tab.agent):
                self._not_opened.append(tab)
            elif tab.session_id or tab.draft or tab.queue or tab.images:
                # Not sent by itself: what was meant for then may be wrong now.
                draft = "\n\n".join([*tab.queue, tab.draft]).strip("\n")
                link = self._link(tab.agent, may_miss=True)
                session = self._open(link, tab.session_id, tab.title, draft, tab.options)
                session.attachments = list(readable(tab.images))
                lost = tab.lost_images + len(tab.images) - len(session.attachments)
                if lost:
                    session.remark(f"Not kept: {lost} of the images that were attached")
        if self.sessions:
            self.active = min(max(chat.active, 0), len(self.sessions) - 1)
        return bool(self.sessions)

    def set_aside(self, agent: str | None) -> None:
        """Open nothing of what was open; keep what was not sent, and other agents' sessions."""
        if self._saved.is_held:
            for tab in self._saved.load().tabs:
                if tab.draft or tab.queue or tab.images or agent not in (None, tab.agent):
                    self._not_opened.append(tab)

    @property
    def unsaved_because(self) -> str | None:
        """Why sessions and drafts are not kept; None if they are."""
        return self._saved.problem

    def save(self) -> None:
        """Store the open sessions, the drafts and the queued prompts."""
        tabs = [_saved(session) for session in self.sessions]
        self._saved.save(SavedChat(tabs=[*tabs, *self._not_opened], active=self.active))

    async def reconnect(self, session: LiveSession) -> None:
        """Try again to open a session; an agent with no other open session is started again."""
        if session.state not in ("failed", "starting"):
            return
        others = [one for one in self.sessions if one.link is session.link and one is not session]
        if all(one.state in ("failed", "starting") for one in others):
            await session.link.aclose()
        session.reconnect()

    async def close_session(self, session: LiveSession) -> None:
        """Cancel the turn of a session, and give it up."""
        await session.cancel()
        at = self.sessions.index(session)
        self.sessions.remove(session)
        if self.active > at or self.active == len(self.sessions):
            self.active = max(0, self.active - 1)
        session.close()
        if session.session_id is not None:
            self._closed.add(session.session_id)
        link = session.link
        if not any(other.link is link for other in self.sessions):
            self._links.pop(link.source.label, None)
            await link.aclose()
        await self._end(session)

    async def aclose(self) -> None:
        """End all sessions and agents."""
        for session in self.sessions:
            session.close()
        for task in self._runs.values():
            task.cancel()
        for link in self._links.values():
            await link.aclose()
        if self._runs:
            await asyncio.wait(self._runs.values())
        self.traffic.close()
        self._saved.release()

    async def _end(self, session: LiveSession) -> None:
        task = self._runs.pop(session)
        await asyncio.wait([task], timeout=1.0)
        task.cancel()

    def _link(self, agent: str, *, may_miss: bool = False) -> AgentLink:
        known = self._links.get(agent)
        if known is not None:
            return known
        try:
            source = self._find_source(agent)
        except (AccordError, ValueError) as error:
            if not may_miss:
                raise
            source = MissingAgent(agent, error)
        owner = _Owner(self)
        link = AgentLink(
            source,
            lambda: self._find_source(agent),
            owner,
            self._group,
            self.traffic,
            on_change=self._link_changed,
            on_received=self._look_for_strangers,
        )
        owner.link = link
        self._links[agent] = link
        return link

    def _look_for_strangers(self, link: AgentLink) -> None:
        """Say once that the agent reports on a session that is not open: nothing shows it."""
        mine = [session for session in self.sessions if session.link is link]
        if not mine or any(session.state == "starting" for session in mine):
            return  # it may be the one that is being opened
        for session_id in link.unopened_sessions() - self._strangers - self._closed:
            self._strangers.add(session_id)
            if len(self._strangers) <= MAX_STRANGERS:
                text = f"The agent sends updates of a session that is not open: {session_id}"
                shown = self.current if self.current in mine else mine[0]
                shown.remark(f"{text} (Alt+T shows them)")

    def _link_changed(self, link: AgentLink) -> None:
        for session in self.sessions:
            if session.link is link:
                session.link_changed()


def _saved(session: LiveSession) -> SavedTab:
    queue = [*session.steering.unsent, *session.queue]
    images = [image for prompt in queue for image in prompt.images]
    images += session.attachments
    paths = [str(image.path) for image in images if image.path is not None]
    return SavedTab(
        agent=session.agent_name,
        session_id=session.session_id if session.is_restorable and session.has_prompts else None,
        title=session.title,
        options=session.options.values(session.transcript),
        draft=session.draft,
        queue=[prompt.text for prompt in queue],
        images=paths,
        lost_images=len(images) - len(paths),
    )


class _Owner:
    """Passes the questions of one agent to the session that they are about."""

    def __init__(self, chat: Chat) -> None:
        self.link: AgentLink | None = None
        self._chat = chat
        self._told_problem: str | None = None

    async def decide(self, request: PermissionRequest) -> Decision | None:
        session = self._session(request.session_id)
        if session is None:
            return "reject"
        known = self._chat.memory.decide(session.agent_name, request)
        self._tell_unreadable(session)
        if known is not None:
            words = "Allowed" if known.decision == "allow" else "Rejected"
            session.remark(f"{words}, as remembered: {known.summary}")
            return known.decision
        question = PermissionQuestion(session.agent_name, request)
        decision: Decision = await session.ask(question)
        if question.rule is not None:
            try:
                aside = self._chat.memory.remember(question.rule)
            except OSError as error:
                session.remark(f"It cannot be remembered: {error}")
            else:
                if aside is not None:
                    session.remark(f"The permissions that cannot be read are kept in {aside}")
        return decision

    def _tell_unreadable(self, session: LiveSession) -> None:
        """Report once that remembered permissions do not decide."""
        problem = self._chat.memory.problem
        if problem is not None and problem != self._told_problem:
            session.remark(f"Remembered permissions do not decide: {problem}")
        self._told_problem = problem

    async def fill_in(self, form: ElicitationForm) -> FormValues | None:
        session = self._session(form.session_id)
        if session is None:
            return None
        return await session.ask(FormQuestion(session.agent_name, form))

    def say(self, text: str) -> None:
        session = self._session(None)
        if session is not None:
            session.remark(text)

    def steered(self, by: str, text: str, outcome: str) -> None:
        session = self._session(None)
        if session is not None:
            session.steered_by(by, text, outcome)

    def changed(self) -> None:
        session = self._session(None)
        if session is not None:
            session.side_changed()

    async def open_page(self, page: UrlElicitationRequest) -> bool:
        session = self._session(page.session_id)
        if session is None:
            return False
        return await session.ask(PageQuestion(session.agent_name, page))

    def _session(self, session_id: str | None) -> LiveSession | None:
        """Return the session with this id, or the one with this subagent; else the first one."""
        mine: Sequence[LiveSession] = [
            session for session in self._chat.sessions if session.link is self.link
        ]
        for session in mine:
            if session.session_id == session_id:
                return session
        for session in mine:
            if session_id in session.transcript.subagents:
                return session
        return mine[0] if mine else None


# Makes the chat and opens its first sessions. The tasks belong to the group.
MakeChat: TypeAlias = Callable[[Watcher, asyncio.TaskGroup], Chat]


class ChatStart(Struct, frozen=True):
    """The folder of a chat, and what makes the chat with its first sessions."""

    make_chat: MakeChat
    saved: SavedChats  # whose lock is to be released
    notifies: bool = True  # on the desktop


def prepare(options: ChatOptions) -> ChatStart:
    """Read the settings and find the agent. Raises `click.UsageError` for what cannot be used."""
    try:
        known = load_settings()
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    for rules in (options.allow_rules, options.deny_rules, known.ask.allow, known.ask.deny):
        if (error := rule_error(rules)) is not None:
            raise click.UsageError(error)
    sources = Sources(options, known)
    first = sources.default_label
    try:
        sources.find(first)
    except (AccordError, ValueError) as error:
        raise click.UsageError(f"--agent: {error}") from None
    folder = options.cwd.absolute()
    if options.shared_name is not None:
        _create_shared(options.shared_name, folder, options.agent)
        first = f"{SharedSession.PREFIX}{options.shared_name}"
    traffic = Traffic(tuple(sys.argv))
    if options.trace is not None:
        try:
            traffic.write_to(options.trace)
        except OSError as error:
            raise click.UsageError(
                f"--trace: Cannot write {options.trace}: {error.strerror}"
            ) from None
    saved = SavedChats(folder)
    saved.acquire()

    def make_chat(watcher: Watcher, group: asyncio.TaskGroup) -> Chat:
        memory = PermissionMemory()
        chat = Chat(folder, saved, sources.find, group, watcher, memory, sources.known, traffic)
        ways = (options.is_new, options.resume, options.session_id, options.shared_name)
        if any(ways):
            chat.set_aside(options.agent)
        elif chat.restore(options.agent):
            return chat
        chat.open_session(first, session_id=options.session_id)
        return chat

    return ChatStart(make_chat, saved, known.chat.notify)


def _create_shared(name: str, folder: Path, agent: str | None) -> None:
    try:
        find_or_create(Store(), name, folder, agent, create=True)
    except SessionsError as error:
        raise click.ClickException(str(error)) from None
