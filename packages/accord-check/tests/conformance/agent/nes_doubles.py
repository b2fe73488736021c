"""Agents that violate a rule of next edit suggestions."""

from __future__ import annotations

from conformance.agent.filtered_agent import FilteredTransport, Json, MessageFilter
from conformance.agent.session_doubles import double


@double("R-NES-09", versions=(1,))
class SuggestsAfterTheClose(MessageFilter):
    """Closes a session and still sends suggestions."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "nes/close":
            self.answer(message, {})
            return None
        return message


@double("R-NES-09", versions=(1,), seconds=1.0)
class LeavesOpenWhatWasAsked(MessageFilter):
    """Never answers the requests that were open when the session was closed."""

    def __init__(self, way: FilteredTransport) -> None:
        super().__init__(way)
        self._wishes = 0

    def up(self, message: Json) -> Json | None:
        self._wishes += message.get("method") == "nes/suggest"
        return None if self._wishes == 3 and message["method"] == "nes/suggest" else message
