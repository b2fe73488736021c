"""Every change of a session, hunk by hunk: accept it, or undo it in the file."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from accord_chat.live_session import LiveSession
from accord_chat.model.changes import Hunk, ReviewedHunk
from accord_chat.view.text_views import RowsView
from accord_terminal.toolkit.text import Row, one_line, printable, relative_path

WORDS = {
    "open": ("not decided", "bold"),
    "accepted": ("✓ accepted", "green"),
    "rejected": ("✗ rejected: the old text is back", "red"),
    "waiting": ("✗ rejected: undone as soon as the agent has made it", "yellow"),
    "conflict": ("! not undone", "bold red"),
}
STYLES = {"+": "green", "-": "red"}


class ReviewScreen(ModalScreen[list[str]]):
    """Shows one hunk at a time; returns the places of those that were undone."""

    DEFAULT_CSS = """
    ReviewScreen { align: center middle; }
    ReviewScreen > Vertical {
        width: 100%; height: 100%; border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    ReviewScreen RowsView { height: 1fr; }
    ReviewScreen #verdict { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "accept", show=False),
        Binding("x,r", "reject", show=False),
        Binding("A", "accept_file", show=False),
        Binding("X", "reject_file", show=False),
        Binding("right,n,tab", "step(1)", show=False, priority=True),
        Binding("left,p,shift+tab", "step(-1)", show=False, priority=True),
        Binding("o", "edit", show=False),
        Binding("escape,q", "leave", show=False),
    ]

    def __init__(self, session: LiveSession) -> None:
        super().__init__()
        self._session = session
        self._at = 0
        self._undone: list[str] = []
        hunks = session.reviewed_hunks()
        still_open = [n for n, one in enumerate(hunks) if one.verdict == "open"]
        self._at = still_open[0] if still_open else max(len(hunks) - 1, 0)

    def compose(self) -> ComposeResult:
        """Make the box."""
        with Vertical() as box:
            box.border_subtitle = "a accept · x reject · A X whole file · ← → others · o editor"
            yield RowsView()
            yield Static(id="verdict")

    def on_mount(self) -> None:
        """Show the first hunk that is not decided."""
        self._show()
        self.query_one(RowsView).focus()

    def _show(self) -> None:
        hunks = self._session.reviewed_hunks()
        self._at = min(self._at, len(hunks) - 1)
        one = hunks[self._at]
        path = one_line(relative_path(one.hunk.path, str(self._session.cwd)), 60)
        before = self._session.review.lines_before(one.hunk)
        title = f"{path}:{one.hunk.changed_line + before} · change {self._at + 1} of {len(hunks)}"
        self.query_one(Vertical).border_title = Content(title)
        self.query_one(RowsView).show_rows(_rows(one.hunk, before))
        words, style = WORDS[one.verdict]
        if one.verdict == "rejected" and one.hunk.kind == "created":
            words = "✗ rejected: the file is deleted"
        why = f": {one_line(one.why)}" if one.why else ""
        self.query_one("#verdict", Static).update(Text.assemble((words + why, style)))

    def _current(self) -> ReviewedHunk:
        return self._session.reviewed_hunks()[self._at]

    def action_step(self, step: int) -> None:
        """Show another hunk."""
        count = len(self._session.reviewed_hunks())
        self._at = min(max(self._at + step, 0), count - 1)
        self._show()

    def action_accept(self) -> None:
        """Accept this hunk, and go to the next one."""
        self._session.review.accept(self._current())
        self.action_step(1)

    def action_reject(self) -> None:
        """Undo this hunk."""
        self._reject(self._current())
        self._show()

    def action_accept_file(self) -> None:
        """Accept all open hunks of this file."""
        for one in self._open_in_file():
            self._session.review.accept(one)
        self._show()

    def action_reject_file(self) -> None:
        """Undo all open hunks of this file, the last change first."""
        for one in reversed(self._open_in_file()):
            self._reject(one)
        self._show()

    def _open_in_file(self) -> list[ReviewedHunk]:
        path = self._current().hunk.path
        return [
            one
            for one in self._session.reviewed_hunks()
            if one.hunk.path == path and one.verdict == "open"
        ]

    def _reject(self, one: ReviewedHunk) -> None:
        if one.verdict != "rejected" and self._session.review.reject(one) == "rejected":
            path = one_line(relative_path(one.hunk.path, str(self._session.cwd)), 200)
            self._undone.append(f"{path}:{self._session.review.changed_line(one.hunk)}")

    def action_edit(self) -> None:
        """Open the file at this hunk."""
        hunk = self._current().hunk
        self._session.wants_editor(hunk.path, self._session.review.changed_line(hunk))

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(self._undone)


def _rows(hunk: Hunk, lines_before: int) -> list[Row]:
    rows: list[Row] = []
    if hunk.kind != "changed":
        rows.append(Row(f"The file was {hunk.kind}.", "bold"))
    for line in hunk.lines:
        style = STYLES.get(line.sign, "")
        number = line.old if line.sign == "-" else line.new
        shown = "" if number is None else number + lines_before
        lead = f"{shown:>5} {line.sign} "
        rows.append(
            Row(printable(line.text), style, lead, lead_style=style or "dim", whole_words=False)
        )
    return rows
