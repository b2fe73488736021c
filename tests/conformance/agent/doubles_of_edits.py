"""Agents that break a rule of next edit suggestions."""

from __future__ import annotations

from conformance.agent.bent import Bend, Bent, Json
from conformance.agent.doubles import double


@double("R-NES-09", versions=(1,))
class SuggestsAfterTheClose(Bend):
    """Says that a session is closed, and goes on in it."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "nes/close":
            self.answer(message, {})
            return None
        return message


@double("R-NES-09", versions=(1,), seconds=1.0)
class LeavesOpenWhatWasAsked(Bend):
    """Never answers what had been asked for when the session was closed."""

    def __init__(self, way: Bent) -> None:
        super().__init__(way)
        self._wishes = 0

    def up(self, message: Json) -> Json | None:
        self._wishes += message.get("method") == "nes/suggest"
        return None if self._wishes == 3 and message["method"] == "nes/suggest" else message
