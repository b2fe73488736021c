"""One session while it is open: sends the queued prompts, and keeps what the agent reports.

`LiveSession.run` opens the session, runs the turns, and logs in if the agent requires it. Screens
and lines read its properties, and get changes as its `Watcher`. `SessionOptions` restores
modes and options when the agent is started again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import click

from accord.client.agent_adapter import AuthMethod
from accord.client.connect import ConnectedAgent
from accord.client.events import Event, ToolCall
from accord.client.session import ClientSession
from accord.client.transcript import Transcript
from accord.client.turn import ClientTurn, Fallback
from accord.errors import (
    AccordError,
    AuthRequired,
    BudgetExceeded,
    CancelTimeout,
    NotOffered,
    RequestCancelled,
    RequestError,
    TransportError,
    TurnInterrupted,
)
from accord.types.mcp import McpServer, mcp_transport
from accord.types.session import SelectOption, SessionOption
from accord_chat.agent_link import AgentLink, Login
from accord_chat.model.changes import Review, ReviewedHunk, names_file
from accord_chat.model.conversation import Severity, Timeline
from accord_chat.model.prompts import Attachment, PromptQueue, QueuedPrompt, prompt_contents
from accord_chat.model.questions import PermissionQuestion, Question
from accord_chat.model.turn_changes import FolderFiles, TurnChanges
from accord_chat.pace import Pace
from accord_chat.sources import SharedSession, Source
from accord_chat.steering import CANNOT, QUESTION, Sending, Steering, SteerWay, steer_way
from accord_terminal.toolkit.session_setup import (
    apply_session_options,
    option_values,
    restore_session_options,
)
from accord_terminal.toolkit.text import one_line, relative_path, steered_text

CANCEL_S = 30.0  # for the agent to end a cancelled turn; then the turn fails
MAX_TITLE = 60
OTHERS_TURN = "another client has started the running turn"

SessionState: TypeAlias = Literal[
    "starting", "logging_in", "idle", "running", "cancelling", "failed"
]


class Watcher(Protocol):
    """Shows a session and what it asks."""

    pace: Pace

    def session_changed(self, session: LiveSession) -> None:
        """The session has something new to show."""
        ...

    def attention_wanted(self, session: LiveSession, why: str) -> None:
        """The session waits for the user, or a turn has ended."""
        ...

    def tell(self, text: str) -> None:
        """Show a text for some seconds."""
        ...

    def open_editor(self, file: Path, line: int | None) -> None:
        """Open a file in the user's editor."""
        ...

    async def log_in_at_terminal(self, session: LiveSession, method: AuthMethod) -> int:
        """Run the agent's login command at the terminal; return its status."""
        ...


class LiveSession:
    """One session, from its opening until its tab is closed."""

    def __init__(
        self,
        link: AgentLink,
        cwd: Path,
        watcher: Watcher,
        *,
        session_id: str | None = None,
        title: str = "",
        options: Mapping[str, str | bool] | None = None,
    ) -> None:
        self.link = link
        self.cwd = cwd
        self.files = FolderFiles(cwd)
        self.review = Review([str(cwd)])
        self.state: SessionState = "starting"
        self.timeline = Timeline(Transcript())
        self._turn_changes = TurnChanges(self.files, self.timeline)
        self.queue = PromptQueue()
        self.draft = ""
        self.attachments: list[Attachment] = []  # of the draft
        self.takes_images: bool | None = None  # the agent; None until it is known
        self.questions: list[Question] = []
        self.needs_attention = False
        self.is_restorable = False  # the agent can open it again
        self.has_prompts = session_id is not None
        self.session_id = session_id
        self.state_since_s = time.monotonic()
        self.failure = ""  # why it is not open
        self.turn_started_s = 0.0
        self.sent: QueuedPrompt | None = None  # the prompt of the last turn
        self.options = SessionOptions(options)
        self._session: ClientSession | None = None
        self._latest_call: ToolCall | None = None
        self._turn: ClientTurn | None = None
        self._watcher = watcher
        self._login = Login(self, lambda method: watcher.log_in_at_terminal(self, method))
        self._open_at: ConnectedAgent | None = None  # the connection of `_session`
        self.login_name = ""  # of the login that the agent runs
        self._wake = asyncio.Event()
        self.steering = Steering(self)
        self._cancelling: asyncio.Task[None] | None = None  # for a message
        self._first_prompt = title
        self._is_closed = False
        self._is_reconnecting = False

    # What the view shows.

    @property
    def title(self) -> str:
        """The title of the session; until it has one, the beginning of the first prompt."""
        given = self.timeline.transcript.title or self._first_prompt
        return one_line(given, MAX_TITLE)

    @property
    def agent_name(self) -> str:
        """The name of the agent as the user knows it."""
        return self.link.source.label

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running, or a login that the agent runs."""
        return self.state in ("running", "cancelling") or bool(self.login_name)

    @property
    def transcript(self) -> Transcript:
        """The transcript of the agent."""
        return self.timeline.transcript

    @property
    def session(self) -> ClientSession | None:
        """The open session of the agent, None until it is open."""
        return self._session

    @property
    def agent(self) -> ConnectedAgent | None:
        """The agent that has opened it, None until then."""
        return self._open_at

    @property
    def steer_way(self) -> SteerWay:
        """How the agent takes a message while it works."""
        return steer_way(self._open_at)

    @property
    def steered_turn(self) -> ClientTurn | ClientSession | None:
        """What a message is said to while the agent works: the turn, or that of another client."""
        if self.state == "running":
            return self._turn
        shared = self.link.shared
        if self.state == "idle" and shared is not None and shared.running is not None:
            return self._session if self.steer_way == "native" else None
        return None

    # What the user does.

    def send(
        self, text: str, images: Sequence[Attachment] = (), sending: Sending = "queue"
    ) -> None:
        """Send a prompt when the agent is free; while it works, do what `sending` says."""
        self._first_prompt = self._first_prompt or text or images[0].name
        target, way = self.steered_turn, self.steer_way
        why = ""
        if sending == "steer":
            why = CANNOT if way == "none" else ""
        elif sending == "cancel":
            why = QUESTION if self.questions else "" if target is self._turn else OTHERS_TURN
        if sending == "queue" or target is None or self._open_at is None or why:
            self.queue.add(text, images)
            if target is not None and why:
                self.tell(f"Queued: {why}")
        elif sending == "cancel" and way == "native":  # it would be steered
            self.queue.put_back(self.queue.number(text, images))
            self._cancelling = asyncio.create_task(self.cancel(), name="accord chat cancel")
        else:
            prompt = self.queue.number(text, images)
            contents = prompt_contents(self._open_at, prompt, self.files, self._warn)
            fallback: Fallback = "cancel" if sending == "cancel" else "queue"
            self.steering.say(target, prompt, contents, fallback)
        self.wake()

    def tell(self, text: str) -> None:
        """Show a text for some seconds."""
        self._watcher.tell(text)

    def wake(self) -> None:
        """Draw again, and send what is in the queue if nothing runs."""
        self._wake.set()
        self._changed()

    def steered_by(self, name: str, text: str, outcome: str) -> None:
        """Note at a message in the conversation that another client has said it."""
        note = f"{one_line(name, 40)}: {steered_text(outcome)}"
        self.timeline.note_said(text, note, self.timeline.turn_start + 1)
        self._changed()

    async def cancel(self) -> None:
        """Cancel the running turn, or the login; the session and queued prompts stay."""
        self._login.cancel()
        for question in list(self.questions):
            if isinstance(question, PermissionQuestion):
                question.answer("cancel")  # v1 prompt-turn: pending requests are cancelled
        if self._turn is None or self.state != "running":
            return
        self._set_state("cancelling")
        try:
            await self._turn.cancel(timeout_s=CANCEL_S)
        except AccordError as error:
            self._report(error)

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Set the mode, the model or another option."""
        if self._session is None:
            return
        try:
            await self._session.set_option(option_id, value)
        except AccordError as error:
            self._report(error)
        self.timeline.side_changed = True
        self._changed()

    def next_mode(self) -> tuple[SessionOption, str] | None:
        """Return the mode option and the value after the current one."""
        option = self.transcript.mode_option
        if not isinstance(option, SelectOption) or len(option.choices) < 2:
            return None
        values = [choice.value for choice in option.choices]
        at = values.index(option.value) if option.value in values else -1
        return option, values[(at + 1) % len(values)]

    def side_changed(self) -> None:
        """Draw what is outside of the conversation again."""
        self.timeline.side_changed = True
        self._changed()

    def remark(self, text: str) -> None:
        """Add a remark of this program to the conversation."""
        self.timeline.remark(text, "quiet")
        self._changed()

    def reviewed_hunks(self) -> list[ReviewedHunk]:
        """Return the changes of all tool calls, with what the user said about each."""
        contents = (entry.content for entry in self.timeline.entries)
        return list(self.review.hunks(one for one in contents if isinstance(one, ToolCall)))

    def latest_call(self) -> ToolCall | None:
        """Return the tool call that names a file and was the last to change."""
        if self._latest_call is None:  # nothing since the session was opened
            contents = (entry.content for entry in reversed(self.timeline.entries))
            calls = (one for one in contents if isinstance(one, ToolCall) and names_file(one))
            self._latest_call = next(calls, None)
        return self._latest_call

    def wants_editor(self, path: str, line: int | None) -> None:
        """Open a file of the folder in the user's editor."""
        file = self.files.find(path)
        if file is None:
            self._watcher.tell(f"{one_line(path, 80)} is not a file in the folder of the session")
        else:
            self._watcher.open_editor(file, line)

    def reconnect(self) -> None:
        """Start the agent again after a failure, and open the session again."""
        if self.state == "failed":
            self._set_state("starting")
            self._wake.set()

    async def ask(self, question: Question) -> Any:
        """Show a question and wait for its answer; it disappears if the agent cancels it."""
        self.questions.append(question)
        self._watcher.attention_wanted(self, "asks a question")
        self._changed()
        try:
            return await question.wait()
        finally:
            self.questions.remove(question)
            self._changed()

    def close(self) -> None:
        """Give the session up; the agent keeps it if it can."""
        self._is_closed = True
        self._wake.set()

    def login_changed(self, name: str) -> None:
        """Take note which login the agent runs; none if the name is empty."""
        self.login_name = name
        self._changed()

    def link_changed(self) -> None:
        """Take note that the connection has changed."""
        match self.link.state:
            case "reconnecting" if self._is_reconnecting:
                pass  # a further attempt
            case "reconnecting":
                self.timeline.remark("The connection was lost; connecting again …", "warning")
            case "connected" if self._session is not None and self.state != "starting":
                self.timeline.remark("Connected again", "info")
            case _:
                pass
        self._is_reconnecting = self.link.state == "reconnecting"
        self._wake.set()
        self._changed()

    # Running.

    async def run(self) -> None:
        """Open the session and send prompts, until `close`."""
        while not self._is_closed:
            try:
                agent, session = await self._open()
                await self._serve(agent, session)
                if self._is_closed:
                    return
                if self.link.state != "off":
                    raise self.link.error or TransportError("The connection to the agent has ended")
            except AuthRequired as error:
                await self._log_in(error)
            except (AccordError, OSError, TimeoutError, ValueError) as error:
                if self.link.state != "off":  # else it was ended to be started again
                    self._fail(error)
            while self.state == "failed" and not self._is_closed:
                self._wake.clear()
                await self._wake.wait()

    async def _open(self) -> tuple[ConnectedAgent, ClientSession]:
        self._set_state("starting")
        agent = await self.link.agent()
        if self._session is not None and agent is self._open_at:  # a login for a prompt
            self._set_state("idle")
            return agent, self._session
        seen = self.options.values(self.transcript)
        self.is_restorable = agent.supports("load_session") or agent.supports("resume_session")
        self.takes_images = agent.supports_content("image")
        session = await self._reopened(agent)
        is_new = session is None
        if session is None:
            servers = self._mcp_servers(agent)
            session = await agent.new_session(self.cwd, mcp_servers=servers)
        remarks = await self.options.prepare(session, self.link.source, seen, is_new=is_new)
        self._session, self._open_at, self.session_id = session, agent, session.id
        self.timeline.continue_with(session.transcript)
        self.timeline.sync()
        self._first_prompt = self._first_prompt or next(iter(self.timeline.prompts), "")
        if not is_new and not self.timeline.entries:
            self.timeline.remark("Open; the agent has sent nothing of the conversation", "quiet")
        for text, severity in remarks:
            self.timeline.remark(text, severity)
        if self.options.has_lost_mode and self.queue:
            self.queue.hold()
            self.timeline.remark("Queued prompts wait until you send another one", "warning")
        self._set_state("idle")
        return agent, session

    async def _reopened(self, agent: ConnectedAgent) -> ClientSession | None:
        """Return the earlier session; None if there is none, or the agent cannot open it."""
        if self.session_id is None or not self.has_prompts:
            return None
        if not self.is_restorable:
            self._begin_anew("The agent cannot open earlier sessions: this is a new one")
            return None
        try:
            return await agent.load_session(
                self.session_id,
                self.cwd,
                mcp_servers=self._mcp_servers(agent),
                replay=not self.timeline.entries,
            )
        except AuthRequired:
            raise
        except (RequestError, NotOffered) as error:
            self._begin_anew(
                "The earlier session could not be opened: this is a new one", str(error)
            )
            return None

    def _begin_anew(self, why: str, details: str = "") -> None:
        if not self.timeline.entries:
            self._first_prompt = ""  # of a conversation that is not shown any more
        self.timeline.remark(why, "warning", details)

    def _mcp_servers(self, agent: ConnectedAgent) -> list[McpServer]:
        """Return the servers that the agent can use; warn of those that a session opens without."""
        usable: list[McpServer] = []
        for server in self.link.source.setup.mcp_servers:
            if agent.supports_mcp_server(server):
                usable.append(server)
            else:
                kind = mcp_transport(server)
                name = server.name
                self._warn(f"Without the MCP server {name}: the agent does not support {kind}")
        return usable

    def _warn(self, text: str) -> None:
        self.timeline.remark(text, "warning")

    async def _serve(self, agent: ConnectedAgent, session: ClientSession) -> None:
        watching = asyncio.create_task(self._watch(session), name="accord chat events")
        try:
            await self._send_prompts(agent, session)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await self.steering.aclose()

    async def _watch(self, session: ClientSession) -> None:
        """Take over the events outside of turns."""
        async with session.events() as events:
            self.timeline.sync()  # what came since the session was opened
            async for event in events:
                await self._take_in_turn(event)

    async def _take_in_turn(self, event: Event) -> None:
        """Take an event over, when the keys of the user have been handled."""
        pace = self._watcher.pace
        if pace.is_slice_over:
            await pace.rest()
        self._take(event)

    def _take(self, event: Event) -> None:
        self.timeline.apply(event)
        self._turn_changes.note(event)
        if isinstance(event, ToolCall) and self._turn_changes.names_file(event):
            self._latest_call = event
        if isinstance(event, ToolCall) and not event.is_open:
            for hunk, verdict, why in self.review.finished(event):
                place = relative_path(hunk.path, str(self.cwd))
                if verdict == "rejected":
                    self.timeline.remark(
                        f"Undone: {place}:{self.review.changed_line(hunk)}", "info"
                    )
                else:
                    self.timeline.remark(f"Not undone: {place}: {why}", "warning")
        self._changed()

    async def _send_prompts(self, agent: ConnectedAgent, session: ClientSession) -> None:
        self._turn_changes.is_wanted = not self.link.source.is_remote
        await self._turn_changes.begin()  # reads the files, so that it is fast before a prompt
        while not self._is_closed and self.link.is_usable:
            if self.queue:
                await self._turn_changes.begin()  # the prompt is still in the queue
            prompt = None if self.link.state == "reconnecting" else self.queue.take_next()
            if prompt is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                await self._run_turn(agent, session, prompt)
            except AuthRequired:
                self.queue.put_back(prompt)
                raise
            finally:
                self._turn = None
                self.timeline.close_messages()

    async def _run_turn(
        self, agent: ConnectedAgent, session: ClientSession, prompt: QueuedPrompt
    ) -> None:
        self.has_prompts = True
        self.turn_started_s = time.monotonic()
        shown = self.transcript.prompt_count
        self.sent = prompt
        contents = prompt_contents(agent, prompt, self.files, self._warn)
        turn = self._turn = session.prompt(*contents)
        self._set_state("running")
        try:
            try:
                async with turn:
                    async for event in turn:
                        await self._take_in_turn(event)
            finally:
                await self.steering.settle(turn)
        except AuthRequired:
            raise
        except RequestCancelled:
            self.timeline.remark("Withdrawn before it was sent to the agent", "quiet")
        except BudgetExceeded as error:
            self.queue.put_back(prompt)
            self.queue.hold()
            self._report(error)
        except (CancelTimeout, RequestError) as error:
            await self._turn_changes.end()
            self._report(error)
        except TransportError as error:
            self._keep_unsent(turn, prompt, shown)
            is_over = self.link.state != "reconnecting" and not isinstance(error, TurnInterrupted)
            if is_over:
                raise  # reported with the end of the agent, or of its session
            self._report(error)
        else:
            await self._turn_changes.end()
            self._report_end(turn)
        finally:
            self._set_state("idle")
        if not self.queue:
            self._watcher.attention_wanted(self, "has finished")

    def _keep_unsent(self, turn: ClientTurn, prompt: QueuedPrompt, shown: int) -> None:
        """Keep a prompt that the conversation does not show, although its turn is over."""
        if turn.stop_reason is None:  # the turn has not begun
            self.queue.put_back(prompt)
        elif self.transcript.prompt_count == shown:
            self.timeline.remark(
                "It is not known whether the agent has received this prompt:",
                "warning",
                prompt.text,
            )

    def _report_end(self, turn: ClientTurn) -> None:
        is_usual = turn.stop_reason in ("end_turn", "cancelled", None) and turn.limit is None
        text = _end_words(turn, time.monotonic() - self.turn_started_s)
        self.timeline.end_turn(text, "quiet" if is_usual else "warning")

    # Logging in, and failures.

    async def _log_in(self, refused: AuthRequired) -> None:
        self._set_state("logging_in")
        try:
            await self._login.run(refused)
        except (AccordError, OSError, TimeoutError) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._session = None
        self.failure = _error_words(error)
        self._report(error)
        for line in self.link.output[-3:]:
            self.timeline.remark(line, "quiet")
        if self.link.state == "connected":  # it refused the session, or the login
            self.timeline.remark("The agent is running, but the session is not open", "quiet")
        self._set_state("failed")
        self._watcher.attention_wanted(self, "has failed")

    def _report(self, error: BaseException) -> None:
        self.timeline.remark(_error_words(error), "error")
        self._changed()

    def _set_state(self, state: SessionState) -> None:
        self.state = state
        self.state_since_s = time.monotonic()
        self.timeline.side_changed = True
        self._changed()

    def _changed(self) -> None:
        self._watcher.session_changed(self)


class SessionOptions:
    """What the options of a session have to be when its agent is started again.

    Agents load a session with their default values: one that was read-only could then write.
    """

    def __init__(self, values: Mapping[str, str | bool] | None) -> None:
        """`values` are those of the last start of the program."""
        self._saved = dict(values or {})
        self._mode_id = ""  # of the option for the mode; not saved
        self._is_opened = False
        self.has_lost_mode = False
        """Whether the mode before could not be set: the agent may do more than the user expects."""

    def values(self, transcript: Transcript) -> dict[str, str | bool]:
        """Return the values that the user has seen last."""
        if transcript.mode_option is not None:
            self._mode_id = transcript.mode_option.id
        return self._saved | option_values(transcript.options)

    async def prepare(
        self,
        session: ClientSession,
        source: Source,
        seen: Mapping[str, str | bool],
        *,
        is_new: bool,
    ) -> list[tuple[str, Severity]]:
        """Set the options of a session that has just been opened; return remarks about it.

        `seen` are the values before. Those of a server or a shared session stay, because other
        clients may have changed them.
        """
        setup, given = source.setup, source.setup.given
        remarks: list[tuple[str, Severity]] = []
        if is_new:
            remarks += await _apply(session, setup.model, setup.mode, setup.options)
        if not source.is_remote and not isinstance(source, SharedSession):
            done = await restore_session_options(session, seen, self._mode_id)
            self._saved |= done.not_set
            self.has_lost_mode = bool(done.lost_mode)
            remarks.extend((f"Set again: {text}", "info") for text in done.restored)
            remarks.extend((f"Not as before: {text}", "warning") for text in done.failed)
        if not self._is_opened and (seen or not is_new):
            problems = await _apply(session, given.model, given.mode, given.options)
            remarks += problems
            if given.mode is not None:
                self.has_lost_mode = bool(problems)
        self._is_opened = True
        return remarks


async def _apply(
    session: ClientSession, model: str | None, mode: str | None, options: tuple[str, ...]
) -> list[tuple[str, Severity]]:
    try:
        await apply_session_options(session, model=model, mode=mode, options=options)
    except click.UsageError as error:
        return [(error.format_message(), "warning")]
    return []


_STOPS = {
    "cancelled": "Cancelled",
    "max_tokens": "Stopped: the model's limit of tokens is reached",
    "max_turn_requests": "Stopped: the limit of requests to the model is reached",
    "refusal": "The agent refused to continue",
}


def _end_words(turn: ClientTurn, seconds: float) -> str:
    """Return why a turn has ended, unless it is done, how long it took, and its tokens."""
    reason = turn.stop_reason or "end_turn"
    parts = [f"{seconds:.0f} s"]
    if turn.token_usage is not None:
        parts.append(f"{turn.token_usage.total:,} tokens")
    if turn.limit is not None:
        return " · ".join([f"Stopped: {turn.limit}", f"used: {turn.spent}"])
    words = _STOPS.get(reason, "" if reason == "end_turn" else f"Stopped: {reason}")
    return " · ".join([words, *parts] if words else parts)


def _error_words(error: BaseException) -> str:
    """Return the text of an error for the user."""
    if isinstance(error, TimeoutError) and not str(error):
        return "The agent did not respond in time"
    return str(error) or type(error).__name__
