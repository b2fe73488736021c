"""The turn and the program: cancel, stop, quit, look."""

from __future__ import annotations

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command


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
