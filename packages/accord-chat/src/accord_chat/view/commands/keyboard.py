"""Where the keyboard is: the question, the conversation or the prompt."""

from __future__ import annotations

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.file_pane import FileView


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
