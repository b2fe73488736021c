"""A tool call is completed that was never started."""

from __future__ import annotations

from correct import Agent


class Broken(Agent):
    def finished_call(self) -> str:
        return "call-7"


if __name__ == "__main__":
    Broken().run()
