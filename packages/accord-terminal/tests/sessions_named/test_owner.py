"""The owner process: one for each session, visible deaths, and nothing lost that was shown."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

import accord
from accord_terminal.sessions import open_session
from accord_terminal.sessions.journal import Ended, OwnerStarted
from accord_terminal.sessions.records import (
    SOCKET_BYTES,
    OwnerError,
    StoreError,
    is_locked,
    socket_path,
)
from needs import needs
from requirement import requirement
from sessions_named.machine import Machine, eventually, hold_lock

pytestmark = pytest.mark.slow

# The full numbers of rounds are 200 and 100; they take minutes.
RACES = int(os.environ.get("ACCORD_SESSION_RACES", "2"))
KILLS = int(os.environ.get("ACCORD_SESSION_KILLS", "2"))


@requirement("R-NAMED-03")
@pytest.mark.timeout(60 + 10 * RACES)
def test_two_first_calls_at_once_give_one_owner(machine: Machine) -> None:
    for number in range(RACES):
        name = f"race-{number}"
        calls = [
            machine.start("ask", "-s", name, "--agent", "script", f"echo {word}")
            for word in ("left", "right")
        ]
        shown = {call.communicate(timeout=60)[0] for call in calls}
        assert shown == {"left\n", "right\n"}
        assert len([record for record in machine.store if record.name == name]) == 1
        starts = [e for e in machine.entries(name) if isinstance(e, OwnerStarted)]
        assert len(starts) == 1
        assert machine.owner() == starts[0].pid
        machine.ok("session", "close", "-s", name)


@requirement("R-NAMED-05")
@pytest.mark.timeout(60 + 20 * KILLS)
def test_killed_owner_loses_nothing_that_was_shown(machine: Machine) -> None:
    chance = random.Random(KILLS)
    in_turn = 0
    for number in range(KILLS):
        protocol = "1" if number % 2 else "2"
        name = f"kill-{number}"
        machine.ok("session", "new", "-s", name, "--agent", "script", "--protocol", protocol)
        call = machine.start("session", "prompt", "-s", name, "--json", "stream 600000 word ")
        assert call.stdout is not None
        shown = ""
        first = call.stdout.readline()  # the turn has begun
        until = time.monotonic() + 0.2 * chance.random()
        lines = [first]
        while time.monotonic() < until and (line := call.stdout.readline()):
            lines.append(line)
        owner = machine.owner()
        os.kill(owner, signal.SIGKILL)
        rest, errors = call.communicate(timeout=30)
        for line in "".join((*lines, rest)).splitlines():
            with suppress(json.JSONDecodeError):  # the last line may be cut
                event = json.loads(line)
                if event.get("event") == "text":
                    shown += event["text"]
        journal = "".join(machine.texts(name))
        assert journal.startswith(shown)
        if call.returncode != 0:  # else the turn had ended before
            in_turn += 1
            assert call.returncode == 1
            assert f"owner of the session {name} has ended" in errors
        assert machine.ok("session", "prompt", "-s", name, "echo on") == "on\n"
        machine.ok("session", "close", "-s", name)
    assert in_turn > 0
    print(f"{in_turn} of {KILLS} in a turn")


@requirement("R-NAMED-05")
@pytest.mark.parametrize("protocol", ["1", "2"])
@needs("accord_coder")
def test_next_call_restores_the_session_if_the_agent_can(machine: Machine, protocol: str) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "accord", "--protocol", protocol)
    machine.ok("session", "prompt", "-s", "fix", "help")
    agent_session = machine.record().agent_session
    owner = machine.owner()
    os.kill(owner, signal.SIGKILL)
    ended = machine.run("session", "prompt", "-s", "fix", "help")
    assert (ended.returncode, "context is new" in ended.stderr) == (0, False)
    assert machine.record().restored == "resumed"
    assert machine.record().agent_session == agent_session


@requirement("R-NAMED-05")
def test_next_call_says_once_that_the_context_is_new(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "echo one")
    owner = machine.owner()
    os.kill(owner, signal.SIGKILL)
    said = [machine.run("session", "prompt", "-s", "fix", "echo x").stderr for _ in range(2)]
    assert ["context is new" in text for text in said] == [True, False]


@requirement("R-NAMED-05")
@pytest.mark.parametrize("of_agent", [1, 2])
async def test_late_clients_see_the_turns_before_and_after_a_lost_context(
    machine: Machine, of_agent: int
) -> None:
    """The agent counts its messages and tool calls from the beginning each time it starts."""
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", str(of_agent))
    expected: list[tuple[str, str]] = []
    for text in ("one", "two"):
        machine.ok("session", "prompt", "-s", "fix", f"echo {text}")
        machine.ok("session", "prompt", "-s", "fix", "--yes", "permission")
        os.kill(machine.owner(), signal.SIGKILL)
        expected += [("user", f"echo {text}"), ("agent", text)]
        expected += [("user", "permission"), ("agent", "1 of 1 allowed.")]
    command = [sys.executable, "-m", "accord", "session", "attach", "fix"]
    versions: tuple[Any, ...] = (1, 2)
    for of_client in versions:
        async with (
            accord.connect(command, versions=(of_client,)) as agent,
            asyncio.timeout(60),
        ):
            session = await agent.load_session(machine.record().id, machine.work)
            async with session.prompt(f"echo for {of_client}") as turn:
                assert await turn.wait() == "end_turn"
            texts = [(item.role, item.text) for item in session.transcript.messages]
            tools = [call.title for call in session.transcript.tool_calls]
        expected += [("user", f"echo for {of_client}"), ("agent", f"for {of_client}")]
        assert texts == expected
        assert tools == ["Do thing 1"] * 2


@requirement("R-NAMED-05")
def test_context_is_new_if_the_owner_died_in_the_first_turn(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    waiting = machine.start("session", "prompt", "-s", "fix", "wait forever")
    machine.wait_started("wait forever")
    owner = machine.owner()
    os.kill(owner, signal.SIGKILL)
    waiting.communicate(timeout=30)
    ended = machine.run("session", "prompt", "-s", "fix", "echo x")
    assert "context is new" in ended.stderr


@requirement("R-NAMED-05")
def test_prompts_that_no_call_waits_for_survive_the_owner(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    waiting = machine.start("session", "prompt", "-s", "fix", "wait forever")
    machine.wait_started("wait forever")
    machine.ok("session", "prompt", "-s", "fix", "--no-wait", "echo kept")
    queued = machine.start("session", "prompt", "-s", "fix", "echo lost")
    eventually(lambda: any(getattr(e, "text", "") == "echo lost" for e in machine.entries()))
    owner = machine.owner()
    os.kill(owner, signal.SIGKILL)
    for call in (waiting, queued):
        call.communicate(timeout=30)
        assert call.returncode == 1
    machine.ok("session", "prompt", "-s", "fix", "echo new")
    assert machine.texts() == ["kept", "new"]


def test_agent_that_exits_fails_the_turn_and_the_next_call_starts_it(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    ended = machine.run("session", "prompt", "-s", "fix", "exit 3")
    assert ended.returncode == 1
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"


@requirement("R-NAMED-02")
def test_stale_socket_and_lock_of_a_dead_owner_do_not_matter(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    path = socket_path(machine.record().id)
    owner = machine.owner()
    os.kill(owner, signal.SIGKILL)
    eventually(lambda: not is_locked(path.with_suffix(".lock")))
    assert path.exists()  # left by the owner
    assert path.with_suffix(".lock").exists()
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"
    assert machine.owner()


@requirement("R-NAMED-02")
async def test_call_waits_for_the_holder_of_the_lock(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "close", "-s", "fix")
    record = machine.record()
    machine.store.change(record.id, closed=False)
    held = hold_lock(socket_path(record.id).with_suffix(".lock"))
    with monkeypatch.context() as patched:
        patched.setattr("accord_terminal.sessions.owners._START_S", 0.5)
        with pytest.raises(OwnerError, match="does not accept connections"):
            async with open_session("fix"):
                pass
    os.close(held)
    async with open_session("fix") as shared:
        assert shared.agent.info.name == "accord-script"


@requirement("R-NAMED-06")
def test_only_the_user_can_reach_the_files(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    path = socket_path(machine.record().id)
    assert len(os.fsencode(path)) <= SOCKET_BYTES
    assert path.is_relative_to(os.environ["XDG_RUNTIME_DIR"])
    files = [path, path.with_suffix(".lock"), *machine.store.folder.iterdir()]
    assert len(files) >= 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    folders = (path.parent, machine.store.folder)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


@requirement("R-NAMED-06")
def test_long_runtime_folder_is_not_used(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    long = machine.base / ("x" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    path = socket_path("s-1")
    assert len(os.fsencode(path)) <= SOCKET_BYTES
    assert not path.is_relative_to(long)


@requirement("R-NAMED-06")
def test_folder_that_others_made_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.base / "run" / "accord").symlink_to(machine.work)
    with pytest.raises(StoreError, match="a link"):
        socket_path("s-1")


@requirement("R-NAMED-06")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_owner_and_client_refuse_another_user(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    path = socket_path(machine.record().id)
    for folder in (machine.base, path.parent.parent, path.parent):
        folder.chmod(0o755)
    path.chmod(0o666)  # the modes alone would let the other user in
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.settimeout(10); s.connect(sys.argv[1]); print(len(s.recv(10)))"
    )
    ended = machine.run_program([sys.executable, "-c", code, str(path)])
    assert ended.stdout == "0\n" or "ConnectionReset" in ended.stderr
    machine.ok("session", "prompt", "-s", "fix", "echo still")


@requirement("R-NAMED-06")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
async def test_client_refuses_the_socket_of_another_user(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "close", "-s", "fix")
    record = machine.record()
    machine.store.change(record.id, closed=False)
    path = socket_path(record.id)
    for folder in (machine.base, path.parent.parent, path.parent):
        folder.chmod(0o777)
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.bind(sys.argv[1]); s.listen(); print('up', flush=True); sys.stdin.read()"
    )
    other = machine.start_program([sys.executable, "-c", code, str(path)])
    assert other.stdout is not None
    assert other.stdout.readline() == "up\n"
    with pytest.raises(OwnerError, match="Another user's"):
        async with open_session("fix"):
            pass


async def test_stopped_owner_is_waited_for(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    owner = machine.owner()
    os.kill(owner, signal.SIGSTOP)  # a laptop that sleeps
    call = machine.start("session", "prompt", "-s", "fix", "echo awake")
    listed = machine.start("session", "list", "--json")
    assert json.loads(listed.communicate(timeout=30)[0])[0]["state"] == "no response"
    assert call.poll() is None
    os.kill(owner, signal.SIGCONT)
    assert call.communicate(timeout=30)[0] == "awake\n"


def test_stopped_agent_is_waited_for(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    (agent,) = [
        pid for pid, words in machine.programs().items() if words[-2:] == ["agent", "script"]
    ]
    os.kill(agent, signal.SIGSTOP)
    call = machine.start("session", "prompt", "-s", "fix", "echo awake")
    eventually(lambda: any(getattr(e, "text", "") == "echo awake" for e in machine.entries()))
    assert not any(isinstance(entry, Ended) for entry in machine.entries())
    os.kill(agent, signal.SIGCONT)
    assert call.communicate(timeout=30)[0] == "awake\n"


def test_owner_leaves_after_its_time_without_use(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--ttl", "0.3")
    eventually(lambda: machine.owners() == [])
    assert "not used for 0.3 s" in (machine.record().last_exit or "")
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"


def test_listener_accepts_only_protocol_frames(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(os.fspath(socket_path(machine.record().id)))
        raw.settimeout(10)
        assert raw.recv(1) == b"\n"  # accepted
        raw.sendall(b"\x00garbage\n" * 10)
        assert b'"error"' in raw.recv(65536)
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"
