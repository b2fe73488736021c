"""The title of a tool call is a number."""

from __future__ import annotations

from correct import Agent


class Broken(Agent):
    def title(self) -> int:
        return 42


if __name__ == "__main__":
    Broken().run()
