"""Runs a command by a method that the client has not offered."""

from __future__ import annotations

from correct import Agent


class Broken(Agent):
    def ask(self) -> None:
        self.call("terminal/create", {"sessionId": self.session, "command": "ls"})


if __name__ == "__main__":
    Broken().run()
