"""How long turns are waited for: less when none comes to an end."""

from __future__ import annotations

from accord_conformance.agent.settings import Settings

__all__ = ("TurnTimeout",)

_TRIES = 3


class TurnTimeout:
    """Waits for turns as long as the settings say, until a few have not ended and none has.

    The others get only the time of an answer then: an agent that ends no turn would otherwise
    cost the whole limit in every scenario.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._missed = 0
        self._any = False

    @property
    def seconds(self) -> float:
        """For the next turn."""
        lost = not self._any and self._missed >= _TRIES
        settings = self._settings
        return min(settings.timeout, settings.answer) if lost else settings.timeout

    def turn_ended(self) -> None:
        """A turn has ended."""
        self._any = True

    def turn_timed_out(self) -> None:
        """A turn has not ended in time."""
        self._missed += 1
