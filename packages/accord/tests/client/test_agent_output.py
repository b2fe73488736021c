"""Errors of an agent's process have the last lines that it wrote; those of other agents do not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from accord import (
    AccordError,
    Agent,
    ClientTurn,
    ConnectionLost,
    InternalError,
    RequestError,
    StartError,
    Turn,
    ask,
    connect,
    serve,
)
from accord.transports.memory import pair
from versions import only

PROGRAM = str(Path(__file__).with_name("failing.py"))
BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


def failing(how: str) -> list[str]:
    return [sys.executable, PROGRAM, how]


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


async def finish(turn: ClientTurn) -> None:
    async with turn:
        pass


async def finish_by_iterating(turn: ClientTurn) -> None:
    async with turn:
        async for _ in turn:
            pass


# How the agent fails, the error of the client, and the last line on stderr; the first and the last
# are the same in both versions.
FAILURES = [
    ("start", ConnectionLost, "ImportError: no module today"),
    ("session", InternalError, "ZeroDivisionError: no session today"),
    ("turn", InternalError, "ZeroDivisionError: no turn today"),
    ("request error", RequestError, "WARNING:agent:about to fail"),
    ("exit", ConnectionLost, "about to exit"),
]


@pytest.mark.parametrize(
    ("how", "kind", "line", "version"),
    [(*failure, version) for version in (1, 2) for failure in FAILURES[version - 1 : 3 + version]],
)
def test_error_of_ask_has_the_last_lines_of_stderr(
    how: str, kind: type[AccordError], line: str, version: int
) -> None:
    with pytest.raises(kind) as caught:
        ask(failing(how), "Hi", versions=only(version))
    error = caught.value
    assert error.stderr is not None
    assert line in error.stderr.split("\n")
    assert line in notes(error)
    assert notes(error).count(line) == 1
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("version", "iterates"), [(1, True), (2, False)], ids=["iterated", "waited"]
)
async def test_error_of_a_turn_has_the_lines_once_however_it_is_raised(
    version: int, iterates: bool
) -> None:
    async with connect(failing("turn"), versions=only(version)) as agent:
        session = await agent.new_session()
        for _ in range(2):
            turn = session.prompt("Hi")
            with pytest.raises(InternalError) as caught:
                await (finish_by_iterating if iterates else finish)(turn)
            assert "no turn today" in (caught.value.stderr or "")
            assert len(caught.value.__notes__) == 1
            assert turn.error is caught.value


async def test_lost_connection_has_the_lines_once_in_every_call_that_fails() -> None:
    async with connect(failing("exit")) as agent:
        session = await agent.new_session()
        errors: list[ConnectionLost] = []
        for prompt in ("Hi", "Hi again"):
            with pytest.raises(ConnectionLost) as caught:
                async with session.prompt(prompt):
                    pass
            errors.append(caught.value)
        with pytest.raises(ConnectionLost) as caught:
            await agent.new_session()
        errors.append(caught.value)
        for error in errors:
            assert error.exit_status == 7
            assert error.stderr == "about to exit"
            assert error.__notes__ == ["The last lines of the agent's stderr:\n  about to exit"]


def test_time_out_of_the_start_says_what_it_waited_for_and_has_the_lines() -> None:
    hangs = ["sh", "-c", "echo waiting for a login >&2; exec sleep 1000"]
    with pytest.raises(TimeoutError, match="did not respond to `initialize` within 1 s") as caught:
        ask(hangs, "Hi", initialize_timeout_s=1)
    assert "waiting for a login" in notes(caught.value)


async def test_lines_are_not_added_if_the_caller_receives_them() -> None:
    lines: list[str] = []
    async with connect(failing("turn"), on_stderr=lines.append) as agent:
        session = await agent.new_session()
        with pytest.raises(InternalError) as caught:
            async with session.prompt("Hi"):
                pass
    assert caught.value.stderr is None
    assert notes(caught.value) == ""
    assert "ZeroDivisionError: no turn today" in lines


@BOTH
async def test_agent_that_is_not_a_process_has_no_lines(version: int) -> None:
    class Raising(Agent):
        async def prompt(self, turn: Turn) -> None:
            raise ZeroDivisionError

    here, there = pair()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(Raising(), there))
        async with connect(here, versions=only(version)) as agent:
            session = await agent.new_session()
            with pytest.raises(InternalError) as caught:
                async with session.prompt("Hi"):
                    pass
    assert caught.value.stderr is None
    assert notes(caught.value) == ""


# What a plain program shows.


def test_program_that_does_not_start_has_no_lines() -> None:
    with pytest.raises(StartError) as caught:
        ask("no-such-agent", "Hi")
    assert caught.value.stderr is None


@pytest.mark.parametrize(
    ("how", "version"),
    [
        ("start", 1),
        ("session", 2),
        ("turn", 1),
        ("turn", 2),
        ("exit", 2),
        ("nothing", 1),
    ],
)
def test_traceback_of_a_plain_program_has_one_error(how: str, version: int, tmp_path: Path) -> None:
    command = failing(how) if how != "nothing" else ["no-such-agent"]
    program = tmp_path / "program.py"
    program.write_text(f"import accord\naccord.ask({command!r}, 'Hi', versions=({version},))")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    # The traceback of the agent, in the note, is indented.
    assert [line for line in done.stderr.split("\n") if line.startswith("Traceback")] == [
        "Traceback (most recent call last):"
    ]
    assert "During handling" not in done.stderr.split("The last lines")[0]
    assert "no running event loop" not in done.stderr


async def test_error_of_ask_in_a_running_loop_has_no_context() -> None:
    with pytest.raises(InternalError) as caught:
        ask(failing("turn"), "Hi")
    text: Any = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in text.split("The last lines")[0]
    assert "no turn today" in notes(caught.value)
