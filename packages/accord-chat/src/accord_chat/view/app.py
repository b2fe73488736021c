"""The program on the screen: owns the tasks of the chat, and the terminal.

`run_chat` runs it. The terminal is given to the user's editor and to login commands, and is asked
for desktop notifications.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rich.terminal_theme import TerminalTheme
from textual import events, screen
from textual.app import App, SuspendNotSupported
from textual.binding import BindingType
from textual.geometry import Size
from textual.notifications import SeverityLevel

from accord.client.agent_adapter import AuthMethod
from accord.errors import AccordError
from accord.local.run import run_program
from accord_chat.chat import Chat, MakeChat, prepare
from accord_chat.editor import editor_command, has_own_window
from accord_chat.live_session import LiveSession
from accord_chat.pace import Pace, collect_in_pauses
from accord_chat.sources import ChatOptions, short_name
from accord_chat.view.main_screen import MainScreen
from accord_chat.view.terminal import Terminal
from accord_chat.view.themes import BOXES, THEMES
from accord_terminal.toolkit.login import run_terminal_login, without_interrupts
from accord_terminal.toolkit.text import one_line, printable

CHECK_S = 1.0
# Keys are read, and the screen is written, in threads of Textual, which wait for this one.
SWITCH_S = 0.0005
HUNG_UP = 129  # as shells report SIGHUP


def run_chat(options: ChatOptions) -> int:
    """Run the program; return its exit status."""
    start = prepare(options)
    app = ChatApp(start.make_chat, lists_sessions=options.resume, notifies=start.notifies)
    threading.Thread(target=_leave_without_terminal, name="accord terminal", daemon=True).start()
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        status = run_program(_run(app))
    finally:
        sys.setswitchinterval(before_s)
        start.saved.release()
    if app.failure is not None:
        raise app.failure
    return status


def _leave_without_terminal() -> None:
    """End the process some time after its terminal was closed.

    Textual can then wait forever for a thread that cannot write any more. Drafts are saved while
    they are typed, and agents end with this process.
    """
    while os.isatty(1):
        time.sleep(CHECK_S)
    time.sleep(CHECK_S)  # for an orderly end
    os._exit(HUNG_UP)


async def _run(app: ChatApp) -> int:
    collecting = asyncio.create_task(collect_in_pauses(app.pace))
    try:
        status = await app.run_async()
    finally:
        collecting.cancel()
        await app.aclose()
    return status or app.return_code or 0


SIZE_S = 1.0
FRAME_S = 1 / 120  # of the screen; Textual can wait for two of them after a key
# Not the movements of the mouse, which come without a pause.
_USER_EVENTS = (
    events.Key,
    events.Paste,
    events.MouseDown,
    events.MouseScrollDown,
    events.MouseScrollUp,
)


# Textual reads this only from the environment, which agents would inherit.
setattr(screen, "UPDATE_PERIOD", FRAME_S)  # noqa: B010  # not its own name


class ChatApp(App[int]):
    """Shows a chat until the user leaves."""

    TITLE = "accord chat"
    ENABLE_COMMAND_PALETTE = False
    # At the top: below are questions, what the agent does, and the prompt.
    CSS = "ToastRack { dock: top; align: right top; margin: 1 0 0 0; }" + BOXES
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, make_chat: MakeChat, *, lists_sessions: bool = False, notifies: bool = True
    ) -> None:
        super().__init__()
        for theme in THEMES.values():
            self.register_theme(theme.widgets)
        self.theme = next(iter(THEMES))
        self.pace = Pace()
        self.chat: Chat | None = None
        self.failure: BaseException | None = None
        self._make_chat = make_chat
        self._notifies = notifies
        self._lists_sessions = lists_sessions  # at the start
        self._main: MainScreen | None = None
        self._has_focus = True  # the terminal
        self._terminal_lock = asyncio.Lock()
        self._is_suspended = False  # another program has the terminal
        self._owner_task: asyncio.Task[None] | None = None

    async def on_event(self, event: events.Event) -> None:
        """Note what the user does, before anything else happens for it."""
        if isinstance(event, _USER_EVENTS) and not event.is_forwarded:
            self.pace.note_key()
        await super().on_event(event)

    async def on_mount(self) -> None:
        """Open the sessions, and show them."""
        self.set_interval(SIZE_S, self._check_size)
        ready = asyncio.Event()
        self._owner_task = asyncio.create_task(self._run_chat(ready), name="accord chat")
        await ready.wait()
        if self._main is not None:
            await self.push_screen(self._main)
            if self._lists_sessions:
                self._main.action_run("sessions")

    def _check_size(self) -> None:
        """Adapt to a terminal whose change of size was not reported."""
        if self.is_headless:
            return
        try:
            columns, lines = os.get_terminal_size()
        except OSError:
            return
        size = Size(columns, lines)
        if size != self.size and columns and lines:
            self.post_message(events.Resize(size, size))

    async def _run_chat(self, ready: asyncio.Event) -> None:
        """Own all tasks of the sessions and agents."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self.chat = self._make_chat(self, tasks)
                is_real = not self.is_headless
                terminal = Terminal(self._write, is_real=is_real, on_typed=self.pace.note_key)
                self._main = MainScreen(self.chat, tasks, terminal, self.pace)
                ready.set()
        except BaseExceptionGroup as error:
            self.failure = error
            self.exit(1)
        finally:
            ready.set()

    async def aclose(self) -> None:
        """Save what is open, and end the agents."""
        if self.chat is not None:
            self.chat.save()
            await self.chat.aclose()
        if self._owner_task is not None:
            await asyncio.wait([self._owner_task])

    # What the sessions report.

    def session_changed(self, session: LiveSession) -> None:
        """Draw what has changed."""
        if self._main is not None:
            self._main.session_changed()

    def attention_wanted(self, session: LiveSession, why: str) -> None:
        """Mark the session, and notify a user who looks elsewhere."""
        main = self._main
        if main is None or (self._has_focus and main.is_seen(session)):
            return
        session.needs_attention = True
        text = f"{one_line(self._name_of(session), 80)} {why}"
        self._notify_desktop(text)
        if not main.is_seen(session):
            self.tell(text)

    def _name_of(self, session: LiveSession) -> str:
        """Return what tells a session from the others: its title, and its agent."""
        agent = short_name(session.agent_name)
        agents = (
            {one.agent_name for one in self.chat.sessions} if self.chat is not None else {agent}
        )
        if session.title and len(agents) > 1:
            return f"{agent}: {session.title}"
        return session.title or agent

    def _notify_desktop(self, text: str) -> None:
        if self._notifies and not self.is_headless:
            self._write(notification(text, os.environ))

    def _write(self, text: str) -> None:
        """Pass a text to the terminal as it is, after what Textual has written."""
        if self._driver is not None and not self._is_suspended:
            self._driver.write(text)

    def tell(self, text: str) -> None:
        """Show a text for some seconds."""
        self.notify(printable(text), markup=False)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a text for some seconds, in the chat where it covers no question."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)
        if self._main is not None and self._main.is_mounted:
            timeout_s = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
            self._main.show_notice(message, timeout_s)

    def open_editor(self, file: Path, line: int | None) -> None:
        """Open a file in the user's editor: here, or in the window of the editor."""
        command = editor_command(file, line)
        if command is None:
            self.tell("Set VISUAL or EDITOR to the command of your editor.")
            return
        try:
            if has_own_window(command):
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                return
            if shutil.which(command[0]) is None:  # an error within `suspend` loses the terminal
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            with self.suspend():
                subprocess.run(command, check=False)
        except SuspendNotSupported:
            self.tell("This terminal cannot be given to the editor.")
        except OSError as error:
            self.tell(f"{command[0]} cannot be started: {error.strerror}")
        self.refresh()

    async def log_in_at_terminal(self, session: LiveSession, method: AuthMethod) -> int:
        """Give the terminal to the agent's login command; return its status."""
        source = session.link.source
        if source.login_command is None:
            raise AccordError("The login command of a remote agent cannot be run here")
        async with self._terminal_lock:
            try:
                # Other sessions still run, and must not write to the terminal.
                with self.batch_update(), self.suspend():
                    self._is_suspended = True
                    login = log_in_here(source.login_command, source.setup.env, method)
                    # An error within `suspend` would leave the program without the terminal.
                    (ended,) = await asyncio.gather(login, return_exceptions=True)
            except SuspendNotSupported:
                raise AccordError("This terminal cannot be given to the login command") from None
            finally:
                self._is_suspended = False
        if isinstance(ended, BaseException):
            raise ended
        return ended

    # Commands.

    def action_theme(self) -> None:
        """Switch to the next theme."""
        names = list(THEMES)
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]
        self.notify(f"Theme: {THEMES[self.theme].label}", timeout=2)

    @property
    def ansi_theme(self) -> TerminalTheme:
        """The colours that names such as `red` mean."""
        theme = THEMES.get(self.theme)
        return super().ansi_theme if theme is None else theme.names

    def on_app_focus(self) -> None:
        """Note that the terminal has the keyboard again."""
        self._has_focus = True
        if self.chat is not None and self.chat.sessions:
            self.chat.current.needs_attention = False
            self.session_changed(self.chat.current)

    def on_app_blur(self) -> None:
        """Note that the user looks elsewhere."""
        self._has_focus = False


MAX_COMMAND = 2000


async def log_in_here(
    command: Sequence[str], env: Mapping[str, str | None], method: AuthMethod
) -> int:
    """Run a login command while the chat has left the terminal; return its status."""
    _say(f"{one_line(method.name, 60)}: the chat comes back when this command ends.")
    _say(f"$ {one_line(shlex.join([*command, *method.args]), MAX_COMMAND)}\n")
    with without_interrupts():
        status = await run_terminal_login(command, env, method)
        if status != 0 and sys.stdin is not None:
            _say("\nThe login has failed. Press Enter to go back to the chat.")
            await asyncio.to_thread(sys.stdin.readline)
    return status


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # the terminal is not the screen of the chat now


MAX_TEXT = 120
# The words that name a terminal which reads OSC 777; of two ways, each would show the text again.
WITH_777 = ("ghostty", "wezterm", "foot", "rxvt", "konsole", "contour")


def notification(text: str, environment: Mapping[str, str]) -> str:
    """Return the sequence for a desktop notification, and the bell.

    That is OSC 99 for Kitty, OSC 777 for terminals that are known to read it, and OSC 9 for all
    others. What a terminal does not know, it ignores.
    """
    clean = one_line(text, MAX_TEXT).replace(";", ",")  # a semicolon begins another field
    names = " ".join(environment.get(name, "") for name in ("TERM", "TERM_PROGRAM")).lower()
    if "kitty" in names or "KITTY_WINDOW_ID" in environment:
        sequence = f"99;;{clean}"
    elif (
        any(name in names for name in WITH_777)
        or "VTE_VERSION" in environment
        or "KONSOLE_VERSION" in environment
    ):
        sequence = f"777;notify;accord chat;{clean}"
    else:
        sequence = f"9;{clean}"
    return f"\x1b]{sequence}\x1b\\\a"
