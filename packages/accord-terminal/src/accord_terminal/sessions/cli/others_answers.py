"""Shows which question of the prompt another client has answered, or no client could answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accord_terminal.sessions.entries import BY_RULE, NOT_ASKED, TURN_ENDED
from accord_terminal.toolkit.text import one_line


class OthersAnswers:
    """Serves `_accord/session/entry`."""

    def __init__(self, own_name: Callable[[], str], show: Callable[[str], None]) -> None:
        self._own_name = own_name
        self._show = show
        self._asked: dict[str, Mapping[str, Any]] = {}

    def __call__(self, params: Mapping[str, Any]) -> None:
        """Take notice of an entry of the journal."""
        entry = params["entry"]
        match entry.get("kind"):
            case "asked":
                self._asked[entry["request"]] = entry
            case "answered":
                asked = self._asked.pop(entry["request"], None)
                if asked is not None:
                    self._answered(asked["what"], one_line(asked["title"], 60), entry)
            case _:
                pass

    def _answered(self, what: str, title: str, entry: Mapping[str, Any]) -> None:
        by = entry["by"]
        if by == NOT_ASKED:
            if what != "permission":  # these are reported at the end of the turn
                self._show(f"the agent asked for input, which no client could give: {title}")
        elif by not in (self._own_name(), BY_RULE, TURN_ENDED):
            self._show(f"answered by {one_line(by, 40)}: {one_line(entry['answer'])} ({title})")
