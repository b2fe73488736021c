"""An option of a permission request has an unknown kind."""

from __future__ import annotations

from correct import Agent, Message


class Broken(Agent):
    def options(self) -> list[Message]:
        return [{**option, "kind": "maybe"} for option in super().options()]


if __name__ == "__main__":
    Broken().run()
