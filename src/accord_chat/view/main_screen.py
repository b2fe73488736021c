"""The screen: tabs, the conversation, the question below it, and the prompt."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar, cast

from rich.console import Group
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from accord.cli.ask.safe_text import one_line
from accord.cli.ask.screen.tool_rows import plan_rows
from accord.client.events import ToolCall
from accord.errors import AccordError
from accord_chat.live_session import LiveSession, location_of
from accord_chat.model.prompt_queue import QueuedPrompt
from accord_chat.view import dialogs
from accord_chat.view.composer import Composer
from accord_chat.view.entry_lines import viewer_rows
from accord_chat.view.keys import COMMANDS
from accord_chat.view.lists import (
    entry_title,
    help_rows,
    session_choices,
    whole_plan_rows,
)
from accord_chat.view.permission_panel import PermissionPanel
from accord_chat.view.pick_screen import PickScreen
from accord_chat.view.prompt_area import PromptArea
from accord_chat.view.question_area import QuestionArea
from accord_chat.view.review_screen import ReviewScreen
from accord_chat.view.status import activity_text, status_text, tab_ranges, tabs_text
from accord_chat.view.strips import row_strips
from accord_chat.view.transcript_view import TranscriptView
from accord_chat.view.viewer_screen import ViewerScreen

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from accord_chat.chat import Chat

__all__ = ("MainScreen",)

FRAME_S = 1 / 30
TICK_S = 0.5  # of the clock and the spinner while an agent works
SAVE_S = 1.0  # after the last change of a draft
TYPING_S = 0.75  # a question does not take the keyboard within this time after a key
LIST_S = 30.0  # for the agent to list its sessions
MAX_PLAN_ROWS = 4
MIN_ROWS_FOR_PLAN = 16
MIN_ROWS_WITH_BOTH = 40  # for the plan and a question


class MainScreen(Screen[None]):
    """Shows the sessions of a chat, one at a time."""

    DEFAULT_CSS = """
    MainScreen #tabs, MainScreen #activity, MainScreen #status { height: 1; padding: 0 1; }
    MainScreen #tabs { background: $panel; padding: 0; }
    MainScreen #plan { height: auto; max-height: 6; padding: 0 1; display: none; }
    MainScreen #plan.open { display: block; }
    MainScreen #status { background: $panel; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        *(
            Binding(command.key, command.action, command.summary, show=False, priority=True)
            for command in COMMANDS
            if command.action != "cancel"
        ),
        Binding("escape", "cancel", show=False),  # after lists and questions
        *(Binding(f"alt+{n}", f"tab({n})", show=False, priority=True) for n in range(1, 10)),
    ]

    AUTO_FOCUS = "Composer"  # from the first key on, also of those typed before the start

    def __init__(self, chat: Chat, tasks: asyncio.TaskGroup) -> None:
        super().__init__()
        self.chat = chat
        self._tasks = tasks
        self._shown: LiveSession | None = None
        self._is_dirty = False
        self._frame_planned = False
        self._frame = 0
        self._save_at_s = float("inf")

    def compose(self) -> ComposeResult:
        """Make the lines from top to bottom."""
        yield Static(id="tabs")
        yield TranscriptView()
        yield Static(id="plan")
        yield QuestionArea(self._may_take_keyboard)
        yield Static(id="activity")
        yield PromptArea()
        yield Static(id="status")

    def on_mount(self) -> None:
        """Show the current session."""
        self.show_session(self.chat.current)
        self._prompt.take_keyboard()
        self.set_interval(TICK_S, self._tick)

    @property
    def _current(self) -> LiveSession:
        return self.chat.current

    @property
    def _view(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    @property
    def _prompt(self) -> PromptArea:
        return self.query_one(PromptArea)

    @property
    def _program(self) -> App[int]:
        return cast("App[int]", self.app)  # pyright: ignore[reportUnknownMemberType]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    # Drawing.

    def session_changed(self) -> None:
        """Draw what has changed in the next frame."""
        self._is_dirty = True
        self._plan_frame(FRAME_S)

    def _plan_frame(self, wait_s: float) -> None:
        if not self._frame_planned and self.is_mounted:
            self._frame_planned = True
            self.set_timer(wait_s, self._draw_frame)

    def _draw_frame(self) -> None:
        started_s = time.monotonic()
        self._frame_planned = self._is_dirty = False
        self._draw()
        if self._is_dirty:
            # A frame that takes long is followed by a pause, so that keys are handled.
            self._plan_frame(max(FRAME_S, time.monotonic() - started_s))

    def _draw(self) -> None:
        if not self.chat.sessions or self._shown is None:
            return
        session = self._current
        self._view.update_changed()
        if session.timeline.side_changed:
            session.timeline.side_changed = False
            self._draw_plan(session)
        if self.query_one(QuestionArea).show(session):
            self._draw_plan(session)
        self._draw_lines()

    def _draw_lines(self) -> None:
        session, view, width = self._current, self._view, self.size.width
        below = 0 if view.is_following else view.hidden_below
        self.query_one("#tabs", Static).update(
            tabs_text(self.chat.sessions, self.chat.active, width)
        )
        self.query_one("#activity", Static).update(activity_text(session, below, self._frame))
        self.query_one("#status", Static).update(status_text(session, width - 2))

    def _draw_plan(self, session: LiveSession) -> None:
        box, plan = self.query_one("#plan", Static), session.transcript.plan
        rows = MIN_ROWS_WITH_BOTH if session.questions else MIN_ROWS_FOR_PLAN
        shows = session.is_busy and plan is not None and bool(plan.entries)
        box.set_class(shows and self.size.height >= rows, "open")
        if plan is not None:
            strips = row_strips(plan_rows(plan, MAX_PLAN_ROWS), self.size.width - 2)
            lines = [[(part.text, part.style or "") for part in strip] for strip in strips]
            box.update(Group(*(Text.assemble(*line, no_wrap=True) for line in lines)))

    def _tick(self) -> None:
        session = self._current
        if session.is_busy or session.state == "starting" or session.link.state == "reconnecting":
            self._frame += 1
            self._draw_lines()
        if time.monotonic() >= self._save_at_s:
            self._save_at_s = float("inf")
            self.chat.save()

    def on_resize(self) -> None:
        """Draw the lines at the new width."""
        self.query_one(QuestionArea).fit()
        if self._shown is not None:
            self._shown.timeline.side_changed = True
            self.session_changed()

    # Questions.

    def _may_take_keyboard(self) -> bool:
        """Return whether a question may take the keyboard: the user is not typing or reading."""
        prompt = self._prompt
        is_typing = time.monotonic() - prompt.composer.last_key_s < TYPING_S
        is_covered = isinstance(self._program.screen, ModalScreen)
        return prompt.is_blank and not (is_typing or is_covered or self._view.has_focus)

    def on_question_area_ended(self) -> None:
        """Go back to the prompt."""
        self._prompt.take_keyboard()

    def on_permission_panel_left(self, event: PermissionPanel.Left) -> None:
        """Go back to the prompt; the question stays."""
        event.stop()
        self._prompt.composer.last_key_s = float("inf")  # until the user wants to answer
        self._prompt.take_keyboard()

    def on_permission_panel_mistyped(self, event: PermissionPanel.Mistyped) -> None:
        """Go on with the prompt, since the user is typing; ask when the user has finished."""
        event.stop()
        composer = self._prompt.composer
        composer.insert(event.character)
        composer.last_key_s = time.monotonic()
        composer.focus()

    def action_answer(self) -> None:
        """Give the keyboard to the question."""
        self.query_one(QuestionArea).take_keyboard()

    # Sessions.

    def show_session(self, session: LiveSession) -> None:
        """Show one of the open sessions."""
        self.chat.active = self.chat.sessions.index(session)
        self._shown = session
        session.needs_attention = False
        session.timeline.side_changed = True
        self._view.show(session.timeline, str(session.cwd))
        self._prompt.show(session)
        self.session_changed()
        self._save_soon()

    def _save_soon(self) -> None:
        self._save_at_s = time.monotonic() + SAVE_S

    def action_new_session(self) -> None:
        """Open a new session of the same agent."""
        self.show_session(self.chat.open_session(self._current.agent_name))

    def action_step_tab(self, step: int) -> None:
        """Show the next session, or the previous one."""
        at = (self.chat.active + step) % len(self.chat.sessions)
        self.show_session(self.chat.sessions[at])

    def action_tab(self, number: int) -> None:
        """Show a session by its number."""
        if number <= len(self.chat.sessions):
            self.show_session(self.chat.sessions[number - 1])

    def action_close_tab(self) -> None:
        """Close the session; the last one is followed by a new one."""
        session = self._current
        if len(self.chat.sessions) == 1:
            self.chat.open_session(session.agent_name)
        at = self.chat.sessions.index(session)
        self.show_session(self.chat.sessions[at - 1 if at else 1])
        self._spawn(self._close(session))

    async def _close(self, session: LiveSession) -> None:
        await self.chat.close_session(session)
        self.session_changed()
        self._save_soon()

    def action_sessions(self) -> None:
        """List the sessions that the agent has stored."""
        self._spawn(self._list_sessions(self._current))

    async def _list_sessions(self, session: LiveSession) -> None:
        try:
            agent = await session.link.agent()
            if not agent.supports("list_sessions"):
                self.notify("The agent cannot list its sessions.", severity="warning")
                return
            async with asyncio.timeout(LIST_S):
                listed = [info async for info in agent.list_sessions(session.cwd)]
        except (AccordError, OSError, TimeoutError) as error:
            text = one_line(str(error)) or "The agent did not respond in time"
            self.notify(text, severity="error", markup=False)
            return
        choices = session_choices(listed, {one.session_id for one in self.chat.sessions})
        if choices:
            picker = PickScreen[str]("Sessions of this folder", choices)
            self._program.push_screen(picker, self._open_picked)
        else:
            self.notify("The agent has no sessions in this folder.")

    def _open_picked(self, session_id: str | None) -> None:
        if session_id is None:
            return
        for session in self.chat.sessions:
            if session.session_id == session_id:
                self.show_session(session)
                return
        before = self._current
        self.show_session(self.chat.open_session(before.agent_name, session_id=session_id))
        if not (before.has_prompts or before.queue or before.draft):
            self._spawn(self._close(before))

    # The prompt.

    def on_prompt_area_sent(self) -> None:
        """Follow the answer."""
        self.action_end()
        self._save_soon()

    def on_prompt_area_edited(self) -> None:
        """Save the draft soon."""
        self._save_soon()

    def on_composer_scrolled(self, event: Composer.Scrolled) -> None:
        """Scroll the conversation."""
        event.stop()
        view = self._view
        view.scroll_relative(y=event.pages * max(view.size.height - 2, 1), animate=False)
        self.session_changed()

    def action_take_back(self) -> None:
        """Take the last queued prompt back into the prompt."""
        prompt = self._current.queue.withdraw_last()
        if prompt is not None:
            self._prompt.edit(prompt)
            self.session_changed()

    def action_queue(self) -> None:
        """Show the queued prompts."""

        def edit(prompt: QueuedPrompt) -> None:
            self._prompt.edit(prompt)
            self.session_changed()

        dialogs.show_queue(self._program, self._current.queue, edit)

    # Commands.

    def action_interrupt(self) -> None:
        """Copy a selection; without one, cancel the turn, or clear the prompt."""
        composer = self._prompt.composer
        if composer.has_focus and composer.selected_text:
            self._program.copy_to_clipboard(composer.selected_text)
        elif self._current.is_busy:
            self.action_cancel()
        elif composer.text:
            composer.set_text("")
        else:
            self.notify("Ctrl+Q quits.", timeout=3)

    def action_cancel(self) -> None:
        """Cancel the turn; the session stays open."""
        if self._current.is_busy:
            self._spawn(self._current.cancel())
        else:
            self._prompt.take_keyboard()

    def action_help(self) -> None:
        """Show all keys."""
        self._program.push_screen(ViewerScreen("Keys", list(help_rows())))

    def action_palette(self) -> None:
        """List all commands."""

        def run(action: str) -> None:
            self.call_later(self.run_action, action)

        dialogs.show_commands(self._program, run)

    def action_options(self) -> None:
        """List the values of all options of the session."""
        session = self._current

        def choose(value: tuple[str, str | bool]) -> None:
            self._spawn(session.set_option(*value))

        dialogs.show_options(self._program, session, choose)

    def action_memory(self) -> None:
        """Show the remembered permissions."""
        dialogs.show_memory(self._program, self.chat.memory)

    def action_export(self) -> None:
        """Write the conversation to a file."""
        dialogs.show_export(self._program, self._current)

    def action_subagents(self) -> None:
        """Show the subagents."""
        dialogs.show_subagents(self._program, self._current)

    def action_traffic(self) -> None:
        """Show the messages of the protocol."""
        dialogs.show_traffic(self._program, self._current)

    def action_next_mode(self) -> None:
        """Switch to the next mode."""
        following = self._current.next_mode()
        if following is not None:
            option, value = following
            self._spawn(self._current.set_option(option.id, value))

    def action_plan(self) -> None:
        """Show all plans."""
        plans = list(self._current.transcript.plans.values())
        if plans:
            self._program.push_screen(ViewerScreen("Plan", whole_plan_rows(plans)))
        else:
            self.notify("The agent has no plan.")

    def action_review(self) -> None:
        """Show the changes of the session, hunk by hunk."""
        session = self._current
        if not session.reviewed_hunks():
            self.notify("The agent has shown no changes of files.")
            return

        def reviewed(undone: list[str] | None) -> None:
            if undone:  # the agent does not know it
                self._prompt.add(f"I have undone your changes at {', '.join(undone)}.")
            self.session_changed()

        self._program.push_screen(ReviewScreen(session), reviewed)

    def action_editor(self) -> None:
        """Open the file that the agent works on."""
        self._edit(self._current.latest_location())

    def action_transcript(self) -> None:
        """Go to the conversation, or back."""
        if self._view.has_focus:
            self._prompt.take_keyboard()
        else:
            self._view.focus()

    def action_end(self) -> None:
        """Go to the end of the conversation, and follow it."""
        self._view.follow()
        self.session_changed()

    def action_reconnect(self) -> None:
        """Start the agent again."""
        self._current.reconnect()

    async def action_theme(self) -> None:
        """Switch to the next theme."""
        await self._program.run_action("app.theme")

    async def action_suspend(self) -> None:
        """Stop the program, as shells do."""
        self.chat.save()
        await self._program.run_action("app.suspend_process")

    async def action_leave(self) -> None:
        """Quit; what is open is saved."""
        await self._program.run_action("app.leave")

    # The conversation.

    def on_transcript_view_left(self, event: TranscriptView.Left) -> None:
        """Go back to the prompt."""
        event.stop()
        self._prompt.take_keyboard()

    def on_transcript_view_chosen(self, event: TranscriptView.Chosen) -> None:
        """View or copy an entry, or open its file."""
        event.stop()
        if event.action == "edit":
            content = event.entry.content
            self._edit(location_of(content) if isinstance(content, ToolCall) else None)
            return
        rows = viewer_rows(event.entry, str(self._current.cwd))
        if event.action == "view":
            self._program.push_screen(ViewerScreen(entry_title(event.entry), rows))
        else:
            self._program.copy_to_clipboard("\n".join(row.plain for row in rows))
            self.notify("Copied.", timeout=2)

    def _edit(self, place: tuple[str, int | None] | None) -> None:
        if place is None:
            self.notify("The agent named no file.")
        else:
            self._current.wants_editor(*place)

    def on_click(self, event: events.Click) -> None:
        """Show the session whose tab was clicked."""
        if event.widget is None or event.widget.id != "tabs":
            return
        ranges = tab_ranges(self.chat.sessions, self.size.width)
        for number, columns in enumerate(ranges):
            if event.screen_x in columns:
                self.show_session(self.chat.sessions[number])

    def is_seen(self, session: LiveSession) -> bool:
        """Return whether a session is on the screen."""
        return session is self._shown
