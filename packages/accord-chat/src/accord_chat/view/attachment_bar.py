"""What is attached to the prompt, above it: one line for each image."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from accord_chat.model.attachments import Attachment
from accord_chat.model.pictures import size_text
from accord_terminal.toolkit.text import one_line


class _Line(Static):
    """One image; a click removes it."""

    def __init__(self, number: int, attachment: Attachment, *, is_last: bool) -> None:
        name, size = one_line(attachment.name, 60), size_text(len(attachment.data))
        keys = "Alt+X removes" if is_last else "click removes"
        super().__init__(Content(f"▣ {name} · {attachment.mime_type} · {size}  ✕ {keys}"))
        self._number = number

    def on_click(self, event: events.Click) -> None:
        """Remove the image."""
        event.stop()
        self.post_message(AttachmentBar.Removed(self._number))


class AttachmentBar(Vertical):
    """Shows the images; it has no height without one."""

    DEFAULT_CSS = """
    AttachmentBar {
        height: auto; max-height: 4; overflow-y: auto; padding: 0 1; color: $text-accent;
    }
    AttachmentBar _Line { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    class Removed(Message):
        """The user removes an image."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def show(self, attachments: Sequence[Attachment]) -> None:
        """Show these images."""
        last = len(attachments) - 1
        lines = [
            _Line(number, one, is_last=number == last) for number, one in enumerate(attachments)
        ]
        self.remove_children()
        self.mount_all(lines)
