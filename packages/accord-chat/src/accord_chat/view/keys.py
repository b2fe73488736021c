"""Every command of the chat with its key: for the bindings, the help and the palette."""

from __future__ import annotations

from accord_chat.view.commands.agents import AGENTS
from accord_chat.view.commands.base import Command
from accord_chat.view.commands.changes import EDITOR, REVIEW
from accord_chat.view.commands.export import EXPORT
from accord_chat.view.commands.follow_agent import FOLLOW_AGENT
from accord_chat.view.commands.images import PASTE_IMAGE, REMOVE_IMAGE
from accord_chat.view.commands.keyboard import ANSWER, CONVERSATION, END
from accord_chat.view.commands.memory import MEMORY
from accord_chat.view.commands.options import NEXT_MODE, OPTIONS
from accord_chat.view.commands.overview import overview
from accord_chat.view.commands.plan import PLAN
from accord_chat.view.commands.program import CANCEL, LEAVE, SUSPEND, THEME
from accord_chat.view.commands.queue import QUEUE, TAKE_BACK
from accord_chat.view.commands.stored_sessions import STORED_SESSIONS
from accord_chat.view.commands.subagents import SUBAGENTS
from accord_chat.view.commands.tabs import TABS
from accord_chat.view.commands.traffic import TRAFFIC

TYPING_KEYS = (
    ("Enter", "Send; while the agent works, queue"),
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
