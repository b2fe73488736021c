"""An agent that logs and fails in the way that its first argument names."""

from __future__ import annotations

import logging
import os
import sys

from accord import Agent, RequestError, Session, Turn

HOW = sys.argv[1]


class Failing(Agent):
    async def open_session(self, session: Session) -> None:
        if HOW == "session":
            raise ZeroDivisionError("no session today")

    async def prompt(self, turn: Turn) -> None:
        if HOW == "turn":
            raise ZeroDivisionError("no turn today")
        if HOW == "request error":
            logging.getLogger("agent").warning("about to fail")
            raise RequestError("The model is overloaded", code=-32050)
        if HOW == "exit":
            sys.stderr.write("about to exit\n")
            sys.stderr.flush()
            os._exit(7)
        await turn.say("fine")


if __name__ == "__main__":
    if HOW == "start":
        raise ImportError("no module today")
    logging.basicConfig()
    Failing().run()
