"""The time limit of turns, which is reduced if no turn ends."""

from __future__ import annotations

from accord_conformance.agent.settings import Settings

_TRIES = 3


class TurnTimeout:
    """The time limit of the settings, until several turns have timed out and none has ended.

    Then the limit is that of other responses: otherwise an agent that ends no turn would take the
    whole limit in every scenario.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._missed = 0
        self._any = False

    @property
    def seconds(self) -> float:
        """The limit of the next turn."""
        is_reduced = not self._any and self._missed >= _TRIES
        settings = self._settings
        return min(settings.timeout, settings.answer) if is_reduced else settings.timeout

    def turn_ended(self) -> None:
        """Record that a turn has ended."""
        self._any = True

    def turn_timed_out(self) -> None:
        """Record that a turn has timed out."""
        self._missed += 1
