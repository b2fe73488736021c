"""An update has the id of a session that does not exist."""

from __future__ import annotations

from correct import Agent


class Broken(Agent):
    def say(self, text: str) -> None:
        self.session = "session-2"
        super().say(text)
        self.session = "session-1"


if __name__ == "__main__":
    Broken().run()
