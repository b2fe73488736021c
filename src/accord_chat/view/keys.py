"""Every command of the chat with its key: for the bindings, the help and the palette."""

from __future__ import annotations

from msgspec import Struct

__all__ = ("COMMANDS", "TYPING_KEYS", "Command")


class Command(Struct, frozen=True):
    """Something that the user can do."""

    action: str  # `ChatApp.action_…`
    key: str  # as Textual names it
    shown_key: str
    summary: str


COMMANDS = (
    Command("help", "f1", "F1", "Show the keys"),
    Command("palette", "ctrl+p", "Ctrl+P", "Find a command by its name"),
    Command("options", "f2", "F2", "Choose the mode, the model and other options"),
    Command("next_mode", "shift+tab", "Shift+Tab", "Switch to the next mode"),
    Command("sessions", "f3", "F3", "Open an earlier session of the agent"),
    Command("answer", "f10", "F10", "Answer the question of the agent"),
    Command("review", "f4", "F4", "Review the changes, hunk by hunk: accept or undo each"),
    Command("memory", "alt+p", "Alt+P", "Show the remembered permissions, and forget one"),
    Command("editor", "alt+o", "Alt+O", "Open the file that the agent works on in your editor"),
    Command("subagents", "alt+a", "Alt+A", "Show the subagents, and what one has done"),
    Command("export", "alt+e", "Alt+E", "Write the conversation to a file"),
    Command("traffic", "alt+t", "Alt+T", "Show the messages of the protocol"),
    Command("plan", "f5", "F5", "Show the whole plan"),
    Command("transcript", "f6", "F6", "Go to the conversation, or back to the prompt"),
    Command("cancel", "escape", "Esc", "Cancel the turn; the session stays"),
    Command("take_back", "alt+up", "Alt+Up", "Take the last queued prompt back"),
    Command("queue", "f7", "F7", "Show the queued prompts; edit or withdraw one"),
    Command("new_session", "f8", "F8", "Open a new session, in a tab"),
    Command("step_tab(1)", "ctrl+pagedown", "Ctrl+PgDn", "Show the next session"),
    Command("step_tab(-1)", "ctrl+pageup", "Ctrl+PgUp", "Show the previous session"),
    Command("close_tab", "f12", "F12", "Close the session"),
    Command("end", "ctrl+end", "Ctrl+End", "Go to the end of the conversation"),
    Command("theme", "f9", "F9", "Switch between dark, light and high contrast"),
    Command("reconnect", "ctrl+r", "Ctrl+R", "Start the agent again after a failure"),
    Command("suspend", "ctrl+z", "Ctrl+Z", "Go back to the shell; `fg` returns"),
    Command("leave", "ctrl+q", "Ctrl+Q", "Quit; sessions and drafts are kept"),
)
TYPING_KEYS = (
    ("Enter", "Send; while the agent works, queue"),
    ("Ctrl+J", "New line; Shift+Enter and Alt+Enter too, if the terminal tells them apart"),
    ("/", "Slash commands of the agent"),
    ("@", "Mention a file of the folder: its content is attached"),
    ("Up, Down", "Earlier prompts, from the first and the last line"),
    ("PgUp, PgDn", "Scroll the conversation"),
    ("Alt+Z", "Undo"),
    ("Ctrl+C", "Copy the selection, else cancel the turn"),
)
TRANSCRIPT_KEYS = (
    ("Up, Down", "Choose an entry"),
    ("Enter", "Open or fold a tool call or a thought; a click does it too"),
    ("v", "View all of an entry"),
    ("y", "Copy an entry"),
    ("o", "Open the file of a tool call in your editor, at the line"),
    ("Esc", "Back to the prompt"),
)
