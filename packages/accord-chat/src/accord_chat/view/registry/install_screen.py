"""One agent of a registry: who made it, what would be run, and its installation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from accord.errors import AccordError
from accord_chat.registry import Installing
from accord_chat.view.rows_view import RowsView
from accord_terminal.agents.installation import (
    Progress,
    install_steps,
    installable_kinds,
    source_text,
)
from accord_terminal.agents.registry import Catalogue, Entry, Kind
from accord_terminal.toolkit.agent_names import load_installed
from accord_terminal.toolkit.text import Row, one_line, printable

CANCEL_S = 2.0  # for an installation to end; its thread may wait for a silent server


class InstallScreen(ModalScreen["str | None"]):
    """Installs the agent if the user confirms it; returns its name to open a session of it."""

    DEFAULT_CSS = """
    InstallScreen { align: center middle; }
    InstallScreen > Vertical {
        width: 95%; max-width: 120; height: auto; max-height: 95%;
        border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    InstallScreen RowsView { height: auto; max-height: 70vh; margin-bottom: 1; }
    InstallScreen #state { height: auto; max-height: 8; }
    InstallScreen Horizontal { height: 1; margin-top: 1; }
    InstallScreen Button { min-width: 12; margin-right: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("left", "app.focus_previous", show=False),
    ]

    def __init__(self, catalogue: Catalogue, entry: Entry, own_names: frozenset[str]) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._entry = entry
        self._own_names = own_names
        self._installing: Installing | None = None

    def compose(self) -> ComposeResult:
        """Make the facts, the state and the buttons."""
        with Vertical() as box:
            box.border_title = Content(f"{self._entry.name} {self._entry.version}")
            box.border_subtitle = "← → choose · Enter presses · Esc leaves"
            yield RowsView(self._rows())
            yield Static(id="state")
            yield Horizontal()

    def on_mount(self) -> None:
        """Offer what can be done."""
        self.query_one(RowsView).can_focus = False
        self.run_worker(self._offer())

    async def _offer(self, *, opens: bool = False) -> None:
        """Show the buttons; the first one does nothing to this machine, or opens a session."""
        bar = self.query_one(Horizontal)
        await bar.remove_children()
        try:
            found = load_installed().get(self._entry.id)
        except AccordError as error:
            self._say(str(error), "bold red")
            found = None
        is_usable = found is not None and not found.is_blocked
        buttons = [Button("Back", id="back", compact=True)]
        if is_usable:
            buttons.append(Button("Open a session", id="open", variant="success", compact=True))
        if found is None or found.version != self._entry.version:
            word = "Install" if found is None else "Update"
            buttons += [
                Button(f"{word} ({kind})", id=kind, variant="primary", compact=True)
                for kind in self._kinds()
            ]
        await bar.mount(*buttons)
        bar.query_one("#open" if opens and is_usable else "#back", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Do what the button says."""
        event.stop()
        match event.button.id:
            case "open":
                self.dismiss(self._entry.id)
            case "binary" | "uvx" | "npx":
                self.run_worker(self._install(event.button.id), exclusive=True)
            case "cancel":
                self._cancel()
            case _:
                self.dismiss(None)

    def action_leave(self) -> None:
        """Cancel the installation; without one, go back."""
        if self._installing is not None:
            self._cancel()
        else:
            self.dismiss(None)

    async def on_unmount(self) -> None:
        """Cancel the installation."""
        if self._installing is not None:
            await self._installing.cancel(CANCEL_S)

    def _cancel(self) -> None:
        if self._installing is not None:
            self._say("Cancelling …", "yellow")
            self.run_worker(self._installing.cancel(CANCEL_S), group="cancel")

    async def _install(self, kind: Kind) -> None:
        bar = self.query_one(Horizontal)
        await bar.remove_children()
        button = Button("Cancel", id="cancel", compact=True)
        await bar.mount(button)
        button.focus()
        self._say(f"Installing {self._entry.id} …", "yellow")
        self._installing = Installing(self._catalogue, self._entry, kind, self._show_progress)
        try:
            done = await self._installing.run()
        except AccordError as error:
            self._installing = None
            self._say(str(error), "bold red")
            await self._offer()
        else:
            self._installing = None
            self._say(f"✓ Installed {self._entry.id} {done.version}", "bold green")
            await self._offer(opens=True)

    def _show_progress(self, progress: Progress) -> None:
        if self._installing is not None and not self._installing.is_cancelled:
            self._say(f"◐ {progress}", "yellow")

    def _kinds(self) -> list[Kind]:
        return [kind for kind, why in installable_kinds(self._entry).items() if why is None]

    def _rows(self) -> Iterator[Row]:
        entry = self._entry
        facts = [
            ("", entry.description),
            ("Name", entry.id),
            ("Authors", ", ".join(entry.authors)),
            ("License", entry.license or "not given"),
            ("Website", entry.website),
            *(("Warning", text) for text in entry.warnings),
        ]
        if entry.id in self._own_names:
            facts.append(("Note", "Your settings have an agent of this name: it goes first"))
        yield from (_row(name, text) for name, text in facts if text)
        for kind, why in installable_kinds(entry).items():
            yield Row("")
            if why is not None:
                yield Row(f"{kind}: {source_text(entry, kind)}", "dim")
                yield Row(f"cannot be installed here: {why}", "dim", "  ")
                continue
            yield Row(f"To install it as {kind}, and to start it:", "bold")
            yield from (_row(name, text) for name, text in install_steps(entry, kind))

    def _say(self, text: str, style: str) -> None:
        self.query_one("#state", Static).update(Text.assemble((printable(text), style)))


def _row(name: str, text: str) -> Row:
    return Row(one_line(text, 1000), "", f"  {name:<9}" if name else "", lead_style="cyan")
