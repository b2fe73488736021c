"""The coding agent: what it offers, and what each of its sessions is set up with."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from accord import Agent, Info, __version__
from accord.coder.settings import Settings

if TYPE_CHECKING:
    from accord import Session, SessionStore, Turn
    from accord.coder.models.base import Model
    from accord.coder.rulebook import Trust
    from accord.coder.work import Work

# What answering `initialize` does without is imported later.

__all__ = ("Coder",)


class Coder(Agent):
    """Reads, writes and runs what the user wants, with a model of the user's choice."""

    info = Info("accord-coder", __version__, "Accord")
    prompt_content: ClassVar[frozenset[str]] = frozenset({"image", "audio", "resource"})

    def __init__(
        self,
        settings: Settings | None = None,
        store: SessionStore | None = None,
        *,
        model: Model | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.store = store
        self.model = model  # in place of the one that the settings name
        self._trust: Trust | None = None

    async def open_session(self, session: Session) -> None:
        """Offer modes and models; the conversation is read again when it is prompted."""
        from accord.coder.modes import mode_option
        from accord.coder.rulebook import Rulebook, Trust
        from accord.coder.work import Work

        data = self.settings.data
        if self._trust is None:
            self._trust = Trust(None if data is None else data / "rules")
        session.data["work"] = Work(session, self.settings, Rulebook(session.cwd, self._trust))
        await session.set_options([mode_option(self.settings.mode, bypass=self.settings.bypass)])

    async def prompt(self, turn: Turn) -> str | None:
        """Work on a prompt."""
        from accord.coder.tools.table import TOOLS
        from accord.coder.turns import take_turn

        work: Work = turn.session.data["work"]
        work.tools = {tool.name: tool for tool in TOOLS}
        return await take_turn(turn, work, await self._model(work), "")

    async def _model(self, work: Work) -> Model:
        """Return the model that the session has chosen, opened."""
        if self.model is not None:
            return self.model
        if work.model is None:
            from accord.coder.embedded.model import Embedded

            work.model = Embedded()
        return work.model
