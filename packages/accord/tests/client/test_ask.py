"""`accord.ask` with a real agent process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import StartError, ask
from accord.client.permissions import allow

GREETER = [sys.executable, str(Path(__file__).with_name("greeter.py"))]
BOTH = pytest.mark.parametrize("versions", [(1,), (2,)], ids=["v1", "v2"])


@BOTH
def test_result_has_text_stop_reason_and_transcript(versions: Any) -> None:
    answer = ask(GREETER, "Hi", versions=versions)
    assert str(answer) == answer.text == "Hello! You wrote: Hi"
    assert answer.stop_reason == "end_turn"
    assert [message.role for message in answer.transcript.messages] == ["user", "agent"]


def test_permissions_are_decided_by_policies() -> None:
    assert ask(GREETER, "work", versions=(1,)).text == "refused"
    assert ask(GREETER, ["work"], versions=(2,), permissions=allow("edit")).text == "done"


async def test_ask_works_while_an_event_loop_runs() -> None:
    assert ask(GREETER, "Hi").text == "Hello! You wrote: Hi"


@BOTH
def test_timeout_cancels_the_turn_and_ends_the_agent(versions: Any) -> None:
    with pytest.raises(TimeoutError):
        ask(GREETER, "wait", timeout_s=0.5, versions=versions)


def test_agent_that_does_not_start_raises_an_error_with_the_reason() -> None:
    with pytest.raises(StartError, match="no-such-agent"):
        ask("no-such-agent --acp", "Hi")


async def test_errors_are_raised_from_the_thread() -> None:
    with pytest.raises(StartError):
        ask("no-such-agent --acp", "Hi")


# Reports its steps on stderr, and exits slowly, so that a second Ctrl-C has an effect.
WAITS = """
import asyncio, sys
from accord import Agent, Turn

class Waits(Agent):
    async def prompt(self, turn: Turn) -> None:
        try:
            print("begun", file=sys.stderr, flush=True)
            await asyncio.Event().wait()
        finally:
            print("cancelled", file=sys.stderr, flush=True)
            if turn.text == "stay":
                await asyncio.Event().wait()

Waits().run()
"""
ASKS = """
import asyncio, sys
import accord

def ask():
    heard = lambda line: print(line, flush=True)
    accord.ask([sys.executable, sys.argv[2]], sys.argv[1], on_stderr=heard)

async def main():
    ask()

try:
    asyncio.run(main()) if sys.argv[3] == "loop" else ask()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("loop", ["loop", "plain"])
@pytest.mark.parametrize("prompt", ["leave", "stay"])
def test_first_interrupt_cancels_the_turn_and_the_second_quits(
    prompt: str, loop: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(WAITS)
    (tmp_path / "asks.py").write_text(ASKS)
    words = [str(tmp_path / "asks.py"), prompt, str(tmp_path / "agent.py"), loop]
    command = [sys.executable, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "begun\n"
            asking.send_signal(signal.SIGINT)
            assert asking.stdout.readline() == "cancelled\n"
            if prompt == "stay":
                asking.send_signal(signal.SIGINT)
            # Otherwise it waits ten seconds for the agent to end the turn.
            rest, _ = asking.communicate(timeout=9)
        finally:
            asking.kill()
    assert rest.splitlines()[-1] == "interrupted"
    assert asking.returncode == 0
