"""The subagents as a tree with their states, and the conversation of one of them while it grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from accord.client.events import StateChanged, Subagent
from accord.client.session import SessionView, SubagentSession
from accord.errors import AccordError
from accord_chat.live_session import LiveSession
from accord_chat.model.conversation import Timeline
from accord_chat.view.transcript_view import TranscriptView
from accord_terminal.toolkit.text import one_line

LOOK_S = 0.25
MAX_LEVELS = 8
CANNOT = (
    "The agent does not offer to cancel this subagent; Esc in the conversation cancels the turn."
)
_WORDS = {
    "running": ("◐", "working", "yellow"),
    "requires_action": ("?", "waits for you", "yellow"),
    "idle": ("●", "finished", "green"),
}
_ENDS = {"cancelled": ("⊘", "cancelled", "yellow"), "error": ("✗", "failed", "red")}


class _Branch(Struct, frozen=True):
    """A subagent in the tree."""

    subagent: Subagent
    view: SubagentSession
    level: int

    def text(self) -> Text:
        """Return the line of the tree."""
        sign, word, style = _state_words(self.subagent.state)
        title = one_line(self.subagent.title or self.subagent.id, 80)
        parts = [f"{'  ' * self.level}└ ", (f"{sign} {word}", style), f"  {title}"]
        if self.subagent.description:
            parts.append((f"  {one_line(self.subagent.description, 80)}", "dim"))
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _state_words(state: StateChanged | None) -> tuple[str, str, str]:
    """Return the sign, the word and the style of a state."""
    if state is None:
        return "·", "state unknown", "dim"
    if state.state == "idle" and state.stop_reason in _ENDS:
        return _ENDS[state.stop_reason]
    return _WORDS.get(state.state, ("·", one_line(state.state, 30), "dim"))


def _subagents_of(parent: SessionView, level: int = 0) -> Iterator[_Branch]:
    """Yield the subagents below a session, each before its own."""
    for child_id, child in parent.transcript.subagents.items():
        view = parent.subagent(child_id)
        yield _Branch(child, view, level)
        if level < MAX_LEVELS:
            yield from _subagents_of(view, level + 1)


async def _cancel(screen: ModalScreen[None], branch: _Branch) -> None:
    if not branch.subagent.cancellable:
        screen.notify(CANNOT, severity="warning")
        return
    try:
        await branch.view.cancel()
    except AccordError as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
    else:
        screen.notify("The agent was asked to cancel the subagent.")


class SubagentTree(ModalScreen[None]):
    """Shows the subagents of a session; Enter opens the conversation of one, c cancels it."""

    DEFAULT_CSS = """
    SubagentTree { align: center middle; }
    SubagentTree > Vertical {
        width: 100%; max-width: 120; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    SubagentTree OptionList, SubagentTree OptionList:focus {
        height: auto; max-height: 18; border: none; padding: 0; background: transparent;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        Binding("c", "cancel", show=False),
    ]

    def __init__(self, session: LiveSession) -> None:
        super().__init__()
        self._session = session
        self._branches: list[_Branch] = []

    def compose(self) -> ComposeResult:
        """Make the list."""
        with Vertical() as box:
            box.border_title = "Subagents"
            box.border_subtitle = "Enter opens · c cancels · Esc leaves"
            yield OptionList()

    def on_mount(self) -> None:
        """Show the tree, and look again and again."""
        self._look()
        self.query_one(OptionList).focus()
        self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        session = self._session.session
        branches = [] if session is None else list(_subagents_of(session))
        if [one.subagent for one in branches] == [one.subagent for one in self._branches]:
            return
        marked = self._marked()
        self._branches = branches
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(one.text()) for one in branches)
        ids = [one.subagent.id for one in branches]
        if ids:
            known = marked is not None and marked.subagent.id in ids
            options.highlighted = ids.index(marked.subagent.id) if marked and known else 0

    def _marked(self) -> _Branch | None:
        at = self.query_one(OptionList).highlighted
        return None if at is None or at >= len(self._branches) else self._branches[at]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the conversation of a subagent."""
        event.stop()
        branch = self._branches[event.option_index]
        self.app.push_screen(SubagentConversation(branch, self._session))  # pyright: ignore[reportUnknownMemberType]

    async def action_cancel(self) -> None:
        """Cancel the marked subagent, if the agent offers it."""
        branch = self._marked()
        if branch is not None:
            await _cancel(self, branch)

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)


class SubagentConversation(ModalScreen[None]):
    """Shows what a subagent says and does, also while it works."""

    DEFAULT_CSS = """
    SubagentConversation > Vertical {
        width: 100%; height: 100%; border: round $primary; background: $surface;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    SubagentConversation #state { height: 1; padding: 0 1; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False, priority=True),
        Binding("c", "cancel", show=False),
    ]

    def __init__(self, branch: _Branch, session: LiveSession) -> None:
        super().__init__()
        self._branch = branch
        self._session = session
        self._timeline = Timeline(branch.view.transcript)

    def compose(self) -> ComposeResult:
        """Make the state and the conversation."""
        with Vertical() as box:
            box.border_title = f"Subagent: {one_line(self._branch.subagent.title or '', 60)}"
            box.border_subtitle = "c cancels · Esc leaves"
            yield Static(id="state")
            yield TranscriptView()

    def on_mount(self) -> None:
        """Show the conversation, and follow it."""
        self._timeline.sync()
        view = self.query_one(TranscriptView)
        view.show(self._timeline, self._branch.view.cwd)
        view.focus()
        self._look()
        self.set_interval(LOOK_S, self._look)
        self.run_worker(self._watch(), exit_on_error=False)  # ends with this screen

    async def _watch(self) -> None:
        async with self._branch.view.events() as events:
            async for event in events:
                self._timeline.apply(event)

    def _look(self) -> None:
        session = self._session.session
        known = [] if session is None else list(_subagents_of(session))
        for branch in known:
            if branch.subagent.id == self._branch.subagent.id:
                self._branch = branch
        sign, word, style = _state_words(self._branch.subagent.state)
        text = Text(f"{sign} {word}", style)
        if not self._branch.subagent.cancellable:
            text.append(" · the agent does not offer to cancel it", "dim")
        self.query_one("#state", Static).update(text)
        self.query_one(TranscriptView).update_changed()

    async def action_cancel(self) -> None:
        """Cancel the subagent, if the agent offers it."""
        await _cancel(self, self._branch)

    def on_transcript_view_left(self, event: TranscriptView.Left) -> None:
        """Go back to the tree."""
        event.stop()
        self.dismiss(None)

    def action_leave(self) -> None:
        """Go back to the tree."""
        self.dismiss(None)
