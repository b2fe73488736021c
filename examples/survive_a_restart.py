"""A client that continues its session after the server of its agent was killed.

Needs the extra `remote`. The agent keeps its sessions in a file, and `accord serve` serves it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import accord

TOKEN = "a token of the example, at least this long"


class Counts(accord.Agent):
    """Counts the prompts of a session."""

    store = accord.SqliteStore("sessions.db")

    async def prompt(self, turn: accord.Turn) -> None:
        questions = [each for each in await turn.history() if getattr(each, "role", "") == "user"]
        await turn.say(f"That is question {len(questions) + 1}.")


def start_server(port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "accord", "serve", f"{Path(__file__).stem}:Counts"]
    folder = str(Path(__file__).parent)
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        env={**os.environ, "ACCORD_TOKEN": TOKEN, "PYTHONPATH": folder},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Serving on")
    return process


def stop(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.communicate()


def show(change: accord.ConnectionChange) -> None:
    print(f"-- {change.state}")


async def ask(session: accord.ClientSession, question: str) -> None:
    try:
        async with session.prompt(question) as turn:
            await turn.wait()
    except accord.TurnInterrupted as error:
        print(f"-- {error}")
        if error.in_history is not False:
            raise  # the agent may have worked on it: decide yourself
        await ask(session, question)
    else:
        print(turn.text)


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reconnect = accord.Reconnect(attempts=50, wait_s=0.05, max_wait_s=0.2, on_change=show)
    url = f"ws://127.0.0.1:{port}"
    server = start_server(port)
    try:
        async with accord.connect(url, token=TOKEN, reconnect=reconnect) as agent:
            session = await agent.new_session(".")
            await ask(session, "What is ACP?")
            stop(server)
            server = start_server(port)
            await ask(session, "And what is it for?")
            assert session.transcript.text == "That is question 1.\n\nThat is question 2."
    finally:
        stop(server)


if __name__ == "__main__":
    asyncio.run(main())
