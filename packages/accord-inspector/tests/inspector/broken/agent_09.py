"""The response to a prompt has the id as a string."""

from __future__ import annotations

from typing import Any

from correct import Agent, Message


class Broken(Agent):
    def respond(self, number: Any, result: Message) -> None:
        super().respond(str(number) if "stopReason" in result else number, result)


if __name__ == "__main__":
    Broken().run()
