"""An agent that requires login: by a method of the agent, or by its command `login`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from accord import Agent, Turn
from accord.agent import AgentAuthMethod, AuthenticationMixin, TerminalAuthMethod

KEY = Path("key.txt")  # written by a login at the terminal


class Guarded(AuthenticationMixin, Agent):
    """Accepts prompts after a login."""

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
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at any moment
        answer = input("Password? ")
        if answer != "right":
            sys.exit("wrong password")
        KEY.write_text(answer)
        sys.exit()
    Guarded().run()
