"""The screen: the layout of the chat with its keys, and what its parts report."""

from __future__ import annotations

import time
from itertools import islice
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from accord.client.events import ToolCall
from accord_chat.model.changes import location_of
from accord_chat.model.conversation import Entry, pictures_of
from accord_chat.view.bars import tab_line
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands import COMMANDS, NEXT_MODE
from accord_chat.view.composer import SENDING_KEYS, Composer
from accord_chat.view.entry_lines import entry_title, viewer_rows
from accord_chat.view.file_pane import FileView
from accord_chat.view.form_panel import FormPanel
from accord_chat.view.permission_panel import PermissionPanel
from accord_chat.view.picture_screen import PictureScreen
from accord_chat.view.prompt_area import PromptArea
from accord_chat.view.text_views import MAX_ROWS, ViewerScreen
from accord_chat.view.transcript_view import TranscriptView

_BY_NAME = {command.name: command for command in COMMANDS}


class MainScreen(ChatScreen):
    """Runs the commands, and connects the parts of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        *(
            Binding(
                command.key,
                f"run({command.name!r})",
                command.summary,
                show=False,
                # Escape is first of lists and questions; the others are not to overtake letters.
                priority=command.key not in ("escape", *SENDING_KEYS),
            )
            for command in COMMANDS
        ),
        *(Binding(f"alt+{n}", f"tab({n})", show=False, priority=True) for n in range(1, 10)),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Shift+Tab to forms."""
        return parameters != (NEXT_MODE.name,) or not any(
            form.has_focus_within for form in self.query(FormPanel)
        )

    def action_run(self, name: str) -> None:
        """Run a command."""
        _BY_NAME[name].run(self)

    def action_tab(self, number: int) -> None:
        """Show a session by its number."""
        if number <= len(self.chat.sessions):
            self.show_session(self.chat.sessions[number - 1])

    def action_interrupt(self) -> None:
        """Copy a selection; without one, cancel the turn, or clear the prompt.

        This key does not overtake the ones before it: it would clear a prompt that is being sent.
        """
        composer = self.prompt.composer
        composer.call_later(composer.call_later, self.prompt.call_later, self._interrupt)

    def _interrupt(self) -> None:
        composer = self.prompt.composer
        if selected := self.get_selected_text():
            self.program.copy_to_clipboard(selected)
            self.clear_selection()
            self.notify("Copied.", timeout=2)
        elif composer.has_focus and composer.selected_text:
            self.program.copy_to_clipboard(composer.selected_text)
        elif self.session.is_busy:
            self.action_run("cancel")
        elif composer.text:
            composer.set_text("")
        else:
            self.notify("Ctrl+Q quits.", timeout=3)

    def on_key(self, event: events.Key) -> None:
        """Remove a selection with Escape, and cancel nothing."""
        if event.key == "escape" and self.selections:
            event.stop()
            event.prevent_default()
            self.clear_selection()

    def on_click(self, event: events.Click) -> None:
        """Show the session whose tab was clicked, or the agents."""
        if event.widget is None or event.widget.id != "tabs":
            return
        chat = self.chat
        match tab_line(chat.sessions, chat.active, self.size.width).at(event.screen_x):
            case None:
                pass
            case "more":
                self.action_run("agents")
            case number:
                self.show_session(chat.sessions[number])

    # The question of the agent.

    def on_question_area_ended(self) -> None:
        """Go back to the prompt."""
        self.prompt.take_keyboard()

    def on_permission_panel_left(self, event: PermissionPanel.Left) -> None:
        """Go back to the prompt; the question stays."""
        event.stop()
        self.prompt.composer.last_key_s = float("inf")  # until the user wants to answer
        self.prompt.take_keyboard()

    def on_permission_panel_mistyped(self, event: PermissionPanel.Mistyped) -> None:
        """Go on with the prompt, since the user is typing; ask when the user has finished."""
        event.stop()
        composer = self.prompt.composer
        composer.insert(event.character)
        composer.last_key_s = time.monotonic()
        composer.focus()

    # The prompt.

    def on_prompt_area_left(self, event: PromptArea.Left) -> None:
        """Answer the question, if there is one."""
        event.stop()
        self.action_run("answer")

    def on_prompt_area_sent(self) -> None:
        """Follow the answer."""
        self.follow()
        self.save_soon()

    def on_prompt_area_edited(self) -> None:
        """Save the draft soon, and say what Enter does with it."""
        self.save_soon()
        if self.session.steered_turn is not None:
            self.session_changed()

    def on_composer_scrolled(self, event: Composer.Scrolled) -> None:
        """Scroll the conversation."""
        event.stop()
        view = self.conversation
        view.scroll_relative(y=event.pages * max(view.size.height - 2, 1), animate=False)

    # The file that the agent works on.

    def on_file_view_left(self, event: FileView.Left) -> None:
        """Go back to the prompt."""
        event.stop()
        self.prompt.take_keyboard()

    def on_file_view_editor_wanted(self, event: FileView.EditorWanted) -> None:
        """Open the file in the user's editor, at the line."""
        event.stop()
        file = self.file_pane.file
        self.open_editor(None if file is None else (file.place.path, file.place.line))

    # The conversation.

    def on_transcript_view_left(self, event: TranscriptView.Left) -> None:
        """Go back to the prompt, with what is already typed."""
        event.stop()
        if event.text:
            self.prompt.composer.insert(event.text)
        self.prompt.take_keyboard()

    def on_transcript_view_moved(self, event: TranscriptView.Moved) -> None:
        """Show how much is below."""
        event.stop()
        self.session_changed()

    def on_transcript_view_chosen(self, event: TranscriptView.Chosen) -> None:
        """View or copy an entry, or open its file."""
        event.stop()
        if event.action == "edit":
            content = event.entry.content
            self.open_editor(location_of(content) if isinstance(content, ToolCall) else None)
            return
        if event.action == "view":
            self._view(event.entry, event.picture)
        else:
            rows = viewer_rows(event.entry, str(self.session.cwd))
            self.program.copy_to_clipboard("\n".join(row.plain for row in rows))
            self.notify("Copied.", timeout=2)

    def _view(self, entry: Entry, picture: int) -> None:
        """Show the images of an entry; if there are none, or the user wants it, its text."""
        rows = list(islice(viewer_rows(entry, str(self.session.cwd)), MAX_ROWS + 1))

        def show_text(wanted: bool | None) -> None:
            if wanted:
                self.program.push_screen(ViewerScreen(entry_title(entry), rows))

        pictures = pictures_of(entry)
        if not pictures:
            show_text(True)
            return
        has_text = any(row.text.strip() for row in rows)
        screen = PictureScreen(
            pictures, picture, self.session.cwd, self.terminal, has_text=has_text
        )
        self.program.push_screen(screen, show_text)
