"""The layout of the chat, and the session that it shows: what commands work with.

From top to bottom: tabs, the conversation, the plan, the question of the agent, what the agent
does, the prompt, settings and usage.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

from rich.console import Group
from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Static

from accord_chat.live_session import LiveSession
from accord_chat.pace import Pace
from accord_chat.view.bars import (
    activity_text,
    sending_hint,
    short_plan_rows,
    status_text,
    tab_line,
)
from accord_chat.view.file_pane import FilePane
from accord_chat.view.lazy_lines import row_strips
from accord_chat.view.permission_panel import LOW_ROWS, LOWEST_ROWS
from accord_chat.view.prompt_area import PromptArea
from accord_chat.view.question_area import QuestionArea
from accord_chat.view.transcript_view import TranscriptView
from accord_chat.view.welcome import welcome_lines
from accord_terminal.toolkit.text import printable

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from accord_chat.chat import Chat
    from accord_chat.view.terminal import Terminal


FRAME_S = 1 / 30
MAX_FRAME_S = 0.1
PAUSE = 3  # times as long as a frame took, at most `MAX_FRAME_S`
TICK_S = 0.5  # of the clock and the spinner while an agent works
SAVE_S = 1.0  # after the last change of a draft
FOLLOW_KEY = "Alt+W"
TYPING_S = 0.75  # a question does not take the keyboard within this time after a key
MAX_PLAN_ROWS = 4
MIN_ROWS_FOR_PLAN = 16
MIN_ROWS_FOR_TOASTS = 20
MIN_COLUMNS_FOR_TOASTS = 70
MIN_ROWS_WITH_BOTH = 40  # for the plan and a question


class ChatScreen(Screen[None]):
    """Shows the sessions of a chat, one at a time."""

    DEFAULT_CSS = """
    ChatScreen #tabs, ChatScreen #activity, ChatScreen #status { height: 1; padding: 0 1; }
    ChatScreen #tabs { background: $panel; padding: 0; }
    ChatScreen #middle { height: 1fr; }
    ChatScreen #middle TranscriptView { width: 1fr; }
    ChatScreen #followed { height: 1; padding: 0 1; display: none; background: $panel; }
    ChatScreen #followed.open { display: block; }
    ChatScreen #plan { height: auto; max-height: 6; padding: 0 1; display: none; }
    ChatScreen #plan.open { display: block; }
    ChatScreen #status { background: $panel; color: $text-muted; }
    ChatScreen.low Composer, ChatScreen.low CompletionList { max-height: 3; }
    ChatScreen.low.asking #tabs, ChatScreen.low.asking #activity { display: none; }
    ChatScreen.lowest.asking #middle { display: none; }
    ChatScreen #textual-toastrack.brief Toast { display: none; }
    ChatScreen.low.asking #status, ChatScreen.low.asking #followed { display: none; }
    """
    AUTO_FOCUS = "Composer"  # from the first key on, also of those typed before the start

    def __init__(
        self, chat: Chat, tasks: asyncio.TaskGroup, terminal: Terminal, pace: Pace
    ) -> None:
        super().__init__()
        self.chat = chat
        self._pace = pace
        self.terminal = terminal
        self._tasks = tasks
        self._shown: LiveSession | None = None
        self._is_dirty = False
        self._frame_planned = False
        self._frame = 0
        self._frame_s = FRAME_S  # until the next one
        self._save_at_s = float("inf")
        self._told_problem: str | None = None
        self._notice = ""
        self._notice_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Make the lines from top to bottom."""
        yield Static(id="tabs")
        with Horizontal(id="middle"):
            yield TranscriptView()
            yield FilePane(self.spawn, FOLLOW_KEY)
        yield Static(id="followed")
        yield Static(id="plan")
        yield QuestionArea(self._may_take_keyboard)
        yield Static(id="activity")
        yield PromptArea(self.chat.choices)
        yield Static(id="status")

    def on_mount(self) -> None:
        """Show the current session."""
        self.show_session(self.chat.current)
        self.prompt.take_keyboard()
        self.set_interval(TICK_S, self._tick)
        self._tell_problem()

    # What commands work with.

    @property
    def program(self) -> App[int]:
        """The program, to push screens and to use the terminal."""
        return cast("App[int]", self.app)  # pyright: ignore[reportUnknownMemberType]

    @property
    def session(self) -> LiveSession:
        """The session that is shown."""
        return self.chat.current

    @property
    def conversation(self) -> TranscriptView:
        """The conversation."""
        return self.query_one(TranscriptView)

    @property
    def questions(self) -> QuestionArea:
        """Where the question of the agent is docked."""
        return self.query_one(QuestionArea)

    @property
    def file_pane(self) -> FilePane:
        """The file that the agent works on."""
        return self.query_one(FilePane)

    @property
    def prompt(self) -> PromptArea:
        """The prompt that is being written."""
        return self.query_one(PromptArea)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that waits; it belongs to the tasks of the chat."""
        self._tasks.create_task(work)

    def show_session(self, session: LiveSession) -> None:
        """Show one of the open sessions."""
        self.chat.active = self.chat.sessions.index(session)
        self._shown = session
        session.needs_attention = False
        session.timeline.side_changed = True
        self.conversation.show(session.timeline, str(session.cwd))
        self.prompt.show(session)
        self.session_changed()
        self.save_soon()

    def close_session(self, session: LiveSession) -> None:
        """Close a session that is not shown."""
        self.spawn(self._close(session))

    async def _close(self, session: LiveSession) -> None:
        await self.chat.close_session(session)
        self.session_changed()
        self.save_soon()

    def open_editor(self, place: tuple[str, int | None] | None) -> None:
        """Open a file of the session at a line in the user's editor."""
        if place is None:
            self.notify("The agent named no file.")
        else:
            self.session.wants_editor(*place)

    def follow(self) -> None:
        """Go to the end of the conversation, and follow it."""
        self.conversation.follow()
        self.session_changed()

    def is_seen(self, session: LiveSession) -> bool:
        """Return whether a session is on the screen, or will be there at once."""
        return session is (self._shown or self.session)

    def show_notice(self, text: str, timeout_s: float) -> None:
        """Show a text for some seconds where it covers nothing, if toasts could."""
        self._notice = text
        if self._notice_timer is not None:
            self._notice_timer.stop()
        self._notice_timer = self.set_timer(timeout_s, self._end_notice)
        self._draw_notice()

    def _end_notice(self) -> None:
        self._notice = ""
        self._draw_notice()

    def _draw_notice(self) -> None:
        """Show toasts only if there is room above the question and the prompt."""
        is_brief = bool(self.session.questions) or not _has_room(self.size)
        self.query("#textual-toastrack").set_class(is_brief, "brief")
        self.prompt.show_notice(self._notice if is_brief else "")

    def save_soon(self) -> None:
        """Save what is open, when the user pauses."""
        self._save_at_s = time.monotonic() + SAVE_S

    def session_changed(self) -> None:
        """Draw what has changed in the next frame."""
        self._is_dirty = True
        self._plan_frame(self._frame_s)

    # Drawing.

    def _plan_frame(self, wait_s: float) -> None:
        if not self._frame_planned and self.is_mounted:
            self._frame_planned = True
            self.set_timer(wait_s, self._draw_frame)

    def _draw_frame(self) -> None:
        if not self.program.is_running:
            return  # the program ends, and parts of the screen may be gone
        started_s = time.thread_time()
        self._frame_planned = self._is_dirty = False
        self._draw()
        # A frame that takes long is followed by a pause, so that keys are handled.
        self._frame_s = min(max(FRAME_S, PAUSE * (time.thread_time() - started_s)), MAX_FRAME_S)
        if self._is_dirty:
            self._plan_frame(self._frame_s)

    def _draw(self) -> None:
        if not self.chat.sessions or self._shown is None:
            return
        session = self.session
        if self._pace.wait_s() > 0:
            self._is_dirty = True  # a key is drawn first, and what it does to the lines
        else:
            self.conversation.update_changed()
            self.file_pane.update_from(session)
        view = self.conversation
        view.show_welcome(welcome_lines(session, Size(view.size.width, view.free_rows)))
        if session.timeline.side_changed:
            session.timeline.side_changed = False
            self._draw_plan(session)
        if self.questions.show(session):
            self._make_room()
            self._draw_notice()
            self._draw_plan(session)
        self._draw_lines()

    def _draw_lines(self) -> None:
        session, view, width = self.session, self.conversation, self.size.width
        below = 0 if view.is_following else view.hidden_below
        tabs = tab_line(self.chat.sessions, self.chat.active, width)
        self._draw_line("#tabs", tabs.text)
        self._draw_line("#activity", activity_text(session, below, self._frame, width - 2))
        is_written = not self.prompt.is_blank
        hint = sending_hint(session, self.chat.choices.enter) if is_written else ()
        self._draw_line("#status", status_text(session, width - 2, hint))

    def _draw_line(self, name: str, text: Text) -> None:
        """Draw a line that has changed; its place stays, so there is nothing to arrange."""
        line = self.query_one(name, Static)
        if line.content != text:
            line.update(text, layout=False)

    def _draw_plan(self, session: LiveSession) -> None:
        box, plan = self.query_one("#plan", Static), session.transcript.plan
        rows = MIN_ROWS_WITH_BOTH if session.questions else MIN_ROWS_FOR_PLAN
        shows = session.is_busy and plan is not None and self.size.height >= rows
        box.set_class(shows, "open")
        if plan is not None:
            strips = row_strips(short_plan_rows(plan, MAX_PLAN_ROWS), self.size.width - 2)
            lines = [[(part.text, part.style or "") for part in strip] for strip in strips]
            box.update(Group(*(Text.assemble(*line, no_wrap=True) for line in lines)))

    def on_file_pane_changed(self) -> None:
        """Show the file, or on a narrow screen its name and line."""
        pane, line = self.file_pane, self.query_one("#followed", Static)
        pane.fit(self.size.width)
        line.set_class(pane.is_on and not pane.has_class("open"), "open")
        line.update(pane.line_text())

    def _tick(self) -> None:
        session = self.session
        if (
            session.is_busy
            or session.state in ("starting", "logging_in")
            or session.link.state == "reconnecting"
        ):
            self._frame += 1
            self._draw_lines()
        if time.monotonic() >= self._save_at_s:
            self._save_at_s = float("inf")
            self.chat.save()
            self._tell_problem()

    def _tell_problem(self) -> None:
        """Say, once for each reason, that what is written is lost when the program ends."""
        problem = self.chat.unsaved_because
        if problem is not None and problem != self._told_problem:
            self.notify(
                printable(f"Sessions and drafts of this window are not kept. {problem}."),
                severity="warning",
                markup=False,
            )
        self._told_problem = problem

    def on_resize(self) -> None:
        """Draw the lines at the new width; on a low screen a question covers some of them."""
        self._make_room()
        self._draw_notice()
        self.questions.fit()
        self.on_file_pane_changed()
        if self._shown is not None:
            self._shown.timeline.side_changed = True
            self.session_changed()

    def _make_room(self) -> None:
        """Let a question cover other lines of a low screen; elsewhere no style changes with it."""
        is_low = self.size.height < LOW_ROWS
        self.set_class(is_low, "low")
        self.set_class(self.size.height < LOWEST_ROWS, "lowest")
        self.set_class(is_low and bool(self.session.questions), "asking")

    def on_text_selected(self) -> None:
        """Go on with the conversation, which stood still for the mouse."""
        self.conversation.release()
        self.session_changed()

    def _may_take_keyboard(self) -> bool:
        """Return whether a question may take the keyboard: the user is not typing or reading."""
        prompt = self.prompt
        is_typing = time.monotonic() - prompt.composer.last_key_s < TYPING_S
        is_covered = isinstance(self.program.screen, ModalScreen)
        return prompt.is_blank and not (is_typing or is_covered or self.conversation.has_focus)


def _has_room(size: Size) -> bool:
    return size.height >= MIN_ROWS_FOR_TOASTS and size.width >= MIN_COLUMNS_FOR_TOASTS
