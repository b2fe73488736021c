"""The registry of agents: a screen to search it, and one to look at an agent and install it.

What blocks runs in threads, which can be given up.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import ClassVar, TypeVar, cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from accord.errors import AccordError
from accord_chat.view.pick_screen import SearchField, SearchList, no_match
from accord_chat.view.text_views import RowsView
from accord_terminal.agents.installation import (
    Progress,
    install,
    install_steps,
    installable_kinds,
    note_quarantine,
    source_text,
)
from accord_terminal.agents.registry import (
    DEFAULT_REGISTRY,
    REGISTRY_VARIABLE,
    Catalogue,
    Entry,
    InstallError,
    Kind,
    load_catalogue,
)
from accord_terminal.toolkit.agent_names import InstalledAgent, load_installed
from accord_terminal.toolkit.text import Row, one_line, printable


class RegistryScreen(SearchList[str]):
    """Searches the agents; returns the name of the one to open a session of, None if left."""

    DEFAULT_CSS = """
    RegistryScreen { align: center middle; }
    RegistryScreen > Vertical {
        width: 95%; max-width: 120; height: 95%;
        border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    RegistryScreen Input { border: none; height: 1; padding: 0; background: $surface; }
    RegistryScreen #state { height: auto; max-height: 6; margin-bottom: 1; }
    RegistryScreen OptionList {
        height: 1fr; border: none; padding: 0; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    RegistryScreen #about { height: auto; max-height: 8; border-top: solid $panel; }
    """

    def __init__(self, address: str, words: str, own_names: frozenset[str]) -> None:
        super().__init__()
        self._address = address
        self._words = words
        self._own_names = own_names  # of agents in the settings, which go before installed ones
        self._catalogue: Catalogue | None = None
        self._installed: dict[str, InstalledAgent] = {}
        self._shown: list[Entry] = []

    def compose(self) -> ComposeResult:
        """Make the field, the list and what is known about the marked agent."""
        with Vertical() as box:
            box.border_title = "Agents of the registry"
            box.border_subtitle = "Enter shows what would be run · Esc leaves"
            yield SearchField(self._words, placeholder="Type to search", compact=True)
            yield Static(id="state")
            options = OptionList()
            options.can_focus = False
            yield options
            yield Static(id="about")

    def on_mount(self) -> None:
        """Load the registry."""
        self.is_loading = True
        self._say(f"Loading {self._address} …")
        self.run_worker(self._load(), exclusive=True)

    async def _load(self) -> None:
        try:
            catalogue = await load_registry(self._address)
            self._installed = load_installed()
        except AccordError as error:
            self._say(f"{error}\nYour own agents are not affected: Esc leaves.", "bold red")
            return
        self._catalogue = catalogue
        self._filter(self._words)
        self.load_ends()

    def search(self, query: str) -> None:
        """Show the agents that match."""
        self._filter(query)

    def choose(self, at: int) -> None:
        """Look at an agent."""
        self._look(at)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Say what is known about the marked agent."""
        event.stop()
        self._describe(event.option_index)

    def _look(self, at: int) -> None:
        if self._catalogue is None or at >= len(self._shown):
            return

        def looked(name: str | None) -> None:
            if name is not None:
                self.dismiss(name)
            else:
                self._filter(self.query_one(Input).value)  # it may be installed now

        app: App[int] = cast("App[int]", self.app)  # pyright: ignore[reportUnknownMemberType]
        app.push_screen(InstallScreen(self._catalogue, self._shown[at], self._own_names), looked)

    def _filter(self, query: str) -> None:
        catalogue = self._catalogue
        if catalogue is None:
            return
        try:
            self._installed = load_installed()
        except AccordError as error:
            self._say(str(error), "bold red")
            return
        words = query.casefold().split()
        self._shown = [
            entry
            for name, entry in sorted(catalogue.agents.items())
            if name not in catalogue.quarantine and all(word in _text(entry) for word in words)
        ]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(self._line(entry)) for entry in self._shown)
        if self._shown:
            options.highlighted = 0
        elif words:
            options.add_option(Option(no_match(query.strip()), disabled=True))
        self._describe(0)
        self._say("\n".join(self._states(catalogue)), "yellow" if catalogue.warnings else "dim")

    def _states(self, catalogue: Catalogue) -> Iterator[str]:
        blocked = sum(name in catalogue.quarantine for name in catalogue.agents)
        hidden = f" · {blocked} in quarantine not shown" if blocked else ""
        yield f"{len(self._shown)} of {len(catalogue.agents) - blocked} agents{hidden}"
        yield from (one_line(text, 200) for text in catalogue.warnings[:3])
        if len(catalogue.warnings) > 3:
            yield f"and {len(catalogue.warnings) - 3} more warnings: `accord agents search`"

    def _line(self, entry: Entry) -> Text:
        found = self._installed.get(entry.id)
        mark = "  " if found is None else "+ " if found.version == entry.version else "↑ "
        return Text.assemble(
            (mark, "green"),
            (f"{entry.id:<18} ", "bold"),
            (f"{entry.version:<12} ", "dim"),
            entry.description or entry.name,
            no_wrap=True,
            overflow="ellipsis",
        )

    def _describe(self, at: int) -> None:
        about = self.query_one("#about", Static)
        if at >= len(self._shown):
            about.update("")
            return
        entry = self._shown[at]
        kinds = installable_kinds(entry)
        how = ", ".join(kind if why is None else f"{kind} ({why})" for kind, why in kinds.items())
        found = self._installed.get(entry.id)
        facts = [
            f"License: {entry.license or 'not given'}",
            f"By {', '.join(entry.authors)}" if entry.authors else "",
            f"Installs as: {how}",
            f"Installed: {found.version} ({found.kind})" if found is not None else "",
        ]
        text = Text.assemble((f"{entry.name} {entry.version}\n", "bold"))
        text.append(f"{printable(entry.description)}\n")
        text.append(" · ".join(filter(None, facts)), "dim")
        about.update(text)

    def _say(self, text: str, style: str = "dim") -> None:
        self.query_one("#state", Static).update(Text.assemble((printable(text), style)))


def _text(entry: Entry) -> str:
    return f"{entry.id} {entry.name} {entry.description}".casefold()


CANCEL_S = 2.0  # for an installation to end; its thread may wait for a silent server


class InstallScreen(ModalScreen["str | None"]):
    """Shows who made an agent and what would be run, and installs it; returns its name to open."""

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


# Work in threads.

T = TypeVar("T")


def registry_address() -> str:
    """Return the registry of `accord agents`: ACCORD_REGISTRY, or the public one."""
    return os.environ.get(REGISTRY_VARIABLE) or DEFAULT_REGISTRY


async def load_registry(address: str) -> Catalogue:
    """Load a registry, or its last good copy; note which installed agents are in quarantine.

    Raises `RegistryError` if there is neither, and `InstallError` if it cannot be noted.
    """

    def load() -> Catalogue:
        catalogue = load_catalogue(address)
        note_quarantine(catalogue.url, catalogue.quarantine)
        return catalogue

    return await _in_thread(load)


class Installing:
    """The installation of one agent; when it is cancelled, everything is as it was."""

    def __init__(
        self,
        catalogue: Catalogue,
        entry: Entry,
        kind: Kind,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._work = (catalogue, entry, kind)
        self._on_progress = on_progress
        self.is_cancelled = False
        self._ended = asyncio.Event()

    async def run(self) -> InstalledAgent:
        """Install the agent. Raises `InstallError`, also if it is cancelled."""
        loop = asyncio.get_running_loop()

        def report(progress: Progress) -> None:  # in the thread
            if self.is_cancelled:
                raise InstallError("Cancelled: nothing was installed")
            with suppress(RuntimeError):  # the program has ended
                loop.call_soon_threadsafe(self._on_progress, progress)

        def work() -> InstalledAgent:
            try:
                return install(*self._work, on_progress=report)
            finally:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._ended.set)

        return await _in_thread(work)

    async def cancel(self, limit_s: float) -> None:
        """Stop, and wait some time for the end: a server may be silent."""
        self.is_cancelled = True
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._ended.wait()


async def _in_thread(work: Callable[[], T]) -> T:
    """Do something that blocks, in a thread that does not keep the program from ending."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]  # there is one without an error

    def run() -> None:
        value, failed = None, None
        try:
            value = work()
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            failed = error
        with suppress(RuntimeError):  # the program has ended
            loop.call_soon_threadsafe(settle, value, failed)

    threading.Thread(target=run, name="accord chat registry", daemon=True).start()
    return await result
