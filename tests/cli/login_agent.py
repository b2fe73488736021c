"""An agent that wants a login: by itself, or by its own command `login` at the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from accord import Agent, Turn
from accord.agent import AgentAuthMethod, AuthenticationMixin, TerminalAuthMethod

KEY = Path("key.txt")  # what a login at the terminal leaves behind


class Guarded(AuthenticationMixin, Agent):
    """Works for those who have logged in."""

    auth_methods = (
        AgentAuthMethod("browser", "In the browser"),
        TerminalAuthMethod("terminal", "In a terminal", args=("login",), env={"LOGIN": "1"}),
    )
    key: str | None = None

    def is_logged_in(self) -> bool:
        return self.key is not None or KEY.exists()

    async def login(self, login_id: str) -> None:
        self.key = login_id

    async def logout(self) -> None:
        self.key = None

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Welcome by {self.key or 'password'}.")


if __name__ == "__main__":
    if sys.argv[1:] == ["login"]:
        answer = input("Password? ")
        if answer != "right":
            sys.exit("wrong password")
        KEY.write_text(answer)
        sys.exit()
    Guarded().run()
