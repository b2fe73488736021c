"""The commands of the chat: what each does, and `COMMANDS` for bindings, help and palette.

A section is one feature: its functions, then its rows of the table.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from accord.client.agent_adapter import SessionInfo
from accord.errors import AccordError
from accord.transports.registry import is_url
from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession
from accord_chat.model.changes import location_of
from accord_chat.model.conversation import FORMATS, Format, exported, write_export
from accord_chat.model.prompts import QueuedPrompt
from accord_chat.model.saved import RememberedRule
from accord_chat.sources import KnownAgent
from accord_chat.steering import Sending
from accord_chat.view.bars import whole_plan_rows
from accord_chat.view.chat_screen import FOLLOW_KEY, ChatScreen
from accord_chat.view.file_pane import FileView
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_chat.view.review_screen import ReviewScreen
from accord_chat.view.subagent_screens import SubagentTree
from accord_chat.view.text_views import ViewerScreen
from accord_chat.view.trace_screen import TraceScreen
from accord_terminal.sessions.named import QueuedPrompt as SharedPrompt
from accord_terminal.toolkit.text import Row, one_line, printable


class Command(Struct, frozen=True):
    """One row of the help and of the palette, and what the command does."""

    name: str
    key: str  # as Textual names it
    shown_key: str
    summary: str
    run: Callable[[ChatScreen], None]


# The open sessions: another one, a new one, one less.


def _open_new(screen: ChatScreen) -> None:
    screen.show_session(screen.chat.open_session(screen.session.agent_name))


def _step(screen: ChatScreen, step: int) -> None:
    chat = screen.chat
    screen.show_session(chat.sessions[(chat.active + step) % len(chat.sessions)])


def _close(screen: ChatScreen) -> None:
    """Close the session; the last one is followed by a new one."""
    chat, session = screen.chat, screen.session
    if len(chat.sessions) == 1:
        chat.open_session(session.agent_name)
    at = chat.sessions.index(session)
    screen.show_session(chat.sessions[at - 1 if at else 1])
    screen.close_session(session)


def _reconnect(screen: ChatScreen) -> None:
    screen.spawn(screen.chat.reconnect(screen.session))


TABS = (
    Command("new_session", "f8", "F8", "Open a new session, in a tab", _open_new),
    Command(
        "next_session",
        "ctrl+pagedown",
        "Ctrl+PgDn",
        "Show the next session",
        partial(_step, step=1),
    ),
    Command(
        "previous_session",
        "ctrl+pageup",
        "Ctrl+PgUp",
        "Show the previous session",
        partial(_step, step=-1),
    ),
    Command("close_session", "f12", "F12", "Close the session", _close),
    Command(
        "reconnect",
        "ctrl+r",
        "Ctrl+R",
        "After a failure, try again to start the agent",
        _reconnect,
    ),
)


# The sessions that the agent has stored, to open one of them.

LIST_S = 30.0  # for the agent to list its sessions
OLDEST = datetime.min.replace(tzinfo=UTC)  # of sessions without a time


def _list_sessions(screen: ChatScreen) -> None:
    screen.spawn(_choose_session(screen, screen.session))


async def _choose_session(screen: ChatScreen, session: LiveSession) -> None:
    try:
        agent = await session.link.agent()
        if not agent.supports("list_sessions"):
            screen.notify("The agent cannot list its sessions.", severity="warning")
            return
        async with asyncio.timeout(LIST_S):
            listed = [info async for info in agent.list_sessions(session.cwd)]
    except (AccordError, OSError, TimeoutError) as error:
        text = one_line(str(error)) or "The agent did not respond in time"
        screen.notify(text, severity="error", markup=False)
        return

    def chosen(session_id: str | None) -> None:
        if session_id is not None:
            _open_stored(screen, session_id)

    opened = {one.session_id: one for one in screen.chat.sessions}
    listed = [info for info in listed if info.id not in opened or opened[info.id].has_prompts]
    choices = session_choices(listed, {one: session.title for one, session in opened.items()})
    if choices:
        screen.program.push_screen(PickScreen[str]("Sessions of this folder", choices), chosen)
    else:
        screen.notify("The agent has no sessions in this folder.")


def session_choices(listed: list[SessionInfo], opened: dict[str | None, str]) -> list[Choice[str]]:
    """Return stored sessions, the latest first; those that are open are marked."""
    timed = [(_local_time(info.updated_at), info) for info in listed]
    timed.sort(key=lambda one: one[0] or OLDEST, reverse=True)
    return [
        Choice(
            title or "Without a title",
            info.id,
            " · ".join(filter(None, [time and f"{time:%Y-%m-%d %H:%M}", "" if title else info.id])),
            info.id in opened,
        )
        for time, info in timed
        for title in (info.title or opened.get(info.id),)
    ]


def _local_time(text: str | None) -> datetime | None:
    """Return the time that an agent states, None if it cannot be read."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _open_stored(screen: ChatScreen, session_id: str) -> None:
    for session in screen.chat.sessions:
        if session.session_id == session_id:
            screen.show_session(session)
            return
    before = screen.session
    screen.show_session(screen.chat.open_session(before.agent_name, session_id=session_id))
    if not (before.has_prompts or before.queue or before.draft or before.attachments):
        screen.close_session(before)


STORED_SESSIONS = Command(
    "sessions", "f3", "F3", "Open an earlier session of the agent", _list_sessions
)


# The agents that can be used: one of this window, a named one, a command, a URL.


class _Start(Struct, frozen=True):
    """A line of the list: the agent to open a session of."""

    label: str


class _Search(Struct, frozen=True):
    """A line of the list: search the registry for these words."""

    words: str


def _choose_agent(screen: ChatScreen) -> None:
    """List the agents, and open a session of the chosen one in a tab."""

    def chosen(choice: _Start | _Search | None) -> None:
        match choice:
            case _Start(label):
                _open_agent(screen, label)
            case _Search(words):
                _search(screen, words)
            case None:
                pass

    def typed(text: str) -> list[Choice[_Start | _Search]]:
        if not text:
            return [Choice("Search the registry for more agents …", _Search(""))]
        start = Choice[_Start | _Search](f"Start {text}", _Start(text), "a command or a URL")
        search = Choice[_Start | _Search](f"Search the registry for {text}", _Search(text))
        return [start, search] if _can_start(text) else [search, start]

    picker = PickScreen["_Start | _Search"](
        "Open a session of an agent",
        list(_agent_choices(screen)),
        typed=typed,
        placeholder="Type a name, or the command or URL of an agent",
    )
    screen.program.push_screen(picker, chosen)


def _agent_choices(screen: ChatScreen) -> Iterator[Choice[_Start | _Search]]:
    chat, current = screen.chat, screen.session.agent_name
    opened = list(dict.fromkeys(session.agent_name for session in chat.sessions))
    known = _known(screen)
    for label in opened:
        count = sum(session.agent_name == label for session in chat.sessions)
        detail = "open here" if count == 1 else f"{count} sessions open here"
        yield Choice(label, _Start(label), detail, label == current)
    for label, agent in known.items():
        if label not in opened:
            yield Choice(label, _Start(label), f"{agent.origin}: {agent.command}")


def _can_start(text: str) -> bool:
    """Return whether it is a URL, or begins with a program of this machine."""
    return is_url(text) or shutil.which(text.split()[0]) is not None


def _known(screen: ChatScreen) -> dict[str, KnownAgent]:
    try:
        return {agent.label: agent for agent in screen.chat.known_agents()}
    except AccordError as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
        return {}


def _search(screen: ChatScreen, words: str) -> None:
    """Show the registry, and open a session of the agent that the user chooses there."""
    from accord_chat.view.registry import RegistryScreen, registry_address

    def chosen(name: str | None) -> None:
        if name is not None:
            _open_agent(screen, name)

    own = frozenset(agent.label for agent in _known(screen).values() if agent.origin == "settings")
    screen.program.push_screen(RegistryScreen(registry_address(), words, own), chosen)


def _open_agent(screen: ChatScreen, label: str) -> None:
    try:
        session = screen.chat.open_session(label)
    except (AccordError, ValueError) as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
    else:
        screen.show_session(session)


AGENTS = Command("agents", "alt+n", "Alt+N", "Open a session of another agent", _choose_agent)


# The values of all options of a session in one list: modes, models and others.


def _choose_option(screen: ChatScreen) -> None:
    session = screen.session
    choices = list(_option_choices(session))
    if not choices:
        screen.notify("The agent has no modes, models or options.")
        return

    def chosen(value: tuple[str, str | bool] | None) -> None:
        if value is not None:
            screen.spawn(session.set_option(*value))

    picker = PickScreen[tuple[str, "str | bool"]]("Mode, model and options", choices)
    screen.program.push_screen(picker, chosen)


def _option_choices(session: LiveSession) -> Iterator[Choice[tuple[str, str | bool]]]:
    for option in session.transcript.options:
        if isinstance(option, SelectOption):
            for choice in option.choices:
                yield Choice(
                    f"{option.name}: {choice.name}",
                    (option.id, choice.value),
                    " · ".join(filter(None, [choice.group, choice.description])),
                    choice.value == option.value,
                )
        else:
            for word, value in (("on", True), ("off", False)):
                label, detail = f"{option.name}: {word}", option.description or ""
                yield Choice(label, (option.id, value), detail, value is option.value)


def _next_mode(screen: ChatScreen) -> None:
    session = screen.session
    following = session.next_mode()
    if following is not None:
        option, value = following
        screen.spawn(session.set_option(option.id, value))


OPTIONS = Command(
    "options", "f2", "F2", "Choose the mode, the model and other options", _choose_option
)
NEXT_MODE = Command("next_mode", "shift+tab", "Shift+Tab", "Switch to the next mode", _next_mode)


# The turn and the program: cancel, stop, quit, look.


def _cancel(screen: ChatScreen) -> None:
    """Cancel the turn; the session stays open."""
    if screen.session.is_busy:
        screen.spawn(screen.session.cancel())
    else:
        screen.prompt.take_keyboard()


def _suspend(screen: ChatScreen) -> None:
    """Stop the program, as shells do."""
    screen.chat.save()
    screen.program.action_suspend_process()


def _switch_theme(screen: ChatScreen) -> None:
    screen.call_later(screen.program.run_action, "app.theme")


def _leave(screen: ChatScreen) -> None:
    """Quit; what is open is saved."""
    screen.program.exit(0)


CANCEL = Command("cancel", "escape", "Esc", "Cancel the turn; the session stays", _cancel)
THEME = Command("theme", "f9", "F9", "Switch between dark, light and high contrast", _switch_theme)
SUSPEND = Command("suspend", "ctrl+z", "Ctrl+Z", "Go back to the shell; `fg` returns", _suspend)
LEAVE = Command("leave", "ctrl+q", "Ctrl+Q", "Quit; sessions and drafts are kept", _leave)


# The prompts that wait, to edit or withdraw them; in a shared session also those of others.

_Entry: TypeAlias = QueuedPrompt | SharedPrompt


def _take_back(screen: ChatScreen) -> None:
    prompt = screen.session.queue.withdraw_last()
    if prompt is not None:
        screen.prompt.edit(prompt)
        screen.session_changed()


def _show_queue(screen: ChatScreen) -> None:
    session = screen.session
    choices = list(_prompt_choices(session))
    if not choices:
        screen.notify("No prompt is queued.")
        return

    def chosen(entry: _Entry | None) -> None:
        match entry:
            case QueuedPrompt():
                _edit(screen, session, entry)
            case SharedPrompt():
                _choose_shared(screen, session, entry)
            case None:
                pass

    hint = "Enter takes a prompt back, to edit or drop it · Esc leaves"
    screen.program.push_screen(PickScreen[_Entry]("Queued prompts", choices, hint), chosen)


def _prompt_choices(session: LiveSession) -> Iterator[Choice[_Entry]]:
    shared = session.link.shared
    if shared is not None:
        for prompt in shared.queue:
            by = "you" if shared.is_own(prompt) else prompt.by
            yield Choice(one_line(prompt.text, 200), prompt, f"{prompt.state} · {by}")
    for prompt in session.queue:
        yield Choice(_prompt_label(prompt), prompt)


def _edit(screen: ChatScreen, session: LiveSession, prompt: QueuedPrompt) -> None:
    taken = session.queue.withdraw(prompt.number)
    if taken is None:
        screen.notify("It was already sent.")
        return
    screen.prompt.edit(taken)
    screen.session_changed()


def _choose_shared(screen: ChatScreen, session: LiveSession, prompt: SharedPrompt) -> None:
    """Edit an own prompt that waits; ask before another one is withdrawn."""
    shared = session.link.shared
    if shared is not None and shared.is_own(prompt) and prompt.state == "queued":
        screen.spawn(_withdraw(screen, session, prompt, edit=session.sent))
        return

    def agreed(yes: bool | None) -> None:
        if yes:
            screen.spawn(_withdraw(screen, session, prompt, edit=None))

    does = "Cancel its turn" if prompt.state == "running" else "Withdraw it"
    choices = [Choice("Leave it", False), Choice(does, True)]
    title = f"{one_line(prompt.by, 30)}: {one_line(prompt.text, 40)}"
    screen.program.push_screen(PickScreen[bool](title, choices), agreed)


async def _withdraw(
    screen: ChatScreen, session: LiveSession, prompt: SharedPrompt, *, edit: QueuedPrompt | None
) -> None:
    shared = session.link.shared
    if shared is None:
        return
    try:
        await shared.withdraw(prompt.prompt_id)
    except AccordError as error:
        screen.notify(one_line(str(error)), severity="warning", markup=False)
        return
    if edit is not None:
        screen.prompt.edit(edit)
    screen.session_changed()


def _prompt_label(prompt: QueuedPrompt) -> str:
    count = len(prompt.images)
    images = "" if not count else "[1 image]" if count == 1 else f"[{count} images]"
    return " ".join(filter(None, [one_line(prompt.text, 200), images]))


# What is done with a prompt that is written while the agent works.


def _send(screen: ChatScreen, sending: Sending) -> None:
    screen.prompt.composer.submit(sending)


def _switch_enter(screen: ChatScreen) -> None:
    choices = screen.chat.choices
    try:
        choices.switch_enter()
    except OSError as error:
        screen.notify(f"Not kept: {error.strerror}", severity="warning", markup=False)
    does = "steers" if choices.enter == "steer" else "queues"
    screen.notify(f"While the agent works, Enter {does}.")
    screen.session_changed()


STEER = Command(
    "steer",
    "alt+s",
    "Alt+S",
    "Steer: say the prompt to the agent while it works",
    partial(_send, sending="steer"),
)
ENQUEUE = Command(
    "enqueue",
    "alt+q",
    "Alt+Q",
    "Queue the prompt until the turn has ended",
    partial(_send, sending="queue"),
)
CUT = Command(
    "cut",
    "alt+c",
    "Alt+C",
    "Cancel the turn, and continue with the prompt",
    partial(_send, sending="cancel"),
)
ENTER = Command(
    "enter",
    "alt+m",
    "Alt+M",
    "Switch what Enter does while the agent works: queue or steer",
    _switch_enter,
)
TAKE_BACK = Command("take_back", "alt+up", "Alt+Up", "Take the last queued prompt back", _take_back)
QUEUE = Command("queue", "f7", "F7", "Show the queued prompts; edit or withdraw one", _show_queue)


# Images of the prompt: pasted and removed.


def _paste(screen: ChatScreen) -> None:
    prompt = screen.prompt

    async def paste() -> None:
        problem = await prompt.paste_image()
        if problem:
            prompt.notify(f"{problem}.", severity="warning", markup=False)

    prompt.run_worker(paste())


def _remove(screen: ChatScreen) -> None:
    screen.prompt.remove_image()


PASTE_IMAGE = Command(
    "paste_image", "alt+v", "Alt+V", "Attach the image of the clipboard to the prompt", _paste
)
REMOVE_IMAGE = Command(
    "remove_image", "alt+x", "Alt+X", "Remove the image that was attached last", _remove
)


# Where the keyboard is: the question, the conversation or the prompt.


def _answer(screen: ChatScreen) -> None:
    screen.questions.take_keyboard()


def _conversation(screen: ChatScreen) -> None:
    pane = screen.file_pane
    if screen.conversation.has_focus and pane.has_class("open"):
        pane.query_one(FileView).focus()
    elif screen.conversation.has_focus or pane.has_focus_within:
        screen.prompt.take_keyboard()
    else:
        screen.set_focus(screen.conversation)  # before the next key, unlike `focus`


def _end(screen: ChatScreen) -> None:
    screen.follow()


ANSWER = Command("answer", "f10", "F10", "Answer the question of the agent", _answer)
CONVERSATION = Command(
    "transcript", "f6", "F6", "Go to the conversation, or back to the prompt", _conversation
)
END = Command("end", "ctrl+end", "Ctrl+End", "Go to the end of the conversation", _end)


# The remembered permissions, to forget one.


def _show_memory(screen: ChatScreen) -> None:
    memory = screen.chat.memory
    rules = memory.rules()
    if memory.problem is not None:
        screen.notify(printable(memory.problem), severity="error", markup=False)
        return
    if not rules:
        screen.notify("Nothing is remembered.")
        return
    choices = [Choice(f"{one.decision} {one.summary}", one, one.agent) for one in rules]

    def forget(rule: RememberedRule | None) -> None:
        if rule is None:
            return
        try:
            memory.forget(rule)
        except OSError as error:
            screen.notify(printable(str(error)), severity="error", markup=False)
        else:
            screen.notify(f"Forgotten: {rule.summary}", markup=False)

    hint = "Enter forgets · Esc leaves"
    picker = PickScreen[RememberedRule]("Remembered permissions", choices, hint)
    screen.program.push_screen(picker, forget)


MEMORY = Command(
    "memory", "alt+p", "Alt+P", "Show the remembered permissions, and forget one", _show_memory
)


# The changes of the session: their review, and the file in the user's editor.


def _review(screen: ChatScreen) -> None:
    session = screen.session
    if not session.reviewed_hunks():
        screen.notify("The agent has shown no changes of files.")
        return

    def reviewed(undone: list[str] | None) -> None:
        if undone:  # the agent does not know it
            screen.prompt.add(f"I have undone your changes at {', '.join(undone)}.")
        screen.session_changed()

    screen.program.push_screen(ReviewScreen(session), reviewed)


def _open_editor(screen: ChatScreen) -> None:
    call = screen.session.latest_call()
    screen.open_editor(None if call is None else location_of(call))


REVIEW = Command(
    "review", "f4", "F4", "Review the changes, hunk by hunk: accept or undo each", _review
)
EDITOR = Command(
    "editor",
    "alt+o",
    "Alt+O",
    "Open the file that the agent works on in your editor",
    _open_editor,
)


# The conversation as a file.


def _choose_format(screen: ChatScreen) -> None:
    session = screen.session

    def export(kind: Format | None) -> None:
        if kind is None:
            return
        title, cwd = session.title or "Chat", str(session.cwd)
        try:
            text = exported(kind, title, cwd, session.timeline.entries, session.transcript)
            path = write_export(session.cwd, kind, text, datetime.now())
        except OSError as error:
            screen.notify(f"Not written: {error.strerror}", severity="error", markup=False)
        else:
            screen.notify(f"Written: {path.name}", markup=False)

    choices: list[Choice[Format]] = [Choice(label, kind) for kind, label in FORMATS.items()]
    picker = PickScreen[Format]("Write the conversation to a file", choices)
    screen.program.push_screen(picker, export)


EXPORT = Command("export", "alt+e", "Alt+E", "Write the conversation to a file", _choose_format)


# Following the agent to the files that it works on.


def _follow(screen: ChatScreen) -> None:
    screen.file_pane.switch(screen.session)


FOLLOW_AGENT = Command(
    "follow_agent",
    "alt+w",
    FOLLOW_KEY,
    "Follow the agent: show the file that it works on, at the line",
    _follow,
)


# All plans of the agent, whole.


def _show_plan(screen: ChatScreen) -> None:
    plans = list(screen.session.transcript.plans.values())
    if plans:
        rows = [row for plan in plans for row in whole_plan_rows(plan)]
        screen.program.push_screen(ViewerScreen("Plan", rows))
    else:
        screen.notify("The agent has no plan.")


PLAN = Command("plan", "f5", "F5", "Show the whole plan", _show_plan)


# The subagents as a tree, to see what one does and to cancel it.


def _show_subagents(screen: ChatScreen) -> None:
    if screen.session.transcript.subagents:
        screen.program.push_screen(SubagentTree(screen.session))
    else:
        screen.notify("The agent has no subagents.")


SUBAGENTS = Command(
    "subagents",
    "alt+a",
    "Alt+A",
    "Show the subagents: what each does, and cancel one",
    _show_subagents,
)


# The messages of the protocol, and what the agent wrote to stderr.


def _show_traffic(screen: ChatScreen) -> None:
    screen.program.push_screen(TraceScreen(screen.chat.traffic, screen.session))


TRAFFIC = Command("traffic", "alt+t", "Alt+T", "Show the messages of the protocol", _show_traffic)


# The commands that show all commands.

Keys = Sequence[tuple[str, str]]  # a key, and what it does


def overview(commands: Sequence[Command], typing: Keys, reading: Keys) -> tuple[Command, Command]:
    """Return the commands that show all commands."""

    def show_keys(screen: ChatScreen) -> None:
        rows = _key_rows([help_command, palette, *commands], typing, reading)
        screen.program.push_screen(ViewerScreen("Keys", rows))

    def choose_command(screen: ChatScreen) -> None:
        choices = [
            Choice(command.summary, command, command.shown_key)
            for command in (help_command, *commands)
        ]

        def chosen(command: Command | None) -> None:
            if command is not None:
                screen.call_later(command.run, screen)

        screen.program.push_screen(PickScreen[Command]("Commands", choices), chosen)

    help_command = Command("help", "f1", "F1", "Show the keys", show_keys)
    palette = Command("palette", "ctrl+p", "Ctrl+P", "Find a command by its name", choose_command)
    return help_command, palette


def _key_rows(commands: Sequence[Command], typing: Keys, reading: Keys) -> Iterator[Row]:
    everywhere = [(command.shown_key, command.summary) for command in commands]
    groups = (
        ("While you type", typing),
        ("Everywhere", everywhere),
        ("In the conversation (F6)", reading),
    )
    for title, keys in groups:
        yield Row(title, "bold")
        for key, summary in keys:
            yield Row(summary, "", f"  {key:<12}", lead_style="cyan")
        yield Row("")


# The table.

TYPING_KEYS = (
    ("Enter", "Send; while the agent works, queue or steer, as you have chosen (Alt+M)"),
    ("Ctrl+J", "New line; Shift+Enter and Alt+Enter too, if the terminal tells them apart"),
    ("/", "Slash commands of the agent"),
    ("@", "Mention a file of the folder: its content is attached"),
    ("Tab", "Complete; if there is nothing to complete, answer the question of the agent"),
    (
        "Ctrl+V",
        "Attach the image of the clipboard, if the terminal passes the key on; else paste text",
    ),
    ("Up, Down", "Earlier prompts, from the first and the last line"),
    ("PgUp, PgDn", "Scroll the conversation"),
    ("Alt+Z", "Undo"),
    ("Ctrl+C", "Copy the selection, else cancel the turn"),
)
TRANSCRIPT_KEYS = (
    ("Up, Down", "Choose an entry"),
    ("Enter", "Open or fold a tool call or a thought; a click does it too"),
    ("v", "View all of an entry, or its images large; a click on an image does it too"),
    ("y", "Copy an entry"),
    ("o", "Open the file of a tool call in your editor, at the line"),
    ("Esc", "Back to the prompt"),
)
_FEATURES = (
    OPTIONS,
    NEXT_MODE,
    STORED_SESSIONS,
    ANSWER,
    REVIEW,
    MEMORY,
    EDITOR,
    FOLLOW_AGENT,
    SUBAGENTS,
    EXPORT,
    TRAFFIC,
    PLAN,
    CONVERSATION,
    CANCEL,
    STEER,
    ENQUEUE,
    CUT,
    ENTER,
    PASTE_IMAGE,
    REMOVE_IMAGE,
    TAKE_BACK,
    QUEUE,
    AGENTS,
    *TABS,
    END,
    THEME,
    SUSPEND,
    LEAVE,
)
COMMANDS: tuple[Command, ...] = (*overview(_FEATURES, TYPING_KEYS, TRANSCRIPT_KEYS), *_FEATURES)
