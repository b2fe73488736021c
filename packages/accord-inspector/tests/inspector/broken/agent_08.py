"""Writes a line to stdout that is not a message."""

from __future__ import annotations

from correct import Agent


class Broken(Agent):
    def say(self, text: str) -> None:
        print("DEBUG: saying", text, flush=True)
        super().say(text)


if __name__ == "__main__":
    Broken().run()
