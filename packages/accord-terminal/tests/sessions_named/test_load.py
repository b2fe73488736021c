"""Many sessions at once, many watchers of one, and a watcher that does not read."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import AsyncExitStack

import pytest

from accord_terminal.sessions import SharedSession, open_session
from sessions_named.machine import Machine, eventually

pytestmark = pytest.mark.slow

# With 20 sessions and 50 watchers the tests take a minute.
SESSIONS = int(os.environ.get("ACCORD_SESSION_COUNT", "3"))
WATCHERS = int(os.environ.get("ACCORD_SESSION_WATCHERS", "5"))


@pytest.mark.timeout(60 + 10 * SESSIONS)
def test_many_sessions_work_at_once(machine: Machine) -> None:
    calls = [
        machine.start("ask", "-s", f"many-{number}", "--agent", "script", f"echo {number}")
        for number in range(SESSIONS)
    ]
    answers = [call.communicate(timeout=60 + 5 * SESSIONS)[0] for call in calls]
    assert answers == [f"{number}\n" for number in range(SESSIONS)]
    eventually(lambda: len(machine.owners()) == SESSIONS)
    listed = machine.ok("session", "list")
    assert listed.count(" idle ") == SESSIONS


@pytest.mark.timeout(60 + 5 * WATCHERS)
async def test_many_clients_of_one_session_see_all(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    async with AsyncExitStack() as stack, asyncio.timeout(60 + 4 * WATCHERS):
        watching: list[SharedSession] = [
            await stack.enter_async_context(open_session("fix", client_name=f"watcher {number}"))
            for number in range(WATCHERS)
        ]
        assert len((await watching[0].status()).clients) == WATCHERS
        async with watching[0].session.prompt("stream 500 word") as turn:
            await turn.wait()
        expected = "word " * 500
        for watcher in watching:
            while watcher.session.transcript.text != expected:
                await asyncio.sleep(0.01)


def test_watcher_that_does_not_read_delays_no_other(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    owner = machine.owner()
    stopped = [
        machine.start("session", "watch", "-s", "fix", "--json"),  # nothing reads its output
        machine.start("session", "prompt", "-s", "fix", "wait forever"),
    ]
    machine.wait_started("wait forever")
    editor = subprocess.Popen(
        [*stopped[0].args[:3], "session", "attach", "fix"],  # type: ignore[index]  # a list
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    machine.started.append(editor)
    assert editor.stdin is not None
    assert editor.stdout is not None
    editor.stdin.write(
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
        '{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}\n'
    )
    editor.stdin.flush()
    while '"id":2' not in editor.stdout.readline():
        pass
    for process in (*stopped, editor):
        os.kill(process.pid, signal.SIGSTOP)
    machine.ok("session", "cancel", "-s", "fix")
    answer = machine.ok("session", "prompt", "-s", "fix", "--quiet", "stream 10000 word")
    assert answer.split() == ["word"] * 10000
    assert "accord session prompt" in machine.ok("session", "history", "-s", "fix", "--tail", "1")
    assert machine.owner() == owner
    for process in stopped:
        os.kill(process.pid, signal.SIGCONT)
    assert stopped[1].wait(30) == 130  # it was cancelled while it slept
