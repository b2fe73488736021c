"""Shows at a terminal which question of its prompt another client has answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accord.cli.ask.safe_text import one_line
from accord_sessions.entries import BY_RULE, NOT_ASKED, TURN_ENDED

__all__ = ("OthersAnswers",)


class OthersAnswers:
    """Serves `_accord/session/entry`."""

    def __init__(self, own_name: Callable[[], str], show: Callable[[str], None]) -> None:
        self._own_name = own_name
        self._show = show
        self._titles: dict[str, str] = {}

    def __call__(self, params: Mapping[str, Any]) -> None:
        """Take notice of an entry of the journal."""
        entry = params["entry"]
        match entry.get("kind"):
            case "asked":
                self._titles[entry["request"]] = entry["title"]
            case "answered":
                title = self._titles.pop(entry["request"], "")
                by = entry["by"]
                if by not in (self._own_name(), BY_RULE, NOT_ASKED, TURN_ENDED):
                    what = f" ({one_line(title, 60)})" if title else ""
                    self._show(f"answered by {one_line(by, 40)}: {one_line(entry['answer'])}{what}")
            case _:
                pass
