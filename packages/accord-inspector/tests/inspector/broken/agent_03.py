"""Answers each prompt twice."""

from __future__ import annotations

from typing import Any

from correct import Agent, Message


class Broken(Agent):
    def respond(self, number: Any, result: Message) -> None:
        super().respond(number, result)
        if "stopReason" in result:
            super().respond(number, result)


if __name__ == "__main__":
    Broken().run()
