"""The prompt with its list of completions, its attached images, earlier prompts and queued ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.message import Message as TextualMessage
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from accord.types.session import AvailableCommand
from accord_chat.live_session import LiveSession
from accord_chat.model.conversation import size_text
from accord_chat.model.prompts import (
    MAX_ATTACHED,
    Attachment,
    NoImage,
    QueuedPrompt,
    attached,
    best_matches,
    clipboard_image,
    mention_before,
    mention_text,
)
from accord_chat.model.saved import Choices
from accord_chat.view.composer import CompletionAction, Composer
from accord_terminal.toolkit.text import one_line

TAKES_NONE = "The agent takes no images"
LIST_S = 1.0  # for the files of the folder, before a key chooses one


class PromptArea(Vertical):
    """Writes the draft of one session at a time."""

    DEFAULT_CSS = """
    PromptArea { height: auto; }
    PromptArea #prompt { height: auto; border-top: solid $primary; }
    PromptArea #prompt { border-title-color: $text; border-title-style: bold; }
    PromptArea #prompt:focus-within { border-top: solid $accent; }
    PromptArea #mark { width: 2; color: $accent; text-style: bold; }
    """

    class Sent(TextualMessage):
        """A prompt was sent, queued or said."""

    class Left(TextualMessage):
        """The user goes to what is above: nothing can be completed."""

    class Edited(TextualMessage):
        """The draft has changed."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._choices = choices
        self._session: LiveSession | None = None
        self._recall_at: int | None = None  # of the earlier prompt that is shown
        self._listing: asyncio.Task[None] | None = None
        self._completed: object = None  # the text and the place that the list is for

    def compose(self) -> ComposeResult:
        """Make the list, and below it the prompt."""
        yield CompletionList()
        yield AttachmentBar()
        with Horizontal(id="prompt"):
            yield Static("❯", id="mark")
            yield Composer(self)

    @property
    def composer(self) -> Composer:
        """The field."""
        return self.query_one(Composer)

    @property
    def is_blank(self) -> bool:
        """Whether nothing is written or attached."""
        has_images = self._session is not None and self._session.attachments
        return not (self.composer.text.strip() or has_images)

    def show(self, session: LiveSession) -> None:
        """Go on with the draft of a session."""
        self._session = session
        self._recall_at = None
        self.composer.set_text(session.draft)
        self._show_attachments()

    def show_notice(self, text: str) -> None:
        """Show a text in the line above the prompt; an empty one removes it."""
        self.query_one("#prompt").border_title = Content(f" {one_line(text)} ") if text else None

    def take_keyboard(self) -> None:
        """Let the user type."""
        self.composer.focus()

    def edit(self, prompt: QueuedPrompt) -> None:
        """Put a queued prompt before the draft."""
        composer = self.composer
        composer.set_text("\n\n".join(filter(None, [prompt.text, composer.text])))
        composer.focus()
        self.attach(prompt.images)

    def add(self, text: str) -> None:
        """Put a line before the draft."""
        composer = self.composer
        composer.set_text(f"{text}\n{composer.text}")

    def on_unmount(self) -> None:
        """End the search for files."""
        if self._listing is not None:
            self._listing.cancel()

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Send the prompt if the agent is free; else queue it, or say it to the agent."""
        event.stop()
        text = event.text.strip()
        if self._session is None or not (text or self._session.attachments):
            return
        self.composer.last_key_s = float("-inf")  # nothing is being typed any more
        self._recall_at = None
        self._session.draft = ""
        images, self._session.attachments = self._session.attachments, []
        sending = self._choices.enter if event.sending is None else event.sending
        self._session.send(text, images, sending)
        self._show_attachments()
        self.post_message(self.Sent())

    # Images.

    def attach(self, images: Sequence[Attachment]) -> None:
        """Attach images to the draft."""
        session = self._session
        if session is None or not images:
            return
        if len(session.attachments) + len(images) > MAX_ATTACHED:
            self.notify(f"At most {MAX_ATTACHED} images can be attached.", severity="warning")
        session.attachments = [*session.attachments, *images][:MAX_ATTACHED]
        self._show_attachments()
        self.post_message(self.Edited())

    def remove_image(self, number: int = -1) -> None:
        """Remove an attached image, the last one if no number is given."""
        session = self._session
        if session is not None and session.attachments:
            del session.attachments[number]
            self._show_attachments()
            self.post_message(self.Edited())

    async def paste_image(self) -> str:
        """Attach the image of the clipboard; return why that is not possible."""
        session = self._session
        try:
            image = attached(await clipboard_image())
        except (NoImage, ValueError) as why:
            return str(why)
        if session is None or session.takes_images is False:
            return TAKES_NONE
        if session is self._session:  # not another one by now
            self.attach([image])
        return ""

    def _show_attachments(self) -> None:
        session = self._session
        if session is not None:
            self.query_one(AttachmentBar).show(session.attachments)

    def on_attachment_bar_removed(self, event: AttachmentBar.Removed) -> None:
        """Remove the image that was clicked."""
        event.stop()
        self.remove_image(event.number)

    def on_composer_emptied(self, event: Composer.Emptied) -> None:
        """Remove the last image."""
        event.stop()
        self.remove_image()

    def on_composer_dropped(self, event: Composer.Dropped) -> None:
        """Attach images that were dropped on the terminal."""
        event.stop()
        takes_none = self._session is not None and self._session.takes_images is False
        problem = TAKES_NONE if takes_none else event.problem
        if problem:
            self.composer.insert(event.text)
            self.notify(f"{problem}: the path was pasted.", severity="warning", markup=False)
        else:
            self.attach(event.images)

    def on_composer_pasting(self, event: Composer.Pasting) -> None:
        """Attach the image of the clipboard; without one, paste text."""
        event.stop()

        async def paste() -> None:
            if await self.paste_image():
                self.composer.paste_text()

        self.run_worker(paste())

    def on_composer_moved(self, event: Composer.Moved) -> None:
        """Complete what is being typed, and keep it."""
        event.stop()
        if self._session is None:
            return
        self._session.draft = self.composer.text
        self.post_message(self.Edited())
        if self._completed != self.composer.place:
            self._complete(self._session)

    async def catch_up(self) -> None:
        """Let the list be that of the text as it is now; wait a short time for its files."""
        session = self._session
        if session is None:
            return
        if self._completed != self.composer.place:
            self._complete(session)
        listing = self._listing
        if listing is None or listing.done():
            return
        if mention_before(self.composer.line_before_cursor) is not None:
            await asyncio.wait([listing], timeout=LIST_S)
            self._complete(session)

    def _complete(self, session: LiveSession) -> None:
        self._completed = self.composer.place
        line = self.composer.line_before_cursor
        is_listing = self._listing is not None and not self._listing.done()
        if "@" in line and not session.files.is_fresh and not is_listing:
            self._listing = asyncio.create_task(self._list_files(session))
        self._show_completions(
            completions_for(
                line,
                is_first_line=self.composer.cursor_location[0] == 0,
                commands=session.transcript.commands,
                paths=session.files.paths,
            )
        )

    async def _list_files(self, session: LiveSession) -> None:
        await asyncio.to_thread(session.files.refresh)
        if session is self._session:
            self._complete(session)

    def _show_completions(self, completions: Sequence[Completion]) -> None:
        shown = self.query_one(CompletionList)
        shown.show_completions(completions)
        self.composer.is_completing = shown.is_open
        self._mark_changed(shown.marked)

    def _mark_changed(self, marked: Completion | None) -> None:
        """Let Enter send the prompt if the marked completion would add nothing to it."""
        line = self.composer.line_before_cursor
        self.composer.enter_completes = (
            marked is None or line[marked.start :] != marked.text.rstrip()
        )

    def complete(self, action: CompletionAction, step: int = 0) -> None:
        """Move in the list of completions, choose one, close the list or open it."""
        shown = self.query_one(CompletionList)
        match action:
            case "accept":
                if shown.marked is not None:
                    self._insert(shown.marked)
            case "close":
                self._show_completions(())
            case "open":
                if self._session is not None:
                    self._complete(self._session)
                if not shown.is_open:
                    self.post_message(self.Left())
            case "move":
                shown.move(step)
                self._mark_changed(shown.marked)

    def on_completion_list_accepted(self, event: CompletionList.Accepted) -> None:
        """Put the completion that was clicked into the prompt."""
        event.stop()
        self._insert(event.completion)
        self.composer.focus()

    def _insert(self, completion: Completion) -> None:
        composer = self.composer
        composer.replace_before_cursor(completion.start, completion.text)
        self._completed = composer.place
        self._show_completions(())

    def on_composer_recalled(self, event: Composer.Recalled) -> None:
        """Put an earlier prompt into the field."""
        event.stop()
        if self._session is None:
            return
        earlier = self._session.timeline.prompts
        if self._recall_at is None:
            if event.step > 0 or not earlier or not self.is_blank:
                return
            self._recall_at = len(earlier)
        at = self._recall_at + event.step
        if at >= len(earlier):
            self._recall_at = None
            self.composer.set_text("")
        elif at >= 0:
            self._recall_at = at
            self.composer.set_text(earlier[at])


MAX_SHOWN = 50


class Completion(Struct, frozen=True):
    """What replaces the line from a column to the cursor."""

    start: int
    text: str
    label: str
    detail: str = ""


def completions_for(
    line: str, *, is_first_line: bool, commands: Sequence[AvailableCommand], paths: Sequence[str]
) -> list[Completion]:
    """Return the completions for the line up to the cursor, the best first."""
    if is_first_line and line.startswith("/") and " " not in line:
        known = {command.name: command for command in commands}
        names = best_matches(line[1:], known, MAX_SHOWN)
        return [Completion(0, f"/{name} ", f"/{name}", _about(known[name])) for name in names]
    mention = mention_before(line)
    if mention is None:
        return []
    found = best_matches(mention.query, paths, MAX_SHOWN)
    return [Completion(mention.start, f"{mention_text(path)} ", path) for path in found]


def _about(command: AvailableCommand) -> str:
    return f"{command.hint}: {command.description}" if command.hint else command.description


class CompletionList(OptionList, can_focus=False):
    """Shows completions; the prompt keeps the keyboard."""

    DEFAULT_CSS = """
    CompletionList {
        height: auto; max-height: 8; display: none;
        border: none; padding: 0 1; background: $panel;
    }
    CompletionList.open { display: block; }
    """

    class Accepted(Message):
        """A completion was clicked."""

        def __init__(self, completion: Completion) -> None:
            super().__init__()
            self.completion = completion

    def __init__(self) -> None:
        super().__init__(id="completions")
        self._completions: list[Completion] = []

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._completions)

    def show_completions(self, completions: Sequence[Completion]) -> None:
        """Show these, or nothing."""
        if list(completions) == self._completions:
            return
        self._completions = list(completions)
        self.clear_options()
        self.add_options(Option(_line(one)) for one in self._completions)
        self.set_class(bool(self._completions), "open")
        if self._completions:
            self.highlighted = 0

    def move(self, step: int) -> None:
        """Mark another one."""
        if self._completions:
            self.highlighted = ((self.highlighted or 0) + step) % len(self._completions)

    @property
    def marked(self) -> Completion | None:
        """The marked one."""
        at = self.highlighted
        return None if at is None or at >= len(self._completions) else self._completions[at]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose the one that was clicked."""
        event.stop()
        self.post_message(self.Accepted(self._completions[event.option_index]))


def _line(completion: Completion) -> Text:
    parts: list[str | tuple[str, str]] = [one_line(completion.label, 200)]
    if completion.detail:
        parts.append((f"  {one_line(completion.detail, 120)}", "dim"))
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


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
