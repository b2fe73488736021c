"""The chat in lines: passes what is typed on, and prints what the sessions report."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from accord.client.agent_adapter import AuthMethod
from accord.errors import AccordError
from accord.local.run import run_program
from accord_chat.chat import Chat, MakeChat, prepare
from accord_chat.editor import NoEditor, PromptFile, open_in_editor
from accord_chat.lines.commands import Commands, LineCommand, draft_rows, find_command
from accord_chat.lines.questions import answer, ask_form, show_permission
from accord_chat.lines.reader import SessionReader
from accord_chat.lines.words import Printer
from accord_chat.live_session import LiveSession
from accord_chat.model.questions import PermissionQuestion, Question
from accord_chat.pace import Pace
from accord_chat.sources import ChatOptions
from accord_chat.steering import Sending
from accord_terminal.toolkit.keyboard import Keyboard, LineEditor
from accord_terminal.toolkit.login import run_terminal_login
from accord_terminal.toolkit.text import one_line

FRAME_S = 0.1
PAUSE_S = 0.5
# A line that was on its way when the question came must not answer it.
IGNORE_S = 0.5

# A line; the end of the input; Ctrl-C; or a question has come or gone.
Event: TypeAlias = str | Literal[0, 1, 2]
ENDED: Literal[0] = 0
INTERRUPTED: Literal[1] = 1
QUESTIONED: Literal[2] = 2


class LinesProgram:
    """Runs until the user leaves, or all is done after the end of the input."""

    def __init__(self, make_chat: MakeChat, printer: Printer, *, lists_sessions: bool) -> None:
        self.chat: Chat | None = None
        self.pace = Pace()
        self.status = 0
        self._make_chat = make_chat
        self._printer = printer
        self._lists_sessions = lists_sessions
        self._told_problem: str | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._readers: dict[LiveSession, SessionReader] = {}
        self._frame: asyncio.TimerHandle | None = None
        self._asked: Question | None = None  # that was read to the user
        self._asked_at_s = 0.0
        self._is_leaving = False
        self._has_ended = False  # the input
        self._interrupted_turn: tuple[LiveSession, float] | None = None  # by the last Ctrl-C
        self._in_command = False
        self._in_dialog = False  # a command waits for a line
        self._announced: Question | None = None  # during a dialog
        self._is_terminal_given = False
        self._tasks: asyncio.TaskGroup | None = None
        self._keyboard: Keyboard | None = None

    @property
    def _open_chat(self) -> Chat:
        assert self.chat is not None
        return self.chat

    @property
    def _current(self) -> LiveSession:
        return self._open_chat.current

    @property
    def _reader(self) -> SessionReader:
        session = self._current
        if session not in self._readers:
            self._readers[session] = SessionReader(session, self._printer)
        return self._readers[session]

    async def run(self) -> int:
        """Run the chat; return the exit status."""
        write, width = self._printer.write, self._printer.width
        editor = LineEditor(lambda: self._current.timeline.prompts, write, width)
        keyboard = self._keyboard = Keyboard(self._typed, editor=editor)
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            chat = self.chat = self._make_chat(self, tasks)
            try:
                with _interrupts(self._interrupt):
                    self._greet()
                    keyboard.resume()
                    await self._serve(Commands(chat, self, self._printer, self._read))
            finally:
                self._keep_unsent(keyboard.close())
                self._read_current()
                chat.save()
                if self._frame is not None:
                    self._frame.cancel()
                await chat.aclose()
        return self.status

    def _keep_unsent(self, typed: str) -> None:
        """Add what was typed and not taken to the draft."""
        lines: list[str] = []
        while not self._events.empty():
            event = self._events.get_nowait()
            if isinstance(event, str) and not event.startswith(":"):
                lines.append(event)
        session = self._current
        session.draft = "\n".join(filter(None, [session.draft, *lines, typed]))

    def _greet(self) -> None:
        chat = self._open_chat
        self._printer.say("Note: accord chat in lines. :help lists the commands.")
        if len(chat.sessions) > 1:
            number, count = chat.active + 1, len(chat.sessions)
            self._printer.say(f"Note: session {number} of {count}. :sessions lists them.")
        self._read_current()
        self._tell_draft()
        if self._lists_sessions:
            self._events.put_nowait(":resume")

    def _tell_draft(self) -> None:
        rows = draft_rows(self._current)
        if rows:
            self._printer.say("Draft, not sent:")
            self._printer.below(rows)
            self._printer.say("Note: your next line is added to it. :send sends it, :drop forgets.")

    # What is typed.

    def _typed(self, line: str | None) -> None:
        self._events.put_nowait(ENDED if line is None else line)

    async def _read(self) -> str | None:
        """Return the next line, for a command that asks for more; None to leave it."""
        self._in_dialog = True
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, str):
                    self._interrupted_turn = None
                    return event
                if event == ENDED:
                    self._events.put_nowait(ENDED)  # also for the loop
                    return None
                if event == INTERRUPTED:
                    return None
        finally:
            self._in_dialog = False

    async def _serve(self, commands: Commands) -> None:
        while not self._is_leaving:
            self._tell_problem()
            await self._ask()
            event = await self._events.get()
            match event:
                case str():
                    self._interrupted_turn = None
                    await self._take(event, commands)
                case 0:
                    self._input_ended()
                case 1:
                    self._interrupted()
                case _:
                    pass
            if self._has_ended and self._is_done():
                self._is_leaving = True

    def _tell_problem(self) -> None:
        """Report, once for each reason, that what is written is lost when the program ends."""
        problem = self._open_chat.unsaved_because
        if problem is not None and problem != self._told_problem:
            self._printer.say(f"Warning: sessions and drafts here are not kept. {problem}.")
        self._told_problem = problem

    async def _take(self, line: str, commands: Commands) -> None:
        question = self._asked
        text = line.strip()
        if line.startswith(":") and not line.startswith("::"):
            self._reader.interrupted()
            await self._command(text[1:], commands)
        elif isinstance(question, PermissionQuestion) and self._answer(question, text):
            pass
        elif line.endswith("\\"):
            session = self._current
            session.draft = f"{session.draft}\n{line[:-1]}" if session.draft else line[:-1]
            self._open_chat.save()
        elif text:
            whole = line.removeprefix(":") if line.startswith("::") else line
            whole = "\n".join(filter(None, [self._current.draft, whole]))
            self._current.draft = ""
            self.send(whole.strip())
        elif question is not None:
            self.show_question()

    async def _command(self, text: str, commands: Commands) -> None:
        word, _, argument = text.partition(" ")
        found = find_command(word.lower())
        if isinstance(found, LineCommand):
            self._in_command = True  # which prints first
            try:
                await commands.run(found.name, argument.strip())
            finally:
                self._in_command = False
            self._reader.interrupted()
            self._draw_soon(0)
            return
        shown = one_line(word, 40)
        if found:
            names = ", ".join(f":{one.name}" for one in found)
            self._printer.say(f"Error: :{shown} can be {names}.")
        else:
            self._printer.say(
                f"Error: there is no command :{shown}. :help lists them. "
                "To send a prompt that begins with a colon, type two colons."
            )

    def _answer(self, question: PermissionQuestion, text: str) -> bool:
        """Return whether a line was an answer, or nearly one."""
        if text.lower() == "m":
            show_permission(question, self._printer, whole=True)
            return True
        is_new = time.monotonic() - self._asked_at_s < IGNORE_S
        if is_new and self._keyboard is not None and self._keyboard.is_terminal:
            if len(text) == 1:
                self._printer.say("Note: the question has only just come. Answer it again.")
                return True
            return False
        if answer(question, text):
            self._printer.say("Note: answered.")
            self._asked = None
            return True
        return False

    def send(self, text: str, sending: Sending | None = None) -> None:
        """Send a prompt, say it to the agent in its turn, or queue it."""
        session = self._current
        is_free = session.state == "idle" and not session.queue
        is_terminal = self._keyboard is not None and self._keyboard.is_terminal
        if sending is None:  # in a pipe, lines are prompts, one after another
            sending = self._open_chat.choices.enter if is_terminal else "queue"
        number = len(session.queue) + 1
        if is_terminal and (is_free or sending != "queue"):
            self._reader.typed(text)
        images, session.attachments = session.attachments, []
        session.send(text, images, sending)
        self._open_chat.save()
        if is_free or len(session.queue) < number:
            return
        if session.questions:
            why = "The question is still open; :again reads it."
        elif session.state == "failed":
            why = "The session is not open; :reconnect tries again."
        elif session.state == "starting":
            why = "The agent is starting."
        elif session.state == "logging_in":
            why = "The agent needs a login."
        else:
            why = "The agent is working."
        self._reader.interrupted()
        self._printer.say(f"Note: queued as number {number}. {why}")

    def quit(self) -> None:
        """End the program."""
        self._is_leaving = True
        self._events.put_nowait(QUESTIONED)

    # The end of the input, and Ctrl-C.

    def _input_ended(self) -> None:
        self._has_ended = True
        if self._keyboard is not None and self._keyboard.is_terminal:
            self._is_leaving = True
            return
        if self._asked is not None:
            self._reject(self._asked)

    def _is_done(self) -> bool:
        sessions = self._open_chat.sessions
        if any(one.state == "failed" for one in sessions):
            self.status = 1
        return all(
            one.state == "failed" or (one.state == "idle" and not one.queue) for one in sessions
        )

    def _reject(self, question: Question) -> None:
        """Answer a question that cannot be answered any more."""
        self._printer.say("Note: rejected, since the input has ended.")
        if isinstance(question, PermissionQuestion):
            options = question.request.options
            rejecting = [option for option in options if option.kind == "reject_once"]
            question.answer(rejecting[0] if rejecting else "cancel")
        else:
            question.answer(None)  # pyright: ignore[reportArgumentType]
        self._asked = None

    def _interrupt(self) -> None:
        if not self._is_terminal_given:
            if self._keyboard is not None:
                self._keyboard.interrupt()
            self._events.put_nowait(INTERRUPTED)

    def _interrupted(self) -> None:
        turn = self._current, self._current.turn_started_s
        if self._interrupted_turn == turn:
            self._is_leaving = True
            return
        self._interrupted_turn = turn
        self._reader.interrupted()
        if self._current.is_busy:
            self._printer.say("Note: cancelling the turn. Ctrl-C again quits.")
            self.cancel()
        else:
            self._printer.say("Note: Ctrl-C again quits, and so does Ctrl-D.")

    def cancel(self) -> None:
        """Cancel the turn."""
        if self._current.is_busy:
            self._spawn(self._current.cancel())
        else:
            self._printer.say("Note: no turn is running.")

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)

    # Questions.

    async def _ask(self) -> None:
        """Read the first question of the session; forms are filled in at once."""
        session = self._current
        question = _first_open(session)
        if question is None:
            self._asked = None
        if question is None or question is self._asked:
            return
        self._read_current()
        self._asked, self._asked_at_s = question, time.monotonic()
        if self._has_ended:
            self._reject(question)
        elif isinstance(question, PermissionQuestion):
            self.show_question()
        else:
            await self._ask_form(question)

    async def _ask_form(self, question: Question) -> None:
        assert not isinstance(question, PermissionQuestion)
        asking = asyncio.create_task(ask_form(question, self._printer, self._read))
        taken_back = asyncio.create_task(question.until_answered())
        try:
            await asyncio.wait([asking, taken_back], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                self._printer.say("Note: the agent needs no answer any more.")
        finally:
            asking.cancel()
            taken_back.cancel()
            await asyncio.wait([asking, taken_back])
        if not asking.cancelled():
            asking.result()
        self._asked = None

    def show_question(self) -> bool:
        """Read the open question again; return whether there is one."""
        if not isinstance(self._asked, PermissionQuestion):
            return False
        self._reader.interrupted()
        show_permission(self._asked, self._printer)
        return True

    # What the sessions report.

    def session_changed(self, session: LiveSession) -> None:
        """Print what has changed soon; a new state at once, since it can be short."""
        chat = self.chat
        if chat is None or not chat.sessions:
            return
        is_quiet = self._in_command or self._in_dialog
        if session is chat.current and self._reader.is_behind and not is_quiet:
            self._reader.read()
        self._draw_soon(FRAME_S)

    def _draw_soon(self, wait_s: float) -> None:
        if self._frame is None:
            self._frame = asyncio.get_running_loop().call_later(wait_s, self._draw)

    def _draw(self) -> None:
        self._frame = None
        chat = self._open_chat
        if not chat.sessions:
            return
        session = self._current
        first = _first_open(session)
        if self._in_dialog:
            if first not in (None, self._asked, self._announced):
                self._announced = first
                self._printer.say("Note: the agent asks a question. Leave this first: type q.")
            return
        if self._in_command:
            return
        self._read_current()
        if first is not self._asked or self._has_ended:
            self._events.put_nowait(QUESTIONED)

    def _read_current(self) -> None:
        if self._reader.read() and not self._current.is_busy:
            self._draw_soon(PAUSE_S)  # if nothing follows, this was the end

    def show_session(self) -> None:
        """Say which session is current, and read what is new in it."""
        chat = self._open_chat
        session = chat.current
        session.needs_attention = False
        title = session.title or "new session"
        self._asked = None
        self._printer.say(
            f"Session {chat.active + 1} of {len(chat.sessions)}: "
            f"{one_line(session.agent_name, 60)}, {title}"
        )
        self._reader.interrupted()
        self._read_current()
        self._tell_draft()

    def attention_wanted(self, session: LiveSession, why: str) -> None:
        """Say what has happened in a session that is not current."""
        chat = self.chat
        if chat is None or not chat.sessions or session is chat.current:
            return
        session.needs_attention = True
        number = chat.sessions.index(session) + 1
        name = one_line(session.title or session.agent_name, 60)
        self._reader.interrupted()
        self._printer.say(f"Note: session {number}, {name}, {why}. :sessions {number} goes there.")

    def tell(self, text: str) -> None:
        """Print a note."""
        self._printer.say(f"Note: {text}")

    # Other programs at the terminal.

    def open_editor(self, file: Path, line: int | None) -> None:
        """Open a file in the user's editor: here, or in the window of the editor."""
        self._spawn(self._edit(file, line))

    async def _edit(self, file: Path, line: int | None) -> bool:
        try:
            return await open_in_editor(file, line, self._terminal_given)
        except NoEditor as error:
            self.tell(str(error))
            return False

    async def write_prompt(self, text: str) -> str | None:
        """Let the user edit a prompt in an editor; None if that is not possible."""
        with PromptFile(text) as file:
            return file.read() if await self._edit(file.path, None) else None

    @contextlib.contextmanager
    def _terminal_given(self) -> Generator[None]:
        assert self._keyboard is not None
        self._keyboard.pause()
        self._printer.hold()
        self._is_terminal_given = True
        try:
            yield
        finally:
            self._is_terminal_given = False
            self._printer.release()
            self._keyboard.resume()

    async def log_in_at_terminal(self, session: LiveSession, method: AuthMethod) -> int:
        """Give the terminal to the agent's login command; return its status."""
        command = session.link.source.login_command
        if command is None:
            raise AccordError("The login command of a remote agent cannot be run here")
        with self._terminal_given():
            return await run_terminal_login(command, session.link.source.setup.env, method)


def _first_open(session: LiveSession) -> Question | None:
    return next((one for one in session.questions if not one.is_answered), None)


@contextlib.contextmanager
def _interrupts(call: Callable[[], None]) -> Generator[None]:
    """Call a function for Ctrl-C, in the event loop."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_lines(options: ChatOptions) -> int:
    """Run the program; return its exit status."""
    start = prepare(options)
    encoding = sys.stdout.encoding or "utf-8"

    def write(text: str) -> None:
        try:
            sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
            sys.stdout.buffer.flush()
        except (OSError, ValueError):  # the reader has gone
            program.quit()

    program = LinesProgram(start.make_chat, Printer(write, _width), lists_sessions=options.resume)
    try:
        return run_program(program.run())
    finally:
        start.saved.release()


def _width() -> int | None:
    """Return the columns of the terminal; None if the output goes elsewhere."""
    try:
        return os.get_terminal_size(1).columns or None
    except (OSError, ValueError):
        return None
