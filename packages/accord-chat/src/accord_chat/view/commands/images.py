"""Images of the prompt: pasted and removed."""

from __future__ import annotations

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command


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
