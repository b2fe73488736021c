"""Where a turn of `accord ask` is shown: at a terminal, in a pipe, or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import Form, Values, WebPage
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn

__all__ = ("LateScreen", "Screen")


class Screen(Protocol):
    """Where a turn is shown."""

    def wait(self, name: str) -> None:
        """The agent of this name is starting."""
        ...

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """The session is open."""
        ...

    async def ask(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide."""
        ...

    async def fill_in(self, form: Form) -> Values | None:
        """Let the user fill in a form; None when they decline."""
        ...

    async def visit(self, page: WebPage) -> bool:
        """Let the user open a page, or not."""
        ...

    def decline(self) -> bool:
        """Decline what the user is asked just now; tell whether there was something."""
        ...

    def show(self, event: Event) -> None:
        """Something happened."""
        ...

    def hear(self, line: str) -> None:
        """The agent wrote this line to stderr."""
        ...

    def cancelling(self) -> None:
        """The user cancels the turn."""
        ...

    def warn(self, message: str) -> None:
        """Something is not as the user expects."""
        ...

    def quit(self, turn: ClientTurn | None) -> None:
        """The user does not wait for the end."""
        ...

    def end(self, turn: ClientTurn) -> None:
        """The turn is over."""
        ...

    def fail(self, message: str, code: int | None) -> None:
        """It came to no end."""
        ...

    def close(self) -> None:
        """Leave everything tidy, whatever happened."""
        ...


class LateScreen:
    """The screen, which is imported when it is first needed."""

    def __init__(
        self,
        *,
        as_json: bool,
        quiet: bool = False,
        thoughts: bool = False,
        verbose: bool = False,
    ) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._thoughts = thoughts
        self._verbose = verbose
        self._made: Screen | None = None
        self._heard = ""  # before there was a screen

    def get(self) -> Screen:
        if self._made is None:
            if self._as_json:
                from accord.cli.json_lines import Lines

                self._made = Lines()
            elif self._quiet:
                from accord.cli.answer_only import Quiet

                self._made = Quiet()
            else:
                from accord.cli.rich_screen import Rendered

                self._made = Rendered(thoughts=self._thoughts, verbose=self._verbose)
        return self._made

    def wait(self, name: str) -> None:
        self.get().wait(name)
        if self._heard and not self._verbose:
            self.get().hear(self._heard)

    def hear(self, line: str) -> None:
        if self._made is not None or self._verbose:
            self.get().hear(line)
        self._heard = line

    async def fill_in(self, form: Form) -> Values | None:
        return await self.get().fill_in(form)

    async def visit(self, page: WebPage) -> bool:
        return await self.get().visit(page)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
