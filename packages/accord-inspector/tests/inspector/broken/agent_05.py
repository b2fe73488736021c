"""The turn ends with a stop reason that the protocol does not define."""

from __future__ import annotations

from correct import Agent


class Broken(Agent):
    def stop_reason(self) -> str:
        return "done"


if __name__ == "__main__":
    Broken().run()
