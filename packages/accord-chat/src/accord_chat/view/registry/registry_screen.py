"""The agents of a registry: search, and a look at one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from accord.errors import AccordError
from accord_chat.registry import load_registry
from accord_chat.view.pick_screen import no_match
from accord_chat.view.registry.install_screen import InstallScreen
from accord_chat.view.search_list import SearchField, SearchList
from accord_terminal.agents.installation import installable_kinds
from accord_terminal.agents.registry import Catalogue, Entry
from accord_terminal.toolkit.agent_names import InstalledAgent, load_installed
from accord_terminal.toolkit.text import one_line, printable


class RegistryScreen(SearchList[str]):
    """Returns the name of the agent to open a session of, None if the user leaves."""

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
